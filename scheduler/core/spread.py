"""How many members each zone gets, so that zones differ by no more than allowed. Pure, exact."""

from collections.abc import Sequence


def counts_of(
    members: int, *, have: Sequence[int], slots: Sequence[int], skew: int
) -> list[int] | None:
    """
    Return how many of ``members`` equal members each zone gets, or None if there is no way.

    ``have``: members that are in each zone already; ``slots``: how many more it could hold. After
    it the fullest and the emptiest zone differ by ``skew`` at the most. As even as can be: the
    level of the emptiest zone is as high as any way allows, then water is poured into the lowest.

    Cost: O(zones x members).
    """
    if not have:
        return None
    total = sum(have) + members
    for level in range(total // len(have), -1, -1):
        least = [max(here, level) for here in have]
        most = [min(here + more, level + skew) for here, more in zip(have, slots, strict=True)]
        if any(low > high for low, high in zip(least, most, strict=True)):
            continue
        if sum(least) <= total <= sum(most):
            return [full - here for full, here in zip(_pour(least, most, total), have, strict=True)]
    return None


def _pour(least: Sequence[int], most: Sequence[int], total: int) -> list[int]:
    """Raise the lowest zone by one, that with the most room first, until ``total`` are in."""
    filled = list(least)
    for _ in range(total - sum(least)):
        _, _, zone = min(
            (level, level - high, zone)
            for zone, (level, high) in enumerate(zip(filled, most, strict=True))
            if level < high
        )
        filled[zone] += 1
    return filled


def is_spread(counts: Sequence[int], *, skew: int, left: int = 0) -> bool:
    """Return whether ``left`` more members can still bring the zones within ``skew``."""
    if not counts:
        return left == 0
    return sum(max(0, max(counts) - skew - count) for count in counts) <= left
