"""
One pass of placement over whole GPUs, tenths and MIG instances. Pure.

Equal inputs give equal plans, in whatever order the inventory was read.

Source: docs/adr/0003-agent-protocol-and-liveness.md has what is placed on a silent node (nothing).
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from scheduler.core.board import Board
from scheduler.core.boards import Way, make_board, make_policy
from scheduler.core.bonds import Bond
from scheduler.core.fits import DIMENSIONS, FITS, Sieve
from scheduler.core.forecast import Forecast
from scheduler.core.groups import Groups
from scheduler.core.heads import Heads
from scheduler.core.inventory import IDLE, Cut, Inventory
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.queue import Line, Use
from scheduler.core.shadow import End
from scheduler.core.shapes import CELLS, Shape

__all__ = [
    "DIMENSIONS",
    "Ask",
    "Decision",
    "Part",
    "Place",
    "Rules",
    "Wait",
    "count_places",
    "plan",
]

DEFAULT_POLICY: Final = "best_fit"
MANY_NODES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """
    One request as a pass sees it. ``node``: where its disks pin it. ``disk_mib``: what it needs on
    top, 0 once its disks exist. ``is_releasing``: its last allocation still holds its place.
    ``is_failover``: it lost its place. ``is_promised``: spot was told to leave for it; ``leaving``:
    nodes that some of that spot has left and some has not, which are kept for it.
    ``waited_s``: since when it was asked for. ``lasts_s``: how long it runs at the most, if that
    is known. ``bond``: what ties it to others.
    """

    id: uuid.UUID
    tenant: uuid.UUID
    shape: Shape
    region: str
    zone: str | None = None
    node: uuid.UUID | None = None
    disk_mib: int = 0
    is_releasing: bool = False
    market: str = "on_demand"
    is_failover: bool = False
    is_promised: bool = False
    leaving: tuple[uuid.UUID, ...] = ()
    waited_s: int = 0
    lasts_s: int | None = None
    bond: Bond | None = None

    @property
    def is_replacement(self) -> bool:
        """Its gang runs already, without it."""
        return self.bond is not None and self.bond.is_replacement

    @property
    def kind(self) -> Kind:
        shape = self.shape
        tenths = {"whole": CELLS, "mig": 0}.get(shape.mode, shape.tenths)
        return Kind(
            mode=shape.mode,
            count=shape.count,
            milli=tenths * WHOLE // CELLS,
            width=tenths,
            models=shape.gpu_models,
            vram_mib=shape.vram_mib,
            cpu_milli=shape.cpu_milli,
            ram_mib=shape.ram_mib,
            disk_mib=self.disk_mib,
            region=self.region,
            zone=self.zone,
            node=self.node,
            # A card of one tenant is open to that tenant alone; all else is blind to tenants.
            tenant=self.tenant if shape.mode == "share_tenant" else None,
            profile=shape.profile,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    Cells [from_cell, until_cell) of one GPU, with ``vram_mib`` of its memory; of a MIG instance
    memory slices.
    """

    gpu: uuid.UUID
    from_cell: int
    until_cell: int
    vram_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    ask: uuid.UUID
    node: uuid.UUID
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """``reasons``: nodes per dimension that refused; they add up to the number of nodes."""

    ask: uuid.UUID
    reasons: dict[str, int]


