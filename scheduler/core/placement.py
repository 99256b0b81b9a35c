"""
One pass of placement: best fit over whole GPUs and tenths. Pure.

Equal inputs give equal plans, in whatever order the inventory was read. Best fit keeps large
cards, empty cards and complete NVLink groups for those who need them.

Source: best fit after Nomad's ScoreFitBinPack; docs/adr/0003-agent-protocol-and-liveness.md has
what is placed on a silent node (nothing).
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from scheduler.core.inventory import ALL_CELLS, IDLE, MODE_CODES, Bools, Ints, Inventory
from scheduler.core.shapes import CELLS, Shape

# Every dimension that can refuse a node, in the order in which one node is asked: it is counted
# under the first that refuses it.
DIMENSIONS: Final = (
    "releasing",  # the instance's last allocation is not released yet
    "residence",  # the instance's disks are on another node
    "region",
    "zone",
    "cordoned",
    "silent",
    "model",
    "health",
    "mig",
    "isolation",  # strangers may not share a card here
    "gpu",
    "vram",
    "cpu",
    "ram",
    "disk",
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Cells [from_cell, until_cell) of one GPU, with ``vram_mib`` of its memory."""

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


def plan(asks: Sequence[Ask], inventory: Inventory) -> list[Decision]:
    """
    Decide one pass, first come first served: one decision an ask, in the same order. What cannot
    be placed holds up nobody behind it. Writes what it gives away into ``inventory``.

    Cost: O(asks x GPUs), but equal asks that were refused once are not looked at again: within
    a pass room only shrinks.
    """
    refused: dict[object, dict[str, int]] = {}
    decisions: list[Decision] = []
    for ask in asks:
        if ask.is_releasing:
            decisions.append(Wait(ask=ask.id, reasons={"releasing": 1}))
            continue
        # A card of one tenant is open to that tenant alone; everything else is blind to tenants.
        tenant = ask.tenant if ask.shape.mode == "share_tenant" else None
        kind = (ask.shape, ask.region, ask.zone, ask.node, ask.disk_mib, tenant)
        if kind not in refused:
            decision = decide(ask, inventory)
            if isinstance(decision, Place):
                decisions.append(decision)
                continue
            refused[kind] = decision.reasons
        decisions.append(Wait(ask=ask.id, reasons=dict(refused[kind])))
    return decisions


def decide(ask: Ask, inventory: Inventory) -> Decision:
    """Place one ask and take what it gets out of ``inventory``, or say what refused it where."""
    filters = _Filters(ask, inventory)
    if ask.shape.mode == "whole":
        rows = _pick_whole(ask.shape, inventory, filters.gpus)
        parts = tuple(_take_whole(row, inventory) for row in rows)
    else:
        rows = _pick_share(ask, inventory, filters.gpus)
        parts = tuple(_take_share(row, ask, inventory) for row in rows)
    if not parts:
        return Wait(ask=ask.id, reasons=filters.count_reasons())
    node = int(inventory.node_of[rows[0]])
    inventory.cpu[node] -= ask.shape.cpu_milli
    inventory.ram[node] -= ask.shape.ram_mib
    inventory.disk[node] -= ask.disk_mib
    return Place(ask=ask.id, node=inventory.nodes[node].id, parts=parts)


def count_places(ask: Ask, inventory: Inventory, *, most: int) -> int:
    """
    Return how many asks like this one could be placed one after another, ``most`` at the most.

    Stock is what placement would do, not a second opinion: it decides, in an inventory of its own.
    ``inventory`` is as it was loaded, and stays so.
    """
    fitting = np.flatnonzero(_Filters(ask, inventory).reason < 0)
    if fitting.size >= most:  # every one of these nodes has room for one
        return most
    room = Inventory([inventory.nodes[row] for row in fitting])
    found = 0
    while found < most and isinstance(decide(ask, room), Place):
        found += 1
    return found


