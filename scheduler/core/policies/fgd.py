"""
Fragmentation gradient descent: the node that a request fragments least. Pure.

A card is a fragment to an expected kind if that kind cannot use it: too little is left on it, or
its node has no CPU, memory or cards enough. Each request goes where the fragments of the typical
kinds, by their frequency, grow least (or shrink most).

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, with its steps of a hundredth of
a sigmoid and its ties by the order of nodes: without these two it loses five points.
"""

from math import ceil, log

import numpy as np

from scheduler.core.forecast import Forecast
from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.policies import Plain
from scheduler.core.sets import Sets

TYPICAL = 95  # of a hundred requests; rarer kinds are not looked at
ROWS_AT_ONCE = 256  # bounds the memory of one step


class Fgd(Plain):
    def __init__(self, room: Inventory, forecast: Forecast) -> None:
        self._room = room
        typical = forecast.typical(TYPICAL)
        kinds = typical.kinds
        self._weight = np.array(typical.weights, dtype=np.int64)
        self._count = np.array([kind.count for kind in kinds])
        self._milli = np.array([kind.milli if kind.count else 0 for kind in kinds])
        self._cpu = np.array([kind.cpu_milli for kind in kinds])
        self._ram = np.array([kind.ram_mib for kind in kinds])
        models = [{room.models.find(model) for model in kind.models} for kind in kinds]
        # [kind, model]; the last column is for places without a card, whose model is -1.
        self._accepts = np.array(
            [
                [not some or code in some for code in range(len(room.models))] + [False]
                for some in models
            ]
        )
        self._steps = _steps(int(self._weight.sum()))

    def rate_bare(self, kind: Kind, rows: Ints) -> Ints:
        free = self._room.free[rows]
        return self._rate(kind, rows, free, free)

    def rate_whole(self, kind: Kind, rows: Ints, sets: Sets) -> Ints:
        before = self._room.free[rows]
        model = self._room.model[rows]
        same = model == model[np.arange(len(rows)), sets.first][:, None]
        idle = (before == WHOLE) & same
        after = np.where(idle & (idle.cumsum(axis=1) <= kind.count), 0, before)
        return self._rate(kind, rows, before, after)

    def rate_share(self, kind: Kind, rows: Ints, cards: Bools) -> Ints:
        before = self._room.free[rows]
        rated = np.zeros_like(before)
        for column in np.flatnonzero(cards.any(axis=0)):
            at = np.flatnonzero(cards[:, column])
            after = before[at].copy()
            after[:, column] -= kind.milli
            rated[at, column] = self._rate(kind, rows[at], before[at], after)
        return rated

    def _rate(self, kind: Kind, rows: Ints, before: Ints, after: Ints) -> Ints:
        room = self._room
        cpu, ram, model = room.cpu[rows], room.ram[rows], room.model[rows]
        rated = np.zeros(len(rows), dtype=np.int64)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            gain = self._fragments(cpu[part], ram[part], before[part], model[part])
            gain -= self._fragments(
                cpu[part] - kind.cpu_milli, ram[part] - kind.ram_mib, after[part], model[part]
            )
            rated[part] = np.searchsorted(self._steps, gain, side="right")
        return rated

    def _fragments(self, cpu: Ints, ram: Ints, free: Ints, model: Ints) -> Ints:
        """Return the thousandths of each node that are fragments, weighted by kinds."""
        usable = self._accepts[:, model] & (free >= self._milli[:, None, None])  # kind, node, card
        fits = usable.sum(axis=2) >= self._count[:, None]
        fits &= (
            (cpu >= self._cpu[:, None]) & (ram >= self._ram[:, None]) & (self._count > 0)[:, None]
        )
        whole = free.sum(axis=1)
        useful = np.where(fits, (usable * free).sum(axis=2), 0)
        wasted: Ints = (self._weight[:, None] * (whole - useful)).sum(axis=0)
        return wasted


def _steps(total_weight: int) -> Ints:
    """
    Return the gains from which int(100 sigmoid(gain / 1000)) is 1, 2, … 99, gains being weighted
    by ``total_weight``: whole numbers, so that no rounding of a machine decides.
    """
    return np.array(
        [ceil(total_weight * 1_000 * log(step / (100 - step))) for step in range(1, 100)],
        dtype=np.int64,
    )
