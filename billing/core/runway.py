"""
When the money ends, in closed form. Pure; instants are whole microseconds since the epoch.

Runs that share a price burn along the same line, so that a tenant with a thousand runs is a
handful of ``Burn`` rows: their number and the sum of the instants up to which they are proven.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from billing.core.rating import price_of_ticks

_MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True)
class Burn:
    """
    ``runs`` open runs under one price. ``steps``: (since, price an hour) in order of time; every
    anchor lies in the first step. ``anchors``: the sum over the runs of the instant at which
    their first tick begins that is neither charged nor in ``unposted``.
    """

    steps: tuple[tuple[int, int], ...]
    share: Fraction
    runs: int
    anchors: int


def reserve(burn: Burn) -> int:
    """
    Return what the line may miss, micro-units: a started tick counts whole (one tick a run, at
    the highest price ahead), and each price version rounds once.
    """
    highest = max(price for _, price in burn.steps)
    tick = price_of_ticks(1, price=highest, share=burn.share) + 1
    return burn.runs * (tick + len(burn.steps))


def exhausts_at(funds: int, burns: Sequence[Burn]) -> int | None:
    """
    Return the last microsecond at which all runs may be closed and still be paid from ``funds``
    (micro-units: posted + credit limit − unposted). None if nothing burns.

    Never late: a run closed then has at most one started tick more than the line says, and
    ``reserve`` keeps its price back. It may lie in the past when the funds are gone.
    """
    if not burns:
        return None
    common = lcm(*(burn.share.denominator for burn in burns))
    weights = [
        burn.runs * burn.share.numerator * (common // burn.share.denominator) for burn in burns
    ]
    # cost(t) x scale = slope x t − offset, piecewise; at a price step both change, cost does not.
    scale = common * _MICROSECONDS_PER_HOUR
    budget = (funds - sum(reserve(burn) for burn in burns)) * scale
    slope = sum(w * burn.steps[0][1] for w, burn in zip(weights, burns, strict=True))
    offset = sum(
        w // burn.runs * burn.steps[0][1] * burn.anchors
        for w, burn in zip(weights, burns, strict=True)
    )
    bends = sorted(
        (since, weight * (price - burn.steps[i][1]))
        for weight, burn in zip(weights, burns, strict=True)
        for i, (since, price) in enumerate(burn.steps[1:])
    )
    for since, change in bends:
        if slope > 0 and (end := (budget + offset) // slope) < since:
            return end
        slope += change
        offset += change * since
    return (budget + offset) // slope if slope > 0 else None
