"""What it costs to take a card of a model that others are tied to. Pure; see policies/fgdx.py."""

from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.fill import state_of
from scheduler.core.forecast import Forecast
from scheduler.core.guard import HARD
from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import Kind

if TYPE_CHECKING:
    from scheduler.core.policies.fgdx import Parameters


class Scarcity:
    def __init__(self, room: Inventory, forecast: Forecast, parameters: "Parameters") -> None:
        self._room, self._parameters = room, parameters
        self._sets = forecast.sets_of_models()
        self.members = np.array(
            [[model in some for model in room.models] + [False] for some in self._sets],
            dtype=np.bool_,
        ).reshape(len(self._sets), len(room.models) + 1)
        self.demand = [
            sum(w * k.total_milli for k, w in forecast.pairs if k.models and set(k.models) <= some)
            for some in self._sets
        ]
        self.total = max(forecast.total_milli, 1)
        self._model: dict[Kind, Ints] = {}  # of the card that each node would give
        self._seen = -1
        self._free = np.zeros(len(room.models) + 1, dtype=np.int64)  # by model

    def note(self, kind: Kind, rows: Ints, columns: Ints) -> None:
        if self._sets and kind.count:
            models = self._model.setdefault(
                kind, np.full(len(self._room.nodes), -1, dtype=np.int64)
            )
            models[rows] = self._room.model[rows, columns]

    def can_leave(self, kind: Kind) -> Bools:
        """Return from which sets of models a request of this kind could go elsewhere."""
        tied = [bool(kind.models) and set(kind.models) <= some for some in self._sets]
        return ~np.array(tied, dtype=np.bool_)

    def prices(self, kind: Kind) -> Ints | None:
        """Return the price of each node's card to a request of this kind."""
        if not self._sets or kind not in self._model:  # no ties, no card, or it fits nowhere
            return None
        self._catch_up()
        idle = int(self._free.sum())
        by_model = np.zeros(len(self._room.models) + 1, dtype=np.int64)
        leaves = self.can_leave(kind)
        for members, leave, demand in zip(self.members, leaves, self.demand, strict=True):
            if not leave:
                continue
            have = int(self._free[members].sum())
            by_model[members] += self._worth(kind, have=have, idle=idle, demand=demand)
        return by_model[self._model[kind]]

    def _worth(self, kind: Kind, *, have: int, idle: int, demand: int) -> int:
        chosen = self._parameters
        need = idle * demand * (1_000 + chosen.scarcity_slack) // (self.total * 1_000)
        milli = kind.total_milli
        if need >= have:
            return HARD // 1_000 * milli // chosen.step
        ratio = 1_000 * need // have  # thousandths; each step stays inside 64 bits
        fourth = (ratio * ratio // 1_000) ** 2 // 1_000
        return chosen.scarcity_weight * milli * fourth // (chosen.step * 1_000_000)

    def _catch_up(self) -> None:
        if self._seen == len(self._room.changed):
            return
        changed = self._room.changed[max(self._seen, 0) :]
        if self._seen < 0:
            self._by_node = np.zeros((len(self._room.nodes), len(self._free)), dtype=np.int64)
            rows = np.arange(len(self._room.nodes))
        else:
            rows = np.array(sorted(set(changed)))
        self._seen = len(self._room.changed)
        state = state_of(self._room, rows)
        fresh = np.zeros((len(rows), len(self._free)), dtype=np.int64)
        np.add.at(fresh, (np.arange(len(rows))[:, None], state.model), state.usable)
        self._free += (fresh - self._by_node[rows]).sum(axis=0)
        self._by_node[rows] = fresh
