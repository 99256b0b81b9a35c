"""
When a gang that does not fit will: a reservation in time (EASY backfill). Pure.

Source: Lifka, "The ANL/IBM SP scheduling system", 1995.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.board import Board
from scheduler.core.bonds import Bond
from scheduler.core.gangs import seat
from scheduler.core.inventory import Inventory
from scheduler.core.kinds import Kind
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.shapes import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """
    What an allocation gives back ``at_s`` seconds from now. ``parts``: of each, the GPU, the bits
    of its cells, MiB. Its disks stay.
    """

    at_s: int
    node: uuid.UUID
    mode: Mode
    cpu_milli: int
    ram_mib: int
    parts: tuple[tuple[uuid.UUID, int, int], ...]


@dataclass(frozen=True, slots=True)
class Shadow:
    """From when on the gang fits, in seconds from now, and on which rows of nodes."""

    at_s: int
    rows: tuple[int, ...]


def shadow_of(
    kinds: Sequence[Kind],
    bond: Bond,
    room: Inventory,
    ends: Sequence[End],
    *,
    shut: Sequence[int] = (),
) -> Shadow | None:
    """
    Return when the gang fits at the earliest if nothing ends but what is known to, None if never.
    ``room`` stays as it is. More room never keeps a gang out, so halving finds the moment.
    """
    times = sorted({max(end.at_s, 0) for end in ends})
    known: dict[int, tuple[int, ...] | None] = {}

    def rows_at(index: int) -> tuple[int, ...] | None:
        if index not in known:
            known[index] = _rows_after(kinds, bond, room, ends, times[index], shut)
        return known[index]

    if not times or rows_at(len(times) - 1) is None:
        return None
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        if rows_at(middle) is None:
            low = middle + 1
        else:
            high = middle
    return Shadow(times[low], rows_at(low) or ())


def _rows_after(
    kinds: Sequence[Kind],
    bond: Bond,
    room: Inventory,
    ends: Sequence[End],
    until: int,
    shut: Sequence[int],
) -> tuple[int, ...] | None:
    later = room.copy()
    for end in ends:
        if end.at_s <= until and (row := room.row_of_node.get(end.node)) is not None:
            later.free_up(row, end.cpu_milli, end.ram_mib, end.mode, end.parts)
    seats = seat(kinds, bond, Board(later, BestFit(later)), shut=shut).seats
    return None if seats is None else tuple(sorted({row for row, _ in seats}))
