"""
Which spot has to make room for a request that fits nowhere. Pure.

On each node the cheapest set of spot whose leaving makes the request fit in every dimension, with
nobody in it who could stay; of all nodes the cheapest. What fits, `scheduler.core.fits` says, on a
copy: nothing here has an opinion of its own. A gang leaves whole or not at all.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np

from scheduler.core.board import Board
from scheduler.core.fits import FITS, Sieve
from scheduler.core.inventory import Inventory
from scheduler.core.kinds import Kind
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.shapes import Mode

# Sets of so many on one node are all looked at; of more, those who cost most are spared in turn.
ALL_SETS: Final = 8
ROWS: Final = (
    *("cpu", "ram", "free", "vram", "taken", "mode", "tenant", "tile", "tile_vram", "has_media"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """
    A spot allocation that may be asked to leave. ``parts``: of each GPU, the bits of its cells and
    MiB. ``milli``: thousandths of cards; ``ran_s``: since it began. ``gang``: it leaves with all
    who have the same.
    """

    allocation: uuid.UUID
    tenant: uuid.UUID
    node: uuid.UUID
    mode: Mode
    parts: tuple[tuple[uuid.UUID, int, int], ...]
    milli: int
    cpu_milli: int = 0
    ram_mib: int = 0
    ran_s: int = 0
    gang: uuid.UUID | None = None


# Tenants hit, work lost (thousandths of cards x s), instances, how long the longest ran, their ids.
Cost: TypeAlias = tuple[int, int, int, int, tuple[uuid.UUID, ...]]
Unit: TypeAlias = tuple[Spot, ...]  # leaves together


@dataclass(frozen=True, slots=True)
class Victims:
    """Who has to leave, and the row of the node on which the request then fits."""

    row: int
    spots: tuple[Spot, ...]


def choose_victims(kind: Kind, room: Inventory, spots: Sequence[Spot]) -> Victims | None:
    """
    Return who has to leave for a request of this kind: nobody (None) if it fits already, or if no
    leaving would help. ``room`` stays as it is; the order of ``spots`` changes nothing.
    """
    everywhere = np.arange(len(room.nodes))
    sieve = Sieve(kind, room)
    reasons, _ = sieve.look(everywhere)
    if (reasons == FITS).any():
        return None
    units = _units_by_row(room, spots)
    trial = room.copy()
    found: list[tuple[Cost, Victims]] = []
    for row in sorted(units):
        if sieve.fixed[row] != FITS:
            continue
        if (chosen := _cheapest(kind, row, room, trial, units[row])) is not None:
            found.append((_cost(chosen), Victims(row, chosen)))
    return min(found, key=lambda one: (one[0], one[1].row))[1] if found else None


def plan_victims(
    asks: Sequence[tuple[uuid.UUID, Kind]],
    room: Inventory,
    spots: Sequence[Spot],
    promised: Sequence[tuple[Kind, Sequence[Spot]]] = (),
) -> list[tuple[uuid.UUID, Victims]]:
    """
    Return who has to leave for whom, for requests that wait, the first in turn first.

    Room that leaves for one is promised to it; what is left of it may be enough for the next, for
    which then nobody else has to leave. ``room`` stays as it is. ``promised``: who waits for whom
    to leave already; those places are nobody else's, whoever has left them.
    """
    future, staying, found = room.copy(), list(spots), []
    board = Board(future, BestFit(future))
    for kind, leaving in promised:
        _leave(future, leaving)
        if (chosen := board.choose(kind)) is not None:
            future.take(kind, *chosen)
    for ask, kind in asks:
        victims = choose_victims(kind, future, staying)
        if victims is not None:
            found.append((ask, victims))
            for spot in victims.spots:
                staying.remove(spot)
            _leave(future, victims.spots)
        if (chosen := board.choose(kind)) is not None:
            future.take(kind, *chosen)
    return found


def _leave(room: Inventory, spots: Iterable[Spot]) -> None:
    for spot in spots:
        if (row := room.row_of_node.get(spot.node)) is not None:
            room.free_up(row, spot.cpu_milli, spot.ram_mib, spot.mode, spot.parts)


def _units_by_row(room: Inventory, spots: Sequence[Spot]) -> dict[int, list[Unit]]:
    """Return who leaves together, by each row on which somebody of them is."""
    together: defaultdict[uuid.UUID, list[Spot]] = defaultdict(list)
    for spot in sorted(spots, key=lambda one: one.allocation):
        together[spot.gang or spot.allocation].append(spot)
    rows: defaultdict[int, list[Unit]] = defaultdict(list)
    for members in together.values():
        nodes = {member.node for member in members if member.node in room.row_of_node}
        for node in nodes:
            rows[room.row_of_node[node]].append(tuple(members))
    return rows


def _cheapest(
    kind: Kind, row: int, room: Inventory, trial: Inventory, units: Sequence[Unit]
) -> tuple[Spot, ...] | None:
    """Return the cheapest set whose leaving lets the request fit on this node, None for none."""

    def fits_without(leaving: Iterable[Unit]) -> bool:
        _reset(row, room, trial)
        for spot in _flat(leaving):
            if room.row_of_node.get(spot.node) == row:
                trial.free_up(row, spot.cpu_milli, spot.ram_mib, spot.mode, spot.parts)
        reason, _ = Sieve(kind, trial).look(np.array([row]))
        return bool(reason[0] == FITS)

    if not fits_without(units):
        return None
    if len(units) <= ALL_SETS:
        return next(_flat(some) for some in _sets(units) if fits_without(some))
    leaving = sorted(units, key=lambda unit: _cost(_flat([unit])), reverse=True)
    for unit in tuple(leaving):
        if fits_without([other for other in leaving if other is not unit]):
            leaving = [other for other in leaving if other is not unit]
    return _flat(leaving)


def _sets(units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    """Yield every set that is not empty, the cheapest first: one within another comes before it."""
    every = [some for size in range(1, len(units) + 1) for some in combinations(units, size)]
    yield from sorted(every, key=lambda some: _cost(_flat(some)))


def _flat(units: Iterable[Unit]) -> tuple[Spot, ...]:
    return tuple(sorted((one for unit in units for one in unit), key=lambda one: one.allocation))


def _cost(spots: Sequence[Spot]) -> Cost:
    return (
        len({spot.tenant for spot in spots}),
        sum(spot.milli * spot.ran_s for spot in spots),
        len(spots),
        max(spot.ran_s for spot in spots),
        tuple(spot.allocation for spot in spots),
    )


def _reset(row: int, room: Inventory, trial: Inventory) -> None:
    """Let one node of the trial be what it is in the room."""
    for name in ROWS:
        getattr(trial, name)[row] = getattr(room, name)[row]
