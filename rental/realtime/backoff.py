"""How long to wait before the next try, so that many do not return at once."""

import random


class Backoff:
    """Full jitter below a bound that doubles with each failure. Seconds."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def next(self) -> float:
        bound = min(self._longest, self._first * 2 ** min(self._failures, 16))
        self._failures += 1
        return random.uniform(bound / 4, bound)

    def reset(self) -> None:
        self._failures = 0
