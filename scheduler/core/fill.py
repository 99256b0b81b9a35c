"""
How much of a node stays idle if the expected requests come: phi of FGDX. Pure.

    phi(node) = sum over S fixed sequences of K expected requests, each packed greedily onto the
                node alone, of the thousandths of cards that are idle afterwards

A request that goes where phi falls most uses what others could not. Cards cut for one tenant or
into tiles are counted as idle for ever: nobody else can use the rest, so filling it is a gain.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.alike import Known, keys_of
from scheduler.core.dice import Dice, spread
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import IDLE, MODE_CODES, Bools, Ints, Inventory
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.needs import Needs

STATES_AT_ONCE = 256  # bounds the memory of one step


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

    def rows(self, at: Ints) -> "State":
        return State(self.cpu[at], self.ram[at], self.usable[at], self.model[at], self.stuck[at])


def state_of(room: Inventory, rows: Ints) -> State:
    mode, free = room.mode[rows], room.free[rows] * room.is_healthy[rows]
    is_loose = (mode == MODE_CODES["share_shared"]) & (room.tile[rows] == 0)
    usable = np.where((mode == IDLE) | is_loose, free, 0)
    return State(room.cpu[rows], room.ram[rows], usable, room.model[rows], (free - usable).sum(1))


def both(first: State, second: State) -> State:
    """Return the nodes of the one and then those of the other."""
    return State(
        np.concatenate((first.cpu, second.cpu)),
        np.concatenate((first.ram, second.ram)),
        np.concatenate((first.usable, second.usable)),
        np.concatenate((first.model, second.model)),
        np.concatenate((first.stuck, second.stuck)),
    )


class Fill:
    def __init__(
        self, room: Inventory, forecast: Forecast, *, sequences: int, length: int, seed: int
    ) -> None:
        self.sequences = sequences
        drawn = spread(forecast.weights, sequences * length, Dice(seed))
        self.drawn = np.array(drawn, dtype=np.int64).reshape(sequences, length)
        self.need = Needs(forecast.kinds, room)
        # More than the greediest sequence asks for changes nothing: more nodes are equal.
        self.most_cpu = int(self.need.cpu[self.drawn].sum(axis=1).max())
        self.most_ram = int(self.need.ram[self.drawn].sum(axis=1).max())
        self._known = Known(self._pack)

    def phi(self, state: State) -> Ints:
        """Return phi of each node, in thousandths of cards times the number of sequences."""
        cpu = np.minimum(state.cpu, self.most_cpu)
        ram = np.minimum(state.ram, self.most_ram)
        keys = keys_of(cpu, ram, state.usable, state.model)
        return state.stuck * self.sequences + self._known.of(keys)

    def _pack(self, keys: Ints) -> Ints:
        parts = [keys[at : at + STATES_AT_ONCE] for at in range(0, len(keys), STATES_AT_ONCE)]
        return np.concatenate([self._pack_some(part) for part in parts])

    def _pack_some(self, keys: Ints) -> Ints:
        """Pack every sequence onto every node: arrays are nodes by sequences by cards."""
        need, sequences = self.need, self.sequences
        cpu = np.repeat(keys[:, :1], sequences, axis=1)
        ram = np.repeat(keys[:, 1:2], sequences, axis=1)
        free = np.repeat(keys[:, None, 2:] >> 8, sequences, axis=1)
        model = (keys[:, 2:] & 255) - 1
        for drawn in self.drawn.T:
            milli, count = need.milli[drawn], need.count[drawn]
            cards = need.accepts[drawn[None, :, None], model[:, None, :]]
            cards &= (free >= milli[:, None]) & (count > 0)[:, None]
            fits = (cards.sum(axis=2) >= count) & (cpu >= need.cpu[drawn])
            fits &= ram >= need.ram[drawn]
            free -= _chosen(cards, free, count) * (fits * milli)[:, :, None]
            cpu -= fits * need.cpu[drawn]
            ram -= fits * need.ram[drawn]
        idle: Ints = free.sum(axis=(1, 2))
        return idle


def _chosen(cards: Bools, free: Ints, count: Ints) -> Bools:
    """Return the fullest card that can for one, the first that can for several (all are idle)."""
    columns = np.arange(cards.shape[2])
    single = columns == np.where(cards, free, WHOLE + 1).argmin(axis=2)[:, :, None]
    many = np.flatnonzero(count > 1)
    single[:, many] = cards[:, many].cumsum(axis=2) <= count[many, None]
    chosen: Bools = cards & single
    return chosen


def after_shares(state: State, columns: Ints, kind: Kind) -> State:
    """Return each node with a share of this kind cut from its own column."""
    usable, stuck, at = state.usable.copy(), state.stuck, (np.arange(len(columns)), columns)
    if kind.width:  # the rest of the card is for its tenant or its tile alone
        stuck = stuck + usable[at] - kind.milli
        usable[at] = 0
    else:
        usable[at] -= kind.milli
    return State(state.cpu - kind.cpu_milli, state.ram - kind.ram_mib, usable, state.model, stuck)


def after_whole(state: State, first: Ints, kind: Kind) -> State:
    """Return the nodes without ``count`` idle cards of the model of card ``first``."""
    same = state.model == state.model[np.arange(len(first)), first][:, None]
    idle = (state.usable == WHOLE) & same
    usable = np.where(idle & (idle.cumsum(axis=1) <= kind.count), 0, state.usable)
    return State(
        state.cpu - kind.cpu_milli, state.ram - kind.ram_mib, usable, state.model, state.stuck
    )