class _Filters:
    """
    Which nodes refuse an ask for what (``reason``: index into DIMENSIONS, -1 = none), and which
    GPUs of the others can be given (``gpus``).
    """

    def __init__(self, ask: Ask, inventory: Inventory) -> None:
        self._inventory = inventory
        self.reason = np.full(len(inventory.nodes), -1, dtype=np.int64)
        self._filter_nodes(ask)
        gpus = self._filter_gpus(ask)
        room = inventory
        self._refuse("cpu", room.cpu < ask.shape.cpu_milli)
        self._refuse("ram", room.ram < ask.shape.ram_mib)
        self._refuse("disk", room.disk < ask.disk_mib)
        self.gpus: Bools = gpus & (self.reason < 0)[inventory.node_of]

    def _refuse(self, dimension: str, nodes: Bools) -> None:
        self.reason[(self.reason < 0) & nodes] = DIMENSIONS.index(dimension)

    def _filter_nodes(self, ask: Ask) -> None:
        room = self._inventory
        if ask.node is not None:
            rows = np.arange(len(room.nodes))
            self._refuse("residence", rows != room.row_of_node.get(ask.node, -1))
        self._refuse("region", room.region != room.regions.find(ask.region))
        if ask.zone is not None:
            self._refuse("zone", room.zone != room.zones.find(ask.zone))
        self._refuse("cordoned", room.is_cordoned)
        self._refuse("silent", ~room.is_live)

    def _filter_gpus(self, ask: Ask) -> Bools:
        room, shape = self._inventory, ask.shape
        gpus: Bools = np.ones(len(room.gpus), dtype=np.bool_)
        if shape.gpu_models:
            wanted = [room.models.find(model) for model in shape.gpu_models]
            gpus = np.isin(room.model, wanted)
        self._refuse("model", self._lacking(gpus, shape.count, at_least=1))
        gpus = gpus & room.is_healthy
        self._refuse("health", self._lacking(gpus, shape.count, at_least=1))
        if shape.mode == "mig":
            self._refuse("mig", np.ones(len(room.nodes), dtype=np.bool_))
        if shape.mode == "share_shared":
            self._refuse("isolation", ~room.allows_strangers)
        gpus = gpus & _has_cells(ask, room)
        self._refuse("gpu", self._lacking(gpus, shape.count))
        gpus = gpus & _has_memory(shape, room)
        self._refuse("vram", self._lacking(gpus, shape.count))
        return gpus

    def _lacking(self, gpus: Bools, count: int, *, at_least: int = 0) -> Bools:
        """Return the nodes without ``count`` (or ``at_least``) of these GPUs of one model."""
        room = self._inventory
        per_pair = np.bincount(room.pair[gpus], minlength=room.pair_count)
        most = np.zeros(len(room.nodes), dtype=np.int64)
        np.maximum.at(most, room.node_of, per_pair[room.pair])
        return most < (at_least or count)

    def count_reasons(self) -> dict[str, int]:
        counts = np.bincount(self.reason[self.reason >= 0], minlength=len(DIMENSIONS))
        return {DIMENSIONS[i]: int(count) for i, count in enumerate(counts) if count}


def _has_cells(ask: Ask, room: Inventory) -> Bools:
    """Return the GPUs with the cells, in the mode and beside the tenants that the shape allows."""
    shape = ask.shape
    is_idle: Bools = (room.mode == IDLE) & (room.taken == 0)
    fits: Bools = is_idle
    if shape.mode == "share_tenant":
        is_own = room.tenant == room.tenants.find(ask.tenant)
        is_mine = (room.mode == MODE_CODES["share_tenant"]) & is_own
        fits = (is_idle | is_mine) & (HOLES[shape.tenths][room.taken] >= 0)
    if shape.mode == "share_shared":
        is_equal = (room.tile == shape.tenths) & (room.tile_vram == shape.vram_mib)
        is_cut_so = (room.mode == MODE_CODES["share_shared"]) & is_equal
        fits = (is_idle | is_cut_so) & (TILES[shape.tenths][room.taken] >= 0)
    return fits


def _has_memory(shape: Shape, room: Inventory) -> Bools:
    if shape.mode == "whole":
        # By the model's nominal memory: what drivers report differs by a few MiB.
        fits: Bools = room.memory >= shape.vram_mib
    else:
        fits = room.vram >= shape.vram_mib
    return fits


