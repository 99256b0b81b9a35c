"""
One pass of placement over whole GPUs, tenths and MIG instances. Pure.

Equal inputs give equal plans, in whatever order the inventory was read.

Source: docs/adr/0003-agent-protocol-and-liveness.md has what is placed on a silent node (nothing).
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.core.board import Board
from scheduler.core.fits import DIMENSIONS, FITS, Sieve
from scheduler.core.inventory import Inventory
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.policies import Policy
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.shapes import CELLS, Shape

__all__ = ["DIMENSIONS", "Ask", "Decision", "Part", "Place", "Wait", "count_places", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """
    One request as a pass sees it. ``node``: where its disks pin it. ``disk_mib``: what it needs on
    top, 0 once its disks exist. ``is_releasing``: its last allocation still holds its place.
    """

    id: uuid.UUID
    tenant: uuid.UUID
    shape: Shape
    region: str
    zone: str | None = None
    node: uuid.UUID | None = None
    disk_mib: int = 0
    is_releasing: bool = False

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


def plan(asks: Sequence[Ask], inventory: Inventory, policy: Policy | None = None) -> list[Decision]:
    """
    Decide one pass, first come first served: one decision an ask, in the same order. What cannot
    be placed holds up nobody behind it. Writes what it gives away into ``inventory``.

    ``policy``: best fit if none. Equal asks that were refused once are not looked at again: within
    a pass room only shrinks.
    """
    board = Board(inventory, policy or BestFit(inventory))
    refused: dict[Kind, dict[str, int]] = {}
    decisions: list[Decision] = []
    for ask in asks:
        if ask.is_releasing:
            decisions.append(Wait(ask=ask.id, reasons={"releasing": 1}))
            continue
        kind = ask.kind
        if kind not in refused:
            if (place := _place(ask, kind, board)) is not None:
                decisions.append(place)
                continue
            refused[kind] = board.count_reasons(kind)
        decisions.append(Wait(ask=ask.id, reasons=dict(refused[kind])))
    return decisions


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
