"""
FGDX: expected fill, a guard for large jobs, a price for scarce models, ties to the first. Pure.

    rating(node, p) = floor((phi(node) - phi(node after p)) / (S q))      scheduler.core.fill
                    - sum over large kinds c of price_c * slots of c that p costs the node
                    - scarcity of the model of the card

    need_c  = idle * demand_c / total_demand * (1 + slack) + z     of slots, for the whole fleet
    price_c = HARD * cards_c                            if there are no more slots than needed
            = W * cards_c * 1000/q * (need_c/slots_c)^2 otherwise
    scarcity = HARD/1000 * milli/q                      if what is tied to a set of models needs it
             = W2 * milli/q * (need/free)^4             otherwise, for whoever can go elsewhere

``demand_c`` counts every kind that needs at least as much and can run nowhere else. All numbers
are whole: weights and slacks in thousandths. Source: ours; docs/adr/0008-scheduler.md.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.alike import first_alike
from scheduler.core.fill import Fill, State, after_shares, after_whole, both, state_of
from scheduler.core.forecast import Forecast
from scheduler.core.guard import Guard
from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import Kind
from scheduler.core.policies import Plain
from scheduler.core.scarcity import Scarcity
from scheduler.core.sets import Sets


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """
    ``sequences``, ``length``: S and K of phi. ``step``: q, thousandths of a card that count as
    one. Weights and slacks in thousandths; ``spare``: z, slots kept above what is expected.
    """

    sequences: int = 64
    length: int = 7
    step: int = 10
    guard_weight: int = 300
    guard_slack: int = 300
    spare: int = 1
    scarcity_weight: int = 1_000
    scarcity_slack: int = 50
    seed: int = 1


# Better for a fleet that fills up once and is never left; worse where instances come and go.
FILLING_UP = Parameters(sequences=32, length=40, step=30)


class Fgdx(Plain):
    def __init__(
        self, room: Inventory, forecast: Forecast, parameters: Parameters = Parameters()
    ) -> None:
        self._room = room
        self.parameters = parameters
        self.step = parameters.step * parameters.sequences
        self.fill = Fill(
            room,
            forecast,
            sequences=parameters.sequences,
            length=parameters.length,
            seed=parameters.seed,
        )
        self.guard = Guard(room, forecast, parameters)
        self.scarcity = Scarcity(room, forecast, parameters)

    def rate_bare(self, kind: Kind, rows: Ints) -> Ints:
        state = state_of(self._room, rows)
        return self._gain(state, after_whole(state, rows * 0, kind))

    def rate_whole(self, kind: Kind, rows: Ints, sets: Sets) -> Ints:
        state = state_of(self._room, rows)
        return self._gain(state, after_whole(state, sets.first, kind))

    def rate_share(self, kind: Kind, rows: Ints, cards: Bools) -> Ints:
        state = state_of(self._room, rows)
        first = first_alike(cards, state.usable, state.model)
        at, columns = np.nonzero(cards & (first == np.arange(cards.shape[1])))
        phi = self.fill.phi(both(state, after_shares(state.rows(at), columns, kind)))
        rated = np.zeros(cards.shape, dtype=np.int64)
        rated[at, columns] = (phi[at] - phi[len(rows) :]) // self.step
        return np.take_along_axis(rated, first, axis=1)

    def _gain(self, before: State, after: State) -> Ints:
        phi = self.fill.phi(both(before, after))
        return (phi[: len(before.cpu)] - phi[len(before.cpu) :]) // self.step

    def note(self, kind: Kind, rows: Ints, columns: Ints) -> None:
        self.guard.note(kind, rows, columns)
        self.scarcity.note(kind, rows, columns)

    def prices(self, kind: Kind) -> Ints | None:
        guard, scarcity = self.guard.prices(kind), self.scarcity.prices(kind)
        if guard is None or scarcity is None:
            return scarcity if guard is None else guard
        return guard + scarcity
