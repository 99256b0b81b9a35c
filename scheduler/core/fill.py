"""
How much of a node stays idle if the expected requests come: phi of FGDX. Pure.

    phi(node) = sum over S fixed sequences of K expected requests, each packed greedily onto the
                node alone, of the thousandths of cards that are idle afterwards

A request that goes where phi falls most uses what others could not. Cards cut for one tenant or
into tiles are counted as idle for ever: nobody else can use the rest, so filling it is a gain.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.dice import Dice, spread
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import IDLE, MODE_CODES, Bools, Ints, Inventory
from scheduler.core.kinds import WHOLE, Kind

STATES_AT_ONCE = 64  # bounds the memory of one step


@dataclass(frozen=True, slots=True)
class State:
    """
    Some nodes as phi sees them. ``usable``, ``model``: nodes by cards; ``stuck``: thousandths
    that are idle and that no expected request can use.
    """

    cpu: Ints
    ram: Ints
    usable: Ints
    model: Ints
    stuck: Ints


def state_of(room: Inventory, rows: Ints) -> State:
    mode, free = room.mode[rows], room.free[rows] * room.is_healthy[rows]
    is_loose = (mode == MODE_CODES["share_shared"]) & (room.tile[rows] == 0)
    usable = np.where((mode == IDLE) | is_loose, free, 0)
    return State(room.cpu[rows], room.ram[rows], usable, room.model[rows], (free - usable).sum(1))


class Fill:
    """phi of any node, remembered by what matters of it: equal nodes are packed once."""

    def __init__(
        self, room: Inventory, forecast: Forecast, *, sequences: int, length: int, seed: int
    ) -> None:
        self.sequences = sequences
        kinds = forecast.kinds
        drawn = spread(forecast.weights, sequences * length, Dice(seed))
        self._drawn = np.array(drawn, dtype=np.int64).reshape(sequences, length)
        self._count = np.array([kind.count for kind in kinds])
        self._milli = np.array([kind.milli if kind.count else 0 for kind in kinds])
        self._cpu = np.array([kind.cpu_milli for kind in kinds])
        self._ram = np.array([kind.ram_mib for kind in kinds])
        models = [{room.models.find(model) for model in kind.models} for kind in kinds]
        self._accepts = np.array(
            [
                [not some or code in some for code in range(len(room.models))] + [False]
                for some in models
            ]
        )
        # More than the greediest sequence asks for changes nothing: more nodes are equal.
        self._most_cpu = int(self._cpu[self._drawn].sum(axis=1).max())
        self._most_ram = int(self._ram[self._drawn].sum(axis=1).max())
        self._known: dict[bytes, int] = {}

    def phi(self, state: State) -> Ints:
        """Return phi of each node, in thousandths of cards times the number of sequences."""
        cpu = np.minimum(state.cpu, self._most_cpu)
        ram = np.minimum(state.ram, self._most_ram)
        model = np.where(state.usable > 0, state.model, -1)
        cards = np.sort(state.usable << 8 | (model + 1), axis=1)
        keys = np.concatenate((cpu[:, None], ram[:, None], cards), axis=1)
        texts = [key.tobytes() for key in keys]
        fresh = {text: at for at, text in enumerate(texts) if text not in self._known}
        if fresh:
            at = np.array(list(fresh.values()))
            idle = self._pack(cpu[at], ram[at], cards[at] >> 8, (cards[at] & 255) - 1)
            self._known.update(zip(fresh, idle.tolist(), strict=True))
        idle_of = np.array([self._known[text] for text in texts], dtype=np.int64)
        return state.stuck * self.sequences + idle_of

    def _pack(self, cpu: Ints, ram: Ints, free: Ints, model: Ints) -> Ints:
        parts = range(0, len(cpu), STATES_AT_ONCE)
        slices = [slice(start, start + STATES_AT_ONCE) for start in parts]
        return np.concatenate([self._pack_some(cpu[p], ram[p], free[p], model[p]) for p in slices])

    def _pack_some(self, cpu: Ints, ram: Ints, free: Ints, model: Ints) -> Ints:
        """Pack every sequence onto every node: arrays are nodes by sequences by cards."""
        cpu = np.repeat(cpu[:, None], self.sequences, axis=1)
        ram = np.repeat(ram[:, None], self.sequences, axis=1)
        free = np.repeat(free[:, None, :], self.sequences, axis=1)
        for drawn in self._drawn.T:
            milli, count = self._milli[drawn], self._count[drawn]
            accepts = self._accepts[drawn[None, :, None], model[:, None, :]]
            cards = accepts & (free >= milli[:, None]) & (count > 0)[:, None]
            fits = (cards.sum(axis=2) >= count) & (cpu >= self._cpu[drawn])
            fits &= ram >= self._ram[drawn]
            free -= _chosen(cards, free, count) * (fits * milli)[:, :, None]
            cpu -= fits * self._cpu[drawn]
            ram -= fits * self._ram[drawn]
        idle: Ints = free.sum(axis=(1, 2))
        return idle


def _chosen(cards: Bools, free: Ints, count: Ints) -> Bools:
    """Return the fullest card that can for one, the first that can for several (all are idle)."""
    key = np.where(cards, free, WHOLE + 1)
    single = np.zeros_like(cards)
    np.put_along_axis(single, key.argmin(axis=2)[:, :, None], True, axis=2)
    several = cards.cumsum(axis=2) <= count[:, None]
    return cards & np.where((count > 1)[:, None], several, single)


def after_share(state: State, column: int, kind: Kind) -> State:
    """Return the nodes with a share of this kind cut from one of their cards."""
    usable, stuck = state.usable.copy(), state.stuck.copy()
    was_usable = usable[:, column] > 0
    if kind.width:  # the rest of the card is for its tenant or its tile alone
        stuck += np.where(was_usable, usable[:, column], 0) - kind.milli
        usable[:, column] = 0
    else:
        usable[:, column] -= kind.milli
    return State(state.cpu - kind.cpu_milli, state.ram - kind.ram_mib, usable, state.model, stuck)


def after_whole(state: State, first: Ints, kind: Kind) -> State:
    """Return the nodes without ``count`` idle cards of the model of card ``first``."""
    same = state.model == state.model[np.arange(len(first)), first][:, None]
    idle = (state.usable == WHOLE) & same
    usable = np.where(idle & (idle.cumsum(axis=1) <= kind.count), 0, state.usable)
    return State(
        state.cpu - kind.cpu_milli, state.ram - kind.ram_mib, usable, state.model, state.stuck
    )
