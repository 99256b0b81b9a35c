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
class Use:
    """
    ``tenths`` and ``vram_mib`` of the slice; ``busy_percent``: of the slice, exceeded in five of a
    hundred minutes; ``vram_peak_mib``: the highest.
    """

    tenths: int
    vram_mib: int
    busy_percent: int
    vram_peak_mib: int


def needed_tenths(use: Use, *, least: int = 1, most: int = CELLS) -> int:
    """Return the smallest slice that holds this use with room to spare, within the bounds."""
    busy = _up(use.tenths * use.busy_percent * (100 + BUSY_SPARE), 100 * 100)
    memory = _up(use.tenths * use.vram_peak_mib * (100 + MEMORY_SPARE), 100 * use.vram_mib)
    return min(max(busy, memory, least), most)


def next_tenths(use: Use, *, least: int = 1, most: int = CELLS) -> int:
    """Return what to go to now: up at once, down one step, so that a quiet hour costs little."""
    needed = needed_tenths(use, least=least, most=most)
    return needed if needed >= use.tenths else max(needed, use.tenths - 1)


def _up(number: int, by: int) -> int:
    return -(-number // by) if by else 0
