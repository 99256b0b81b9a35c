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
from scheduler.core.fits import DIMENSIONS, FITS, Sieve
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import IDLE, Inventory
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.queue import Line, Use, may_hold
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
    ``is_failover``: it lost its place. ``waited_s``: since when it was asked for.
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
    waited_s: int = 0

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
    ``reserves``: by region, how many nodes are kept for what loses its place.
    """

    policies: Mapping[str, str] = field(default_factory=dict)
    forecast: Forecast = Forecast((), ())
    held: Mapping[uuid.UUID, Use] = field(default_factory=dict)
    total: Use = Use()
    weights: Mapping[uuid.UUID, int] = field(default_factory=dict)
    reserves: Mapping[str, int] = field(default_factory=dict)


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

    def decide(self) -> list[Decision]:
        self._in_line([ask for ask in self._asks if ask.is_failover])
        self._keep_reserves()
        self._let_hold()
        self._in_line([ask for ask in self._asks if ask.id not in self._decisions])
        return [self._decisions[ask.id] for ask in self._asks]

    def _in_line(self, waiting: Sequence[Ask]) -> None:
        """Let each choose in its turn."""
        rules = self._rules
        line = Line(waiting, held=rules.held, total=rules.total, weights=rules.weights)
        for index in line:
            if isinstance(self._ask(waiting[index]), Place):
                line.placed(waiting[index])

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

    def _let_hold(self) -> None:
        """Let in each region the oldest that may hold a node choose first, and keep one for it."""
        heads: dict[str, Ask] = {}
        for ask in self._asks:
            is_placed = isinstance(self._decisions.get(ask.id), Place)
            if ask.region in heads or is_placed or ask.is_releasing:
                continue
            if may_hold(ask):
                heads[ask.region] = ask
        for ask in heads.values():
            if isinstance(self._ask(ask), Wait):
                row = self._board(ask).emptiest(ask.kind)
                if row is not None:
                    self._room.hold(row)

    def _ask(self, ask: Ask) -> Decision:
        decision = self._decisions[ask.id] = self._decide(ask)
        return decision

    def _decide(self, ask: Ask) -> Decision:
        if ask.is_releasing:
            return Wait(ask=ask.id, reasons={"releasing": 1})
        kind, board = ask.kind, self._board(ask)
        if kind not in self._refused:
            if (place := _place(ask, kind, board)) is not None:
                return place
            self._refused[kind] = board.count_reasons(kind)
        return Wait(ask=ask.id, reasons=dict(self._refused[kind]))

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
    room = board.room
    parts = tuple(
        Part(
            gpu=room.gpus[row][cut.column].id,
            from_cell=cut.start,
            until_cell=cut.start + cut.width,
            vram_mib=cut.vram_mib,
        )
        for cut in room.take(kind, row, columns)
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
