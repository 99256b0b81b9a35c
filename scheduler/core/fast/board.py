"""A board that decides in machine code: interface and decisions of scheduler.core.board."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scheduler.core.board import REFUSED, Board
from scheduler.core.cells import HOLES, TILES
from scheduler.core.fast.choose import BLOCK, choose
from scheduler.core.fast.fill import KEY, SLOTS
from scheduler.core.fast.rate import BEST_FIT, FGD, FGDX, FIRST_FIT
from scheduler.core.fits import Sieve
from scheduler.core.inventory import MODE_CODES, Bools, Ints, Inventory
from scheduler.core.kinds import Kind
from scheduler.core.policies import Policy
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.policies.fgd import Fgd
from scheduler.core.policies.fgdx import Fgdx
from scheduler.core.policies.first_fit import FirstFit

CODES = {FirstFit: FIRST_FIT, BestFit: BEST_FIT, Fgd: FGD, Fgdx: FGDX}
MOST_CARDS = 16  # of a node: what a key of phi has room for
MOST_MODELS = 62


class Room(NamedTuple):
    cpu: Ints
    ram: Ints
    disk: Ints
    free: Ints
    vram: Ints
    memory: Ints
    taken: Ints
    mode: Ints
    tenant: Ints
    tile: Ints
    tile_vram: Ints
    model: Ints
    link: Ints
    is_healthy: Bools
    is_held: Bools
    stamp: Ints
    is_mixed: bool


class Wish(NamedTuple):
    cards: int
    milli: int
    width: int
    vram: int
    cpu: int
    ram: int
    disk: int
    mode: int
    tenant: int
    is_share: bool


class Fixed(NamedTuple):
    fixed: Ints
    cards: Bools
    starts: Any


class Marks(NamedTuple):
    score: Ints
    best: Ints
    column: Ints
    stamp: Ints
    lost: Ints
    pays: Bools
    can_leave: Bools


class Fragments(NamedTuple):
    weight: Ints
    need: Ints
    accepts: Bools
    steps: Ints


class Expected(NamedTuple):
    drawn: Ints
    need: Ints
    accepts: Bools
    most: Ints
    step: int
    cards: Ints
    key: Ints
    table: Ints
    known: Ints
    filled: Ints
    now: Ints
    stamp: Ints


class Slots(NamedTuple):
    need: Ints
    accepts: Bools
    demand: Ints
    total: int
    slack: int
    spare: int
    weight: int
    step: int


class Scarce(NamedTuple):
    members: Bools
    demand: Ints
    total: int
    slack: int
    weight: int
    step: int


class Fleet(NamedTuple):
    slots: Ints
    node_slots: Ints
    idle: Ints
    node_idle: Ints
    top: Ints


class Scratch(NamedTuple):
    cards: Bools
    usable: Ints
    after: Ints
    slots: Ints
    models: Ints
    rated: Ints
    columns: Ints


@dataclass(slots=True)
class _Kind:
    wish: Wish
    fixed: Fixed
    marks: Marks
    sieve: Sieve
    seen: int = 0  # entries of the log


class FastBoard(Board):
    def __init__(self, room: Inventory, policy: Policy) -> None:
        if room.columns > MOST_CARDS or len(room.models) > MOST_MODELS:
            raise ValueError("more cards on a node or more models than the compiled board knows")
        super().__init__(room, policy)
        self._code = CODES[type(policy)]
        self._kinds: dict[Kind, _Kind] = {}
        self._room = _room_of(room)
        nodes, models = len(room.nodes), len(room.models) + 1
        self._fragments = _fragments_of(policy, models)
        self._expected = _expected_of(policy, models, room)
        self._slots, self._scarce = _slots_of(policy, models), _scarce_of(policy, models)
        classes = len(self._slots.demand)
        self._fleet = Fleet(
            slots=_zeros(classes),
            node_slots=_zeros(classes, nodes),
            idle=_zeros(models),
            node_idle=_zeros(nodes, room.columns),
            top=_zeros(nodes),
        )
        self._scratch = Scratch(
            cards=np.zeros(room.columns, dtype=np.bool_),
            usable=_zeros(room.columns),
            after=_zeros(room.columns),
            slots=_zeros(classes),
            models=_zeros(models),
            rated=_zeros(room.columns),
            columns=_zeros(room.columns),
        )
        self._log = np.arange(nodes)  # at first every node is new
        self._logged = self._copied = 0

    def choose(self, kind: Kind) -> tuple[int, list[int]] | None:
        if kind.mode == "mig":
            return super().choose(kind)
        known = self._kinds.get(kind) or self._meet(kind)
        if kind.tenant is not None:  # may have got his number since
            known.wish = known.wish._replace(tenant=self.room.tenants.find(kind.tenant))
        fresh, self._logged = self._logged, self._note_moves()
        seen, known.seen = known.seen, self._logged
        row = choose(
            self._log[: self._logged],
            fresh,
            seen,
            known.wish,
            self._room,
            known.fixed,
            known.marks,
            self._code,
            self._fragments,
            self._expected,
            self._slots,
            self._scarce,
            self._fleet,
            self._scratch,
        )
        if row < 0:
            return None
        if not kind.count:
            return row, []
        if kind.is_share or kind.count == 1:
            return row, [int(known.marks.column[row])]
        return row, self._scratch.columns[: kind.count].tolist()

    def count_reasons(self, kind: Kind) -> dict[str, int]:
        return (self._kinds.get(kind) or self._meet(kind)).sieve.count_reasons()

    def _note_moves(self) -> int:
        """Copy the rows that have moved into our log; return how long it is."""
        moved = self.room.changed[self._copied :]
        self._copied += len(moved)
        if not self._logged:
            return len(self.room.nodes)
        end = self._logged + len(moved)
        if end > len(self._log):
            self._log = np.concatenate((self._log, np.zeros(max(end, 1_024), dtype=np.int64)))
        self._log[self._logged : end] = moved
        return end

    def _meet(self, kind: Kind) -> _Kind:
        sieve, nodes = Sieve(kind, self.room), len(self.room.nodes)
        table = HOLES if kind.mode == "share_tenant" else TILES
        pays, can_leave = _rights_of(self.policy, kind)
        known = self._kinds[kind] = _Kind(
            wish=Wish(
                cards=kind.count,
                milli=kind.milli,
                width=kind.width,
                vram=kind.vram_mib,
                cpu=kind.cpu_milli,
                ram=kind.ram_mib,
                disk=kind.disk_mib,
                mode=MODE_CODES[kind.mode],
                tenant=self.room.tenants.find(kind.tenant),
                is_share=kind.is_share,
            ),
            fixed=Fixed(sieve.fixed, np.ascontiguousarray(sieve.cards), table[kind.width]),
            marks=Marks(
                score=np.full(nodes, REFUSED, dtype=np.int64),
                best=np.full(-(-nodes // BLOCK), REFUSED, dtype=np.int64),
                column=_zeros(nodes),
                stamp=np.full(nodes, -1, dtype=np.int64),
                lost=_zeros(nodes),
                pays=pays,
                can_leave=can_leave,
            ),
            sieve=sieve,
        )
        return known


def _zeros(*shape: int) -> Ints:
    return np.zeros(shape, dtype=np.int64)


def _room_of(room: Inventory) -> Room:
    return Room(*(getattr(room, name) for name in Room._fields))


def _fragments_of(policy: Policy, models: int) -> Fragments:
    if not isinstance(policy, Fgd):
        return Fragments(_zeros(0), _zeros(0, 4), np.zeros((0, models), dtype=np.bool_), _zeros(0))
    return Fragments(policy.weight, policy.need.table, policy.need.accepts, policy.steps)


def _expected_of(policy: Policy, models: int, room: Inventory) -> Expected:
    is_fgdx = isinstance(policy, Fgdx)
    size = SLOTS if is_fgdx else 1
    fill = policy.fill if isinstance(policy, Fgdx) else None
    return Expected(
        drawn=fill.drawn if fill else _zeros(0, 0),
        need=fill.need.table if fill else _zeros(0, 4),
        accepts=fill.need.accepts if fill else np.zeros((0, models), dtype=np.bool_),
        most=np.array([fill.most_cpu, fill.most_ram] if fill else [0, 0], dtype=np.int64),
        step=policy.step if isinstance(policy, Fgdx) else 1,
        cards=_zeros(room.columns),
        key=_zeros(KEY),
        table=_zeros(size, KEY),
        known=np.full(size, -1, dtype=np.int64),
        filled=_zeros(1),
        now=_zeros(len(room.nodes)),
        stamp=np.full(len(room.nodes), -1, dtype=np.int64),
    )


def _slots_of(policy: Policy, models: int) -> Slots:
    if not isinstance(policy, Fgdx):
        empty = np.zeros((0, models), dtype=np.bool_)
        return Slots(_zeros(0, 4), empty, _zeros(0), 1, 0, 0, 0, 1)
    guard, chosen = policy.guard, policy.parameters
    return Slots(
        need=guard.need.table,
        accepts=guard.need.accepts,
        demand=np.array(guard.demand, dtype=np.int64),
        total=guard.total,
        slack=chosen.guard_slack,
        spare=chosen.spare * 1_000,
        weight=chosen.guard_weight,
        step=chosen.step,
    )


def _scarce_of(policy: Policy, models: int) -> Scarce:
    if not isinstance(policy, Fgdx):
        return Scarce(np.zeros((0, models), dtype=np.bool_), _zeros(0), 1, 0, 0, 1)
    scarcity, chosen = policy.scarcity, policy.parameters
    return Scarce(
        members=scarcity.members,
        demand=np.array(scarcity.demand, dtype=np.int64),
        total=scarcity.total,
        slack=chosen.scarcity_slack,
        weight=chosen.scarcity_weight,
        step=chosen.step,
    )


def _rights_of(policy: Policy, kind: Kind) -> tuple[Bools, Bools]:
    if not isinstance(policy, Fgdx):
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    return policy.guard.pays(kind), policy.scarcity.can_leave(kind)
