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
        self._steps = [self._step(kinds) for kinds in self.drawn.T]
        self._known = Known(self._pack)

    def _step(self, kinds: Ints) -> "_Step":
        need = self.need
        return _Step(
            cpu=need.cpu[kinds],
            ram=need.ram[kinds],
            milli=need.milli[kinds],
            count=need.count[kinds],
            is_one=need.count[kinds] == 1,
            is_bare=need.count[kinds] == 0,
            has_bare=bool((need.count[kinds] == 0).any()),
            many=np.flatnonzero(need.count[kinds] > 1),
            accepts=need.accepts[kinds],
            is_tied=not need.accepts[kinds][:, :-1].all(),
        )

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
        # Cards are sorted: those that have nothing left on any node stand first.
        first = 2 + int((keys[:, 2:] > 0).any(axis=0).argmax())
        room = _Room(keys[:, 0], keys[:, 1], keys[:, first:], self)
        for step in self._steps:
            room.place(step)
        return room.idle()


@dataclass(frozen=True, slots=True)
class _Step:
    """What each sequence asks for at one place of it; ``many``: the sequences of several cards."""

    cpu: Ints
    ram: Ints
    milli: Ints
    count: Ints
    is_one: Bools
    is_bare: Bools
    has_bare: bool
    many: Ints
    accepts: Bools  # sequences by models
    is_tied: bool  # any of them to models


class _Room:
    """Some nodes, once for every sequence."""

    def __init__(self, cpu: Ints, ram: Ints, cards: Ints, fill: Fill) -> None:
        self.cpu = np.repeat(cpu[:, None], fill.sequences, axis=1)
        self.ram = np.repeat(ram[:, None], fill.sequences, axis=1)
        self.free = np.repeat(cards[:, None, :] >> 8, fill.sequences, axis=1)
        self.model = (cards & 255) - 1
        self.at = np.ix_(np.arange(len(cpu)), np.arange(fill.sequences))
        # What cannot run out is not looked at: nodes are many, and each step is many small ones.
        self.has_cpu, self.has_ram = cpu.min() >= fill.most_cpu, ram.min() >= fill.most_ram
        self.most_idle = int((cards >> 8 == WHOLE).sum(axis=1).max())

    def place(self, step: _Step) -> None:
        """Place what each sequence asks for where it fits."""
        can = self.free >= step.milli[:, None]
        if step.is_tied:
            can &= step.accepts[:, self.model].swapaxes(0, 1)
        # The fullest card for one, the first for several, which are all idle.
        left = np.where(can, self.free, WHOLE + 1)
        column = left.argmin(axis=2)
        fits = (left[(*self.at, column)] <= WHOLE) & step.is_one
        if not self.has_cpu:
            fits &= self.cpu >= step.cpu
        if not self.has_ram:
            fits &= self.ram >= step.ram
        self.free[(*self.at, column)] -= fits * step.milli
        if step.many.size and self.most_idle > 1:
            fits[:, step.many] = self._place_many(step, can)
        if step.has_bare:
            fits |= step.is_bare & (self.cpu >= step.cpu) & (self.ram >= step.ram)
        if not self.has_cpu:
            self.cpu -= fits * step.cpu
        if not self.has_ram:
            self.ram -= fits * step.ram

    def _place_many(self, step: _Step, can: Bools) -> Bools:
        many, count = step.many, step.count[step.many]
        cards = can[:, many]
        fits: Bools = cards.sum(axis=2) >= count
        fits &= (self.cpu[:, many] >= step.cpu[many]) & (self.ram[:, many] >= step.ram[many])
        taken = cards & (cards.cumsum(axis=2) <= count[:, None]) & fits[:, :, None]
        self.free[:, many] -= taken * step.milli[many, None]
        return fits

    def idle(self) -> Ints:
        idle: Ints = self.free.sum(axis=(1, 2))
        return idle


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
