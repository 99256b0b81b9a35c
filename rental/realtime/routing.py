"""
WebSocket routes of the web process (browsers).

Empty until the console arrives. Each entry must also be classified in
``tests/api/test_matrix.py``; an unclassified route fails there.
"""

from typing import Any

websocket_urlpatterns: list[Any] = []
