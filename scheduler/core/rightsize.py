"""
How large a slice should be for what it was seen to do. Pure; tenths of a card, memory in MiB.

The 95th of a hundred minutes with a fifth to spare, and the highest memory with a tenth to spare.
Source: reference/scheduler.md §4.7; §0.2 has what it was worth on a public duty cycle.
"""

from dataclasses import dataclass

from scheduler.core.shapes import CELLS

BUSY_SPARE = 20  # percent
MEMORY_SPARE = 10  # percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """
    ``tenths`` and ``vram_mib`` of the slice; ``busy_percent``: of the slice, exceeded in five of a
    hundred minutes; ``vram_peak_mib``: the highest.
    """

    tenths: int
    vram_mib: int
    busy_percent: int
    vram_peak_mib: int


def needed_tenths(seen: Seen) -> int:
    """Return the smallest slice that holds this with room to spare; a whole card at the most."""
    busy = _up(seen.tenths * seen.busy_percent * (100 + BUSY_SPARE), 100 * 100)
    memory = _up(seen.tenths * seen.vram_peak_mib * (100 + MEMORY_SPARE), 100 * seen.vram_mib)
    return min(max(busy, memory, 1), CELLS)


def _up(number: int, by: int) -> int:
    return -(-number // by) if by else 0
