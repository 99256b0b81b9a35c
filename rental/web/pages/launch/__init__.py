"""The launch page: what is offered, what it would cost, and the order. One page, no wizard."""