def _pick_whole(shape: Shape, room: Inventory, gpus: Bools) -> list[int]:
    """
    Return ``count`` idle GPUs of one model on one node: inside one NVLink group if any group can,
    then of the least memory, then where the fewest are left over (of the group, of the node).
    """
    candidates = np.flatnonzero(gpus)
    if not candidates.size:
        return []
    link_free = np.bincount(room.link[candidates], minlength=room.link_count)[room.link]
    pair_free = np.bincount(room.pair[candidates], minlength=room.pair_count)[room.pair]
    in_group = candidates[link_free[candidates] >= shape.count]
    is_linked = bool(in_group.size)
    if not is_linked:
        candidates = candidates[pair_free[candidates] >= shape.count]
        if not candidates.size:
            return []
    else:
        candidates = in_group
    spare = link_free if is_linked else pair_free
    first = _least(candidates, room.memory, spare, pair_free)
    if is_linked:
        return [int(row) for row in candidates if room.link[row] == room.link[first]][: shape.count]
    rows = [int(row) for row in candidates if room.pair[row] == room.pair[first]]
    # No group is large enough: break the smallest ones.
    return sorted(sorted(rows, key=lambda row: (link_free[row], row))[: shape.count])


def _pick_share(ask: Ask, room: Inventory, gpus: Bools) -> list[int]:
    """
    Return the one GPU for a share: of the least memory, already cut rather than idle, the fullest,
    then with the least memory left, then with the most broken NVLink group.
    """
    candidates = np.flatnonzero(gpus)
    if not candidates.size:
        return []
    is_idle = (room.mode == IDLE).astype(np.int64)
    free = FREE_CELLS[room.taken]
    idle_rows = np.flatnonzero(room.mode == IDLE)
    link_free = np.bincount(room.link[idle_rows], minlength=room.link_count)[room.link]
    return [_least(candidates, room.memory, is_idle, free, room.vram, link_free)]


def _least(candidates: Ints, *keys: Ints) -> int:
    """Return the candidate with the least keys, the first key first; ties go to the lowest row."""
    left = candidates
    for key in keys:
        values = key[left]
        left = left[values == values.min()]
    return int(left[0])


def _take_whole(row: int, room: Inventory) -> Part:
    vram = int(room.vram[row])
    room.taken[row], room.vram[row], room.mode[row] = ALL_CELLS, 0, MODE_CODES["whole"]
    return Part(gpu=room.gpus[row].id, from_cell=0, until_cell=CELLS, vram_mib=vram)


def _take_share(row: int, ask: Ask, room: Inventory) -> Part:
    shape = ask.shape
    table = HOLES if shape.mode == "share_tenant" else TILES
    start = int(table[shape.tenths][room.taken[row]])
    room.taken[row] |= ((1 << shape.tenths) - 1) << start
    room.vram[row] -= shape.vram_mib
    room.mode[row] = MODE_CODES[shape.mode]
    room.tenant[row] = room.tenants.of(ask.tenant)
    room.tile[row], room.tile_vram[row] = shape.tenths, shape.vram_mib
    return Part(
        gpu=room.gpus[row].id,
        from_cell=start,
        until_cell=start + shape.tenths,
        vram_mib=shape.vram_mib,
    )


def _hole_start(taken: int, width: int) -> int:
    """Return where the smallest hole of at least ``width`` free cells begins, -1 if none."""
    holes = []
    start = 0
    for cell in range(CELLS + 1):
        if cell == CELLS or taken >> cell & 1:
            if cell - start >= width:
                holes.append((cell - start, start))
            start = cell + 1
    return min(holes)[1] if holes else -1


def _tile_start(taken: int, width: int) -> int:
    """Return where the first free tile begins, -1 if none. Tiles begin at multiples of width."""
    tile = (1 << width) - 1
    for start in range(0, CELLS - width + 1, width):
        if not taken & tile << start:
            return start
    return -1


MASKS: Final = range(ALL_CELLS + 1)
# Indexed [width][taken]; row 0 is never used.
HOLES: Final = np.array(
    [[_hole_start(taken, width) for taken in MASKS] for width in range(CELLS + 1)], dtype=np.int8
)
TILES: Final = np.array(
    [[_tile_start(taken, max(width, 1)) for taken in MASKS] for width in range(CELLS + 1)],
    dtype=np.int8,
)
FREE_CELLS: Final = np.array([CELLS - taken.bit_count() for taken in MASKS], dtype=np.int64)
