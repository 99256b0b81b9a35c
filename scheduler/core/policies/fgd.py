"""
Fragmentation gradient descent: the node that a request fragments least. Pure.

A card is a fragment to an expected kind if that kind cannot use it: too little is left on it, or
its node has no CPU, memory or cards enough. Each request goes where the fragments of the typical
kinds, by their frequency, grow least (or shrink most).

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, with its steps of a hundredth of
a sigmoid and its ties by the order of nodes: without these two it loses five points.
"""

from collections import Counter
from dataclasses import replace
from math import ceil, log

import numpy as np

from scheduler.core.alike import Known, first_alike, keys_of
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.needs import Needs
from scheduler.core.policies import Plain
from scheduler.core.sets import Sets

TYPICAL = 95  # of a hundred requests; rarer kinds are not looked at
NODES_AT_ONCE = 256  # bounds the memory of one step


class Fgd(Plain):
    def __init__(self, room: Inventory, forecast: Forecast) -> None:
        self._room = room
        typical = Forecast.of(_without_memory(forecast)).typical(TYPICAL)
        self.weight = np.array(typical.weights, dtype=np.int64)
        self.need = Needs(typical.kinds, room)
        self.steps = _steps(int(self.weight.sum()))
        self._known = Known(self._fragments)

    def rate_bare(self, kind: Kind, rows: Ints) -> Ints:
        return self._rate(kind, rows, np.arange(len(rows)), self._room.free[rows])

    def rate_whole(self, kind: Kind, rows: Ints, sets: Sets) -> Ints:
        before, model = self._room.free[rows], self._room.model[rows]
        same = model == model[np.arange(len(rows)), sets.first][:, None]
        idle = (before == WHOLE) & same
        after = np.where(idle & (idle.cumsum(axis=1) <= kind.count), 0, before)
        return self._rate(kind, rows, np.arange(len(rows)), after)

    def rate_share(self, kind: Kind, rows: Ints, cards: Bools) -> Ints:
        free, model = self._room.free[rows], self._room.model[rows]
        first = first_alike(cards, free, model)
        at, columns = np.nonzero(cards & (first == np.arange(cards.shape[1])))
        after = free[at]
        after[np.arange(len(at)), columns] -= kind.milli
        rated = np.zeros(cards.shape, dtype=np.int64)
        rated[at, columns] = self._rate(kind, rows, at, after)
        return np.take_along_axis(rated, first, axis=1)

    def _rate(self, kind: Kind, rows: Ints, at: Ints, free: Ints) -> Ints:
        """Rate each of these nodes ``rows[at]`` for what would be ``free`` on it afterwards."""
        room = self._room
        cpu, ram, model = room.cpu[rows], room.ram[rows], room.model[rows]
        before = keys_of(cpu, ram, room.free[rows], model)
        after = keys_of(cpu[at] - kind.cpu_milli, ram[at] - kind.ram_mib, free, model[at])
        wasted = self._known.of(np.concatenate((before, after)))
        return np.searchsorted(self.steps, wasted[at] - wasted[len(rows) :], side="right")

    def _fragments(self, keys: Ints) -> Ints:
        parts = [keys[at : at + NODES_AT_ONCE] for at in range(0, len(keys), NODES_AT_ONCE)]
        return np.concatenate([self._fragments_of_some(part) for part in parts])

    def _fragments_of_some(self, keys: Ints) -> Ints:
        """Return the thousandths of each node that are fragments, weighted by kinds."""
        need = self.need
        cpu, ram, free, model = keys[:, 0], keys[:, 1], keys[:, 2:] >> 8, (keys[:, 2:] & 255) - 1
        usable = need.accepts[:, model] & (free >= need.milli[:, None, None])  # kind, node, card
        fits = (usable.sum(axis=2) >= need.count[:, None]) & (need.count > 0)[:, None]
        fits &= (cpu >= need.cpu[:, None]) & (ram >= need.ram[:, None])
        useful = np.where(fits, (usable * free).sum(axis=2), 0)
        wasted: Ints = (self.weight[:, None] * (free.sum(axis=1) - useful)).sum(axis=0)
        return wasted


def _without_memory(forecast: Forecast) -> Counter[Kind]:
    """The published policy knows kinds by CPU, cards and models; memory divides none of them."""
    counts: Counter[Kind] = Counter()
    for kind, weight in forecast.pairs:
        counts[replace(kind, ram_mib=0)] += weight
    return counts


def _steps(total_weight: int) -> Ints:
    """
    Return the gains from which int(100 sigmoid(gain / 1000)) is 1, 2, … 99, gains being weighted
    by ``total_weight``: whole numbers, so that no rounding of a machine decides.
    """
    return np.array(
        [ceil(total_weight * 1_000 * log(step / (100 - step))) for step in range(1, 100)],
        dtype=np.int64,
    )
