"""The entry gate: what a start needs and what is held for it. Pure; amounts in micro-units."""


def least_for(burn: int) -> int:
    """Return what must be left for a start of ``burn`` an hour: half of it, rounded up."""
    return -(-burn // 2)


def held_for(burn: int, *, left: int) -> int | None:
    """Return what is held for one start: an hour, or what is left; None below half an hour."""
    return min(burn, max(0, left)) if left >= least_for(burn) else None


def held_for_several(burn: int, *, count: int, left: int) -> int | None:
    """Return what is held for ``count`` equal starts, one after another; None if one is refused."""
    total = 0
    for _ in range(count):
        held = held_for(burn, left=left - total)
        if held is None:
            return None
        total += held
    return total


def least_for_several(burn: int, *, count: int) -> int:
    """Return what must be left for ``count`` equal starts: an hour of each but the last."""
    return burn * (count - 1) + least_for(burn) if count else 0
