"""
The operator's purpose pages inside the admin: setup, fleet, queue, occupancy, credit, prices.

A face like ``rental.api`` and ``rental.web``: it may read every room below and changes rows only
through their services. Pages of one room's own rows stay in that room's ``admin.py``.
"""
