"""Slots for large jobs, and what it costs to break one. Pure; see policies/fgdx.py."""

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.core.fill import State, after_shares, after_whole, state_of
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.needs import Needs

if TYPE_CHECKING:
    from scheduler.core.policies.fgdx import Parameters

HARD: Final = 1_000_000  # more than any rating: what is needed is taken last
MOST_CLASSES: Final = 15


class Guard:
    """
    How many jobs of each large kind every node could still hold, and what each kind of request
    would take of that on each node.
    """

    def __init__(self, room: Inventory, forecast: Forecast, parameters: "Parameters") -> None:
        self._room, self._parameters = room, parameters
        self._classes = _classes(forecast)
        self.need = Needs(self._classes, room)
        np.maximum(self.need.table[:, 2:], 1, out=self.need.table[:, 2:])  # divided by
        self.demand = [_demand(one, forecast) for one in self._classes]
        self.total = max(forecast.total_milli, 1)
        self._lost: dict[Kind, Ints] = {}
        everywhere = np.arange(len(room.nodes))
        state = state_of(room, everywhere)
        self._slots = self._slots_of(state)
        self._idle = state.usable.sum(axis=1)
        self._seen = len(room.changed)

    def note(self, kind: Kind, rows: Ints, columns: Ints) -> None:
        """Store what a request of this kind would take of each of these nodes' slots."""
        if not self._classes:
            return
        if kind not in self._lost:
            shape = (len(self._classes), len(self._room.nodes))
            self._lost[kind] = np.zeros(shape, dtype=np.int64)
        self._catch_up()
        lost = self._lost[kind]
        lost[:, rows] = 0
        holds = self._slots[:, rows].any(axis=0)  # most that have moved hold no large job any more
        rows, columns = rows[holds], columns[holds]
        if not rows.size:
            return
        state = state_of(self._room, rows)
        if kind.is_share:
            after = after_shares(state, columns, kind)
        else:
            after = after_whole(state, columns, kind)
        lost[:, rows] = self._slots[:, rows] - self._slots_of(after)

    def pays(self, kind: Kind) -> Bools:
        """Return of which classes a request of this kind pays for the slots: not of its own."""
        return np.array([not _covers(kind, one) for one in self._classes], dtype=np.bool_)

    def prices(self, kind: Kind) -> Ints | None:
        """Return what the slots that a request would break on each node are worth."""
        if not self._classes or kind not in self._lost:  # none large, or it fits nowhere
            return None
        self._catch_up()
        worth = self._worth() * self.pays(kind)
        used = np.flatnonzero(worth)
        if not used.size:
            return None
        total: Ints = np.einsum("c,cn", worth[used], self._lost[kind][used])
        return total

    def _worth(self) -> Ints:
        """Return the price of one slot of each class as the fleet stands."""
        chosen = self._parameters
        idle, prices = int(self._idle.sum()), []
        slots = self._slots.sum(axis=1)
        for one, demand, have in zip(self._classes, self.demand, slots.tolist(), strict=True):
            # In thousandths of a slot.
            need = idle * demand * (1_000 + chosen.guard_slack) // self.total
            need += chosen.spare * 1_000
            if have <= -(-need // 1_000):
                prices.append(HARD * one.count)
                continue
            ratio = need // have  # thousandths
            soft = chosen.guard_weight * one.count * ratio * ratio
            prices.append(soft // (chosen.step * 1_000_000))
        return np.array(prices, dtype=np.int64)

    def _catch_up(self) -> None:
        changed = self._room.changed[self._seen :]
        self._seen += len(changed)
        if changed:
            rows = np.array(sorted(set(changed)))
            state = state_of(self._room, rows)
            self._slots[:, rows] = self._slots_of(state)
            self._idle[rows] = state.usable.sum(axis=1)

    def _slots_of(self, state: State) -> Ints:
        """Return how many jobs of each class fit together, classes by nodes."""
        idle = state.usable == WHOLE
        cards = (self.need.accepts[:, state.model] & idle).sum(axis=2)
        slots = np.minimum(cards // self.need.count[:, None], state.cpu // self.need.cpu[:, None])
        found: Ints = np.minimum(slots, state.ram // self.need.ram[:, None])
        return found


def _classes(forecast: Forecast) -> list[Kind]:
    """Return the large kinds that are guarded: those that ask for the most cards altogether."""
    large = forecast.large()
    if len(large) <= MOST_CLASSES:
        return large
    weight = dict(forecast.pairs)
    ranked = sorted(large, key=lambda kind: -weight[kind] * kind.count)[:MOST_CLASSES]
    return [kind for kind in large if kind in ranked]


def _demand(one: Kind, forecast: Forecast) -> int:
    """Return how many slots of this class one heap of the forecast asks for, larger jobs too."""
    return sum(
        weight * -(-kind.count // one.count)
        for kind, weight in forecast.pairs
        if _covers(kind, one) and kind.count > 1
    )


def _covers(kind: Kind, one: Kind) -> bool:
    """Return whether the kind needs at least what the class needs, and can run nowhere else."""
    return (
        kind.milli == WHOLE
        and kind.count >= one.count
        and kind.cpu_milli >= one.cpu_milli
        and kind.ram_mib >= one.ram_mib
        and (not one.models or (bool(kind.models) and set(kind.models) <= set(one.models)))
    )
