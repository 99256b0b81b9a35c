"""First fit: the first node that can, and on it the card that fits best. Pure."""

from scheduler.core.policies import Plain


class FirstFit(Plain):
    """Every node is as good as the next, so the order of the inventory decides."""
