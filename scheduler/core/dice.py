"""Draws that are the same on every machine, Python and NumPy. Pure."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

MASK: Final = (1 << 64) - 1


class Dice:
    """SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, one seed."""

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK

    def draw(self) -> int:
        """Return the next 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & MASK
        z = self._state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return z ^ z >> 31

    def below(self, end: int) -> int:
        """Return one of 0 … end-1; uneven by less than 2^-40 for any fleet."""
        return self.draw() % end

    def shuffle(self, values: list[int]) -> None:
        for last in range(len(values) - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]


def spread(weights: Sequence[int], count: int, dice: Dice) -> list[int]:
    """
    Return ``count`` indices, each as often as its weight says to within one, in a random order.

    Systematic sampling: equal steps through the heap of weights from a random start. Independent
    draws would miss a rare kind in one run and see it three times in the next.
    """
    ends = list(accumulate(weights))
    start = dice.below(ends[-1])
    drawn, index = [], 0
    for step in range(count):
        at = (start + step * ends[-1] // count) % ends[-1]
        if step and at < (start + (step - 1) * ends[-1] // count) % ends[-1]:
            index = 0  # passed the end of the heap
        while ends[index] <= at:
            index += 1
        drawn.append(index)
    dice.shuffle(drawn)
    return drawn
