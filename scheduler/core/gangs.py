"""
Gangs: members that are placed together or not at all. Pure.

A gang is planned by taking seats in the inventory and giving all of them back if one is missing,
so nothing is held while it waits, and two gangs never wait for each other. It lies in the smallest
domain that holds it (node, rack, zone, region), of those in the fullest; inside, the region's
policy chooses. Equal members fit exactly when their slots suffice; of mixed ones the scarcest are
seated first, and other nodes are tried for a while before the gang is refused.

Source: reference/scheduler.md §4.3; docs/adr/0009-gangs.md.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from scheduler.core.board import Board
from scheduler.core.bonds import Bond
from scheduler.core.fits import FITS, Sieve
from scheduler.core.inventory import Bools, Cut, Ints, Inventory
from scheduler.core.kinds import Kind
from scheduler.core.shapes import CELLS
from scheduler.core.slots import slots_of
from scheduler.core.spread import counts_of, is_spread

Seat: TypeAlias = tuple[int, tuple[Cut, ...]]  # row of a node, and what was taken there

MOST_DOMAINS: Final = 3  # of one size that a mixed gang tries
MOST_STEPS: Final = 500  # seats that it tries there beyond its own
LEVELS: Final = {"rack": 2, "zone": 3, "": 4}


@dataclass(frozen=True, slots=True)
class Seating:
    """``seats``: one a member, in their order, None if the gang waits. ``best``: how many would
    have found one. ``lacking``: the kind of member that did not."""

    seats: list[Seat] | None
    best: int
    lacking: Kind


def seat(kinds: Sequence[Kind], bond: Bond, board: Board, *, shut: Collection[int] = ()) -> Seating:
    """
    Seat a gang and take what it gets out of the inventory; leave that bit for bit as it was if
    it does not fit. ``shut``: rows of nodes on which no member may lie.
    """
    return _Search(kinds, bond, board, shut).run()


class _Search:
    def __init__(
        self, kinds: Sequence[Kind], bond: Bond, board: Board, shut: Collection[int]
    ) -> None:
        self._kinds, self._bond, self._board = kinds, bond, board
        self._room = board.room
        self._need = Counter(kinds)
        self._mates = [
            self._room.row_of_node[node] for node in bond.mates if node in self._room.row_of_node
        ]
        self._open = self._openings(shut)
        self._slots = {kind: self._slots_of(kind) for kind in self._need}
        self._order = sorted(
            range(len(kinds)),
            key=lambda i: (int(self._slots[kinds[i]].sum()), -kinds[i].total_milli, i),
        )
        self._seats: dict[int, Seat] = {}
        self._best, self._lacking = 0, kinds[self._order[0]]
        self._steps = 0

    def run(self) -> Seating:
        for rows in self._domains():
            if self._fill(rows):
                return Seating(
                    [self._seats[i] for i in range(len(self._kinds))],
                    len(self._kinds),
                    self._lacking,
                )
        return Seating(None, self._best, self._lacking)

    def _openings(self, shut: Collection[int]) -> Bools:
        room, bond = self._room, self._bond
        openings = np.ones(len(room.nodes), dtype=np.bool_)
        openings[list(shut)] = False
        if bond.is_alone_on_a_node:
            openings[self._mates] = False
        if bond.together and self._mates:  # the members that run say where
            codes = room.rack if bond.together == "rack" else room.zone
            openings &= np.isin(codes, codes[self._mates])
        return openings

    def _slots_of(self, kind: Kind) -> Ints:
        slots = np.where(self._open, slots_of(kind, self._room), 0)
        return np.minimum(slots, 1) if self._bond.is_alone_on_a_node else slots

    def _domains(self) -> Iterator[Bools]:
        """Yield the nodes of each domain that may hold the gang: small ones, then full ones."""
        room = self._room
        levels = [np.arange(len(room.nodes)), room.rack, room.zone, room.region]
        if self._bond.spread_skew is not None:
            levels = levels[3:]
        else:
            levels = levels[: LEVELS[self._bond.together]]
        if len(self._kinds) == 1:  # lies in one domain of each size anyhow; the policy chooses
            levels = levels[-1:]
        for codes in levels:
            for code in self._fitting(codes)[:MOST_DOMAINS]:
                yield self._open & (codes == code)

    def _fitting(self, codes: Ints) -> list[int]:
        """Return the domains with slots for every kind, those with the fewest first."""
        size = int(codes.max(initial=-1)) + 1
        totals = {kind: _sums(slots, codes, size) for kind, slots in self._slots.items()}
        fits = np.ones(size, dtype=np.bool_)
        everything = np.zeros(size, dtype=np.int64)
        seated = np.zeros(size, dtype=np.int64)
        for kind, need in self._need.items():
            fits &= totals[kind] >= need
            everything += totals[kind]
            seated += np.minimum(totals[kind], need)
        if not fits.any() and size:
            self._note_shortage(totals, int(seated.argmax()), int(seated.max()))
        return sorted(np.flatnonzero(fits).tolist(), key=lambda code: (everything[code], code))

    def _note_shortage(self, totals: Mapping[Kind, Ints], domain: int, seated: int) -> None:
        if seated >= self._best:
            self._best = seated
            for kind, need in self._need.items():
                if totals[kind][domain] < need:
                    self._lacking = kind

    def _fill(self, rows: Bools) -> bool:
        self._steps = len(self._kinds) + MOST_STEPS
        if self._bond.spread_skew is None:
            return self._descend(0, rows, None)
        zones = self._zones()
        have = _sums_at(self._room.zone[self._mates], zones)
        if len(self._need) > 1:
            return self._descend(0, rows, dict(zip(zones, have, strict=True)))
        [(kind, need)] = self._need.items()
        totals = _sums(self._slots[kind], self._room.zone, len(self._room.zones))
        slots = [int(totals[zone]) for zone in zones]
        skew = self._bond.spread_skew
        for members in range(need, 0, -1):
            counts = counts_of(members, have=have, slots=slots, skew=skew)
            if counts is not None:
                if members == need:
                    break
                self._best, self._lacking = max(self._best, members), kind
                return False
        else:
            self._best, self._lacking = 0, kind
            return False
        return self._pour(rows, dict(zip(zones, counts, strict=True)))

    def _pour(self, rows: Bools, counts: Mapping[int, int]) -> bool:
        """Seat so many equal members in each zone; their slots say that they fit."""
        first = 0
        for zone, count in counts.items():
            here = rows & (self._room.zone == zone)
            for at in range(first, first + count):
                if not self._sit(self._order[at], here):
                    self._rise(at)
                    return False
                if self._bond.is_alone_on_a_node:
                    here[self._seats[self._order[at]][0]] = False
            first += count
        return True

    def _rise(self, upto: int) -> None:
        for index in self._order[:upto]:
            self._leave(index)

    def _zones(self) -> list[int]:
        """Return the zones that count: where a member could ever lie, or one does."""
        room = self._room
        possible = np.zeros(len(room.nodes), dtype=np.bool_)
        for kind in self._need:
            possible |= Sieve(kind, room).fixed == FITS
        possible[self._mates] = True
        return sorted({int(zone) for zone in room.zone[possible]})

    def _descend(self, at: int, rows: Bools, counts: dict[int, int] | None) -> bool:
        """Seat the members from ``at`` on, or none of them."""
        if at == len(self._order):
            return True
        index, left = self._order[at], rows.copy()
        while self._steps > 0:
            self._steps -= 1
            if not self._sit(index, left):
                if at >= self._best:
                    self._best, self._lacking = at, self._kinds[index]
                return False
            row = self._seats[index][0]
            further = rows
            if self._bond.is_alone_on_a_node:
                further = rows.copy()
                further[row] = False
            if self._keeps_spread(at, row, counts, 1) and self._descend(at + 1, further, counts):
                return True
            self._keeps_spread(at, row, counts, -1)
            self._leave(index)
            left[row] = False
        return False

    def _keeps_spread(self, at: int, row: int, counts: dict[int, int] | None, step: int) -> bool:
        """Count this member (or take it back); return whether the rest can still be even."""
        if counts is None:
            return True
        counts[int(self._room.zone[row])] += step
        skew = self._bond.spread_skew
        left = len(self._order) - at - 1
        return is_spread(list(counts.values()), skew=skew or 0, left=left)

    def _sit(self, index: int, rows: Bools) -> bool:
        kind = self._kinds[index]
        chosen = self._board.choose_among(kind, rows)
        if chosen is None:
            return False
        row, columns = chosen
        self._seats[index] = row, self._room.take(kind, row, columns)
        return True

    def _leave(self, index: int) -> None:
        row, cuts = self._seats.pop(index)
        self._room.give_back(self._kinds[index], row, cuts)


def _sums(slots: Ints, codes: Ints, size: int) -> Ints:
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, codes, slots)
    return totals


def _sums_at(codes: Ints, wanted: Sequence[int]) -> list[int]:
    counts = Counter(codes.tolist())
    return [counts[code] for code in wanted]


def nodes_to_hold(
    kinds: Sequence[Kind], bond: Bond, room: Inventory, *, shut: Collection[int] = ()
) -> list[int]:
    """
    Return the rows of the nodes that are kept free for a gang of which nobody knows when it will
    fit: of one domain that could hold it if it were empty, those with most idle thousandths.
    """
    kind = max(kinds, key=lambda one: (one.total_milli, one.cpu_milli))
    sieve = Sieve(kind, room)
    parts = sieve.cards.sum(axis=1) // max(kind.count, 1)
    if kind.is_share and kind.width:
        parts = sieve.cards.sum(axis=1) * (CELLS // kind.width)
    if bond.is_alone_on_a_node:
        parts = np.minimum(parts, 1)
    parts = np.where((sieve.fixed == FITS) & ~room.is_held, parts, 0)
    parts[list(shut)] = 0
    free = (sieve.cards * room.free).sum(axis=1)
    codes = {"rack": room.rack, "zone": room.zone}.get(bond.together, room.region)
    size = int(codes.max(initial=-1)) + 1
    large = np.flatnonzero(_sums(parts, codes, size) >= len(kinds))
    if not large.size:
        return []
    most = max(large.tolist(), key=lambda code: (int(free[codes == code].sum()), -code))
    rows, found = [], 0
    for row in sorted(np.flatnonzero((codes == most) & (parts > 0)), key=lambda r: (-free[r], r)):
        if found >= len(kinds):
            break
        rows.append(int(row))
        found += int(parts[row])
    return rows
