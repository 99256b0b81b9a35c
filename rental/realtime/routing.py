"""
WebSocket routes of the web process (browsers).

Each entry must also be classified in ``tests/api/test_matrix.py``; an unclassified route fails
there.
"""

from typing import Any

from django.urls import path, re_path

from rental.realtime.live import live, nowhere

websocket_urlpatterns: list[Any] = [
    path("ws/t/<slug:tenant>", live, name="live"),  # type: ignore[arg-type]  # an ASGI application
    re_path(r"^", nowhere),  # type: ignore[arg-type]
]