Decision: TypeAlias = Place | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    How a pass decides. ``policies``: by region, best fit where none is named. ``forecast``: what
    is expected. ``held``, ``total``: what tenants have and what there is; ``weights``: see Line.
    ``reserves``: by region, how many nodes are kept for what loses its place. ``ends``: what is
    known to end, and when; read for gangs that have waited long.
    """

    policies: Mapping[str, str] = field(default_factory=dict)
    forecast: Forecast = Forecast((), ())
    held: Mapping[uuid.UUID, Use] = field(default_factory=dict)
    total: Use = Use()
    weights: Mapping[uuid.UUID, int] = field(default_factory=dict)
    reserves: Mapping[str, int] = field(default_factory=dict)
    ends: Sequence[End] = ()


def plan(asks: Sequence[Ask], inventory: Inventory, rules: Rules = Rules()) -> list[Decision]:
    """
    Decide one pass: one decision an ask, in the same order. What cannot be placed holds up nobody
    behind it, but for the large who have waited long. Writes what it gives away into ``inventory``.

    ``asks``: first come first; whose turn it is, Line says. Equal asks that were refused once are
    not looked at again: within a pass room only shrinks.
    """
    return _Pass(asks, inventory, rules).decide()


class _Pass:
    def __init__(self, asks: Sequence[Ask], inventory: Inventory, rules: Rules) -> None:
        self._asks, self._room, self._rules = asks, inventory, rules
        self._boards: dict[str, Board] = {}
        self._refused: dict[Kind, dict[str, int]] = {}
        self._decisions: dict[uuid.UUID, Decision] = {}
        self._groups = Groups(asks)
        self._heads = Heads(self._room, self._groups, rules.ends)

    def decide(self) -> list[Decision]:
        self._in_line([ask for ask in self._asks if ask.is_failover])
        self._keep_reserves()
        promised = [ask for ask in self._asks if ask.is_promised]
        self._in_line([ask for ask in promised if ask.id not in self._decisions])
        self._keep_promised(promised)
        self._let_hold()
        self._in_line([ask for ask in self._asks if ask.id not in self._decisions])
        return [self._decisions[ask.id] for ask in self._asks]

    def _in_line(self, waiting: Sequence[Ask]) -> None:
        """Let each choose in its turn."""
        rules = self._rules
        line = Line(waiting, held=rules.held, total=rules.total, weights=rules.weights)
        for index in line:
            ask = waiting[index]
            if ask.id in self._decisions:  # with its gang
                continue
            if isinstance(self._ask(ask), Place):
                for member in self._groups.of(ask):
                    line.placed(member)

    def _keep_reserves(self) -> None:
        """
        Keep the emptiest nodes of each region from all but those who lost their place, who have
        chosen already. Not a node to which somebody's disks bind him: he has no other.
        """
        reserves = self._rules.reserves
        if not any(reserves.values()):
            return
        bound = {ask.node for ask in self._asks if ask.node is not None}
        for row in reserved_rows(self._room, reserves, bound=bound):
            self._room.hold(row)
        self._refused.clear()

    def _keep_promised(self, promised: Sequence[Ask]) -> None:
        """Let nobody have the half of a place whose other half is still to be left."""
        kept = {
            self._room.row_of_node[node]
            for ask in promised
            if isinstance(self._decisions[ask.id], Wait)
            for node in ask.leaving
            if node in self._room.row_of_node
        }
        for row in sorted(kept):
            self._room.hold(row)
        if kept:
            self._refused.clear()

    def _let_hold(self) -> None:
        """Let in each region the oldest that may hold nodes choose first, and keep them for it."""
        waiting = [ask for ask in self._asks if not isinstance(self._decisions.get(ask.id), Place)]
        for ask in self._heads.of(waiting):
            if isinstance(self._ask(ask), Wait):
                self._heads.hold_for(ask, self._board(ask))

    def _ask(self, ask: Ask) -> Decision:
        """Decide one, with all of its gang."""
        if ask.bond is not None:
            self._decide_gang(ask, self._groups.of(ask))
        else:
            self._decisions[ask.id] = self._decide(ask)
        return self._decisions[ask.id]

    def _decide(self, ask: Ask) -> Decision:
        if ask.is_releasing:
            return Wait(ask=ask.id, reasons={"releasing": 1})
        kind, board = ask.kind, self._board(ask)
        if kind not in self._refused:
            if (place := _place(ask, kind, board)) is not None:
                return place
            self._refused[kind] = board.count_reasons(kind)
        if self._heads.may_pass([ask]):  # over before the nodes that are kept are needed
            with self._heads.lifted(ask.region):
                place = _place(ask, kind, board)
            if place is not None:
                return place
        return Wait(ask=ask.id, reasons=dict(self._refused[kind]))

    def _decide_gang(self, ask: Ask, members: Sequence[Ask]) -> None:
        """Place all members, or let all wait."""
        groups, board = self._groups, self._board(ask)
        seats, reasons = groups.place(ask, board)
        if seats is None and "gang" in reasons and self._heads.may_pass(members):
            with self._heads.lifted(ask.region):
                seats, _ = groups.place(ask, board, is_again=True)
        for index, member in enumerate(members):
            self._decisions[member.id] = (
                Wait(ask=member.id, reasons=dict(reasons))
                if seats is None
                else _place_of(member, self._room, *seats[index])
            )

    def _board(self, ask: Ask) -> Board:
        name = self._rules.policies.get(ask.region, DEFAULT_POLICY)
        if name not in self._boards:
            policy = make_policy(name, self._room, self._rules.forecast)
            self._boards[name] = make_board(self._room, policy, way=_way(self._room))
        return self._boards[name]


def reserved_rows(
    room: Inventory, reserves: Mapping[str, int], *, bound: Collection[uuid.UUID] = ()
) -> list[int]:
    """Return the rows of the nodes with the most idle cards, so many of each region, by region."""
    usable = room.is_live & ~room.is_cordoned & ~room.is_cleaning
    idle = ((room.mode == IDLE) & room.is_healthy & room.exists).sum(axis=1)
    rows: list[int] = []
    for region, count in sorted(reserves.items()):
        here = [
            row
            for row, node in enumerate(room.nodes)
            if node.region == region and usable[row] and idle[row] and node.id not in bound
        ]
        rows += sorted(here, key=lambda row: (-int(idle[row]), row))[:count]
    return rows


def _way(room: Inventory) -> Way:
    """Compiling is loaded for a second, which small fleets do not give back."""
    return "best" if len(room.nodes) >= MANY_NODES else "numpy"


def _place(ask: Ask, kind: Kind, board: Board) -> Place | None:
    """Place one ask and take what it gets out of the inventory, or return None."""
    if (chosen := board.choose(kind)) is None:
        return None
    row, columns = chosen
    return _place_of(ask, board.room, row, board.room.take(kind, row, columns))


def _place_of(ask: Ask, room: Inventory, row: int, cuts: Sequence[Cut]) -> Place:
    parts = tuple(
        Part(
            gpu=room.gpus[row][cut.column].id,
            from_cell=cut.start,
            until_cell=cut.start + cut.width,
            vram_mib=cut.vram_mib,
        )
        for cut in cuts
    )
    return Place(ask=ask.id, node=room.nodes[row].id, parts=parts)


def count_places(ask: Ask, inventory: Inventory, *, most: int) -> int:
    """
    Return how many asks like this one could be placed one after another, ``most`` at the most.

    Stock is what placement would do, not a second opinion: it decides, in an inventory of its own.
    ``inventory`` is as it was loaded, and stays so.
    """
    kind = ask.kind
    reason, _ = Sieve(kind, inventory).look(np.arange(len(inventory.nodes)))
    fitting = np.flatnonzero(reason == FITS)
    if fitting.size >= most:  # every one of these nodes has room for one
        return most
    room = Inventory([inventory.nodes[row] for row in fitting])
    board = Board(room, BestFit(room))
    found = 0
    while found < most and (chosen := board.choose(kind)) is not None:
        room.take(kind, *chosen)
        found += 1
    return found
