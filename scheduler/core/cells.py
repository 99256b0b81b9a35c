"""Tenths of a card: where in a mask of taken cells a share may lie. Pure."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.core.kinds import Kind
from scheduler.core.shapes import CELLS

ALL_CELLS: Final = (1 << CELLS) - 1


def bits_of(cells: Iterable[tuple[int, int]]) -> int:
    """Return half-open ranges of cells as bits: bit k is cell k."""
    return sum((1 << until) - (1 << first) for first, until in cells)


def _hole_start(taken: int, width: int) -> int:
    """Return where the smallest hole of at least ``width`` free cells begins, -1 if none."""
    holes = []
    start = 0
    for cell in range(CELLS + 1):
        if cell == CELLS or taken >> cell & 1:
            if cell - start >= width:
                holes.append((cell - start, start))
            start = cell + 1
    return min(holes)[1] if holes else -1


def _tile_start(taken: int, width: int) -> int:
    """Return where the first free tile begins, -1 if none. Tiles begin at multiples of width."""
    tile = (1 << width) - 1
    for start in range(0, CELLS - width + 1, width):
        if not taken & tile << start:
            return start
    return -1


MASKS: Final = range(ALL_CELLS + 1)
# Indexed [width][taken]; row 0 is never used.
HOLES: Final = np.array(
    [[_hole_start(taken, width) for taken in MASKS] for width in range(CELLS + 1)], dtype=np.int8
)
TILES: Final = np.array(
    [[_tile_start(taken, max(width, 1)) for taken in MASKS] for width in range(CELLS + 1)],
    dtype=np.int8,
)
FREE_CELLS: Final = np.array([CELLS - taken.bit_count() for taken in MASKS], dtype=np.int64)


def start_of(kind: Kind, taken: int) -> int:
    """Return the first cell of a share on a card with these cells taken, -1 if it needs none."""
    if not kind.width:
        return -1
    table = HOLES if kind.mode == "share_tenant" else TILES
    return int(table[kind.width][taken])
