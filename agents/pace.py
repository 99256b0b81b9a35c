"""How fast the loop of a node goes, and how long it waits for a runtime."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """Seconds. ``look``: between passes; ``hurry``: the same while something moves."""

    look: float = 1.0
    hurry: float = 0.1
    inspect: float = 2.0
    call: float = 10.0
    retry: float = 2.0
    prune: float = 3600.0
