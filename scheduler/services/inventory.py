"""Loading: rows to what the pure core decides on. Reads only."""

import gc
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from django.db import connection
from django.db.models import Exists, OuterRef, Subquery

from scheduler.core.cells import ALL_CELLS
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.placement import Ask
from scheduler.core.shapes import Mode, Shape
from scheduler.models import (
    Allocation,
    Gpu,
    GpuHealth,
    LivenessStatus,
    Node,
    Reclaim,
    Request,
    Residence,
)
from scheduler.services.gangs import BOND_COLUMNS, bond_of, with_neighbours

# Waiting requests that one pass looks at; more wait for the next.
MOST = 5_000


def load_inventory() -> Inventory:
    """
    Read what is free. Node versions are read first: whatever changes after that raises one, so a
    plan made of newer GPUs or slices is refused at commit, never half right.

    Three queries. Rows instead of model objects, which cost several times as much.
    """
    nodes, cards = _read_nodes(), _read_cards()
    return Inventory([_node_state(node, cards[node.id]) for node in nodes])


@contextmanager
def collector_paused() -> Iterator[None]:
    """
    Keep the garbage collector from looking, again and again, through some hundred thousand small
    objects that are all in use and in no cycle: that takes as long as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@collector_paused()
def load_capacity() -> tuple[Inventory, Inventory]:
    """
    Read what is free, and what would be if nothing were sold and every node and card were well.

    Three queries. What the second cannot hold, this fleet can never place.
    """
    nodes, cards = _read_nodes(), _read_cards()
    return (
        Inventory([_node_state(node, cards[node.id]) for node in nodes]),
        Inventory([_empty_node(node, cards[node.id]) for node in nodes]),
    )


class Sold(NamedTuple):
    """
    What is sold of one card. The constraints of ``Slice`` see to it that there is one mode, one
    tenant unless strangers or MIG instances share it, and one size of strangers' tiles.
    """

    mode: Mode | None = None
    tenant_id: uuid.UUID | None = None
    slices: int = 0
    vram_mib: int = 0
    cells: str = ""
    has_media: bool = False


NOTHING: Final = Sold()

Card: TypeAlias = tuple[Any, Sold]  # a row of _read_cards

# The columns of Sold. Two MIG profiles can take the same memory slices: their requests tell which.
_SOLD: Final = """
SELECT part.gpu_id, min(part.mode), (array_agg(part.tenant_id))[1], count(*), min(part.vram_mib),
       string_agg(part.cells::text, ''),
       bool_or(CASE WHEN part.mode = 'mig' THEN (
                   SELECT request.profile LIKE '%+me%' FROM scheduler_allocation AS held
                   JOIN scheduler_request AS request ON request.id = held.request_id
                   WHERE held.id = part.allocation_id)
               ELSE false END)
FROM scheduler_slice AS part WHERE part.released_at IS NULL GROUP BY part.gpu_id
"""

_RANGE: Final = re.compile(r"\[(\d+),(\d+)\)")


@lru_cache(maxsize=10_000)  # a card can be cut in about a thousand ways
def _mask(cells: str) -> int:
    """Return the cells as bits, from PostgreSQL's text: "{[0,3)}{[7,10)}"."""
    mask = 0
    for lower, upper in _RANGE.findall(cells):
        mask |= (1 << int(upper)) - (1 << int(lower))
    return mask & ALL_CELLS


def _read_nodes() -> list[Any]:
    here = {"node_id": OuterRef("pk"), "abandoned_at__isnull": False}
    left = Allocation.objects.held().filter(**here), Residence.objects.present().filter(**here)
    nodes = Node.objects.annotate(is_cleaning=Exists(left[0]) | Exists(left[1]))
    rows = nodes.order_by("id").values_list(
        "id",
        "version",
        "zone_id",
        "zone__region_id",
        "rack",
        "cordoned",
        "shared_allowed",
        "liveness__status",  # none before the first pulse
        "cpu_milli_free",
        "ram_mib_free",
        "disk_mib_free",
        "cpu_milli_total",
        "ram_mib_total",
        "disk_mib_total",
        "is_cleaning",
        named=True,
    )
    return list(rows)


def _read_cards() -> Mapping[uuid.UUID, list[Card]]:
    """Return the cards of each node with what is sold of them."""
    with connection.cursor() as cursor:
        cursor.execute(_SOLD)
        sold = {gpu_id: Sold(*columns) for gpu_id, *columns in cursor.fetchall()}
    rows = Gpu.objects.values_list(
        "id",
        "node_id",
        "index",
        "model__name",
        "model__memory_mib",
        "memory_mib",
        "vram_free_mib",
        "nvlink_group",
        "health",
        "mig_capable",
        named=True,
    )
    cards: defaultdict[uuid.UUID, list[Card]] = defaultdict(list)
    for row in rows:
        cards[row.node_id].append((row, sold.get(row.id, NOTHING)))
    return cards


def _node_state(node: Any, cards: Iterable[Card]) -> NodeState:
    return NodeState(
        id=node.id,
        version=node.version,
        region=node.zone__region_id,
        zone=node.zone_id,
        rack=node.rack,
        is_cordoned=node.cordoned,
        is_live=node.liveness__status == LivenessStatus.LIVE,
        is_cleaning=node.is_cleaning,
        allows_strangers=node.shared_allowed,
        cpu_milli=node.cpu_milli_free,
        ram_mib=node.ram_mib_free,
        disk_mib=node.disk_mib_free,
        gpus=tuple([_gpu_state(gpu, sold) for gpu, sold in cards]),
    )


def _empty_node(node: Any, cards: Iterable[Card]) -> NodeState:
    return replace(
        _node_state(node, ()),
        is_cordoned=False,
        is_live=True,
        is_cleaning=False,
        cpu_milli=node.cpu_milli_total,
        ram_mib=node.ram_mib_total,
        disk_mib=node.disk_mib_total,
        gpus=tuple(
            replace(_gpu_state(gpu, NOTHING), vram_free_mib=gpu.memory_mib, is_healthy=True)
            for gpu, _ in cards
        ),
    )


def _gpu_state(gpu: Any, sold: Sold) -> GpuState:
    taken = _mask(sold.cells) if sold.cells else 0
    return GpuState(
        id=gpu.id,
        index=gpu.index,
        model=(gpu.model__name, gpu.model__memory_mib),
        vram_free_mib=gpu.vram_free_mib,
        nvlink_group=gpu.nvlink_group,
        is_healthy=gpu.health == GpuHealth.HEALTHY,
        taken=taken,
        mode=sold.mode,
        tenant=sold.tenant_id,
        tile=taken.bit_count() // sold.slices if sold.slices else 0,
        tile_vram_mib=sold.vram_mib,
        is_mig_capable=gpu.mig_capable,
        has_media=sold.has_media,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A request as a pass keeps it: what it asks, of whom it is, and why it waited so far."""

    ask: Ask
    instance_id: uuid.UUID
    reasons: Mapping[str, int]

    @property
    def network(self) -> tuple[uuid.UUID, str]:
        """Whose private network it will be in."""
        return self.ask.tenant, self.ask.region


def load_waiting(*, now: datetime, limit: int = MOST) -> dict[uuid.UUID, Waiting]:
    """
    Return what waits: who lost his place before others, then first come first; with what pins or
    holds up each instance. One query, one where spot leaves, and those of ``with_neighbours``. A
    gang whose last rows are beyond the limit is left out.
    """
    disks = Residence.objects.residing().filter(instance_id=OuterRef("instance_id"))
    held = Allocation.objects.residing().filter(instance_id=OuterRef("instance_id"))
    told = Reclaim.objects.filter(request_id=OuterRef("id"), withdrawn_at=None)
    rows = (
        Request.objects.waiting()
        .filter(expires_at__gt=now)
        .order_by("-is_failover", "requested_at", "id")
        .annotate(
            home_id=Subquery(disks.values("node_id")[:1]),
            is_releasing=Exists(held),
            is_promised=Exists(told),
        )
        .values_list(
            "id",
            "tenant_id",
            "instance_id",
            "region_id",
            "zone_id",
            "residences_on_id",
            "reasons",
            "market",
            "requested_at",
            "is_failover",
            "lasts_s",
            *BOND_COLUMNS,
            *SHAPE_COLUMNS,
            "home_id",
            "is_releasing",
            "is_promised",
            named=True,
        )
    )
    waiting = [_waiting(row, now=now) for row in rows[:limit]]
    if len(waiting) == limit:
        waiting = _without_torn_gangs(waiting)
    if any(one.ask.is_promised for one in waiting):
        waiting = _with_leaving(waiting)
    if any(one.ask.bond for one in waiting):
        asks = with_neighbours([one.ask for one in waiting])
        waiting = [replace(one, ask=ask) for one, ask in zip(waiting, asks, strict=True)]
    return {one.ask.id: one for one in waiting}


def _with_leaving(waiting: Iterable[Waiting]) -> list[Waiting]:
    """Say of each on which nodes spot that leaves for it has not left yet."""
    waiting = list(waiting)
    promised = [one.ask.id for one in waiting if one.ask.is_promised]
    told = Reclaim.objects.filter(
        request_id__in=promised, withdrawn_at=None, allocation__released_at=None
    )
    nodes: defaultdict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    for request, node in told.values_list("request_id", "allocation__node_id"):
        nodes[request].add(node)
    leaving = {request: tuple(sorted(some)) for request, some in nodes.items()}
    return [
        replace(one, ask=replace(one.ask, leaving=leaving[one.ask.id]))
        if leaving.get(one.ask.id)
        else one
        for one in waiting
    ]


def _without_torn_gangs(waiting: Iterable[Waiting]) -> list[Waiting]:
    waiting = list(waiting)
    here = Counter(one.ask.bond.group for one in waiting if one.ask.bond)
    return [
        one for one in waiting if not one.ask.bond or here[one.ask.bond.group] >= one.ask.bond.size
    ]


def _waiting(row: Any, *, now: datetime) -> Waiting:
    ask = Ask(
        id=row.id,
        tenant=row.tenant_id,
        shape=shape_of(row),
        region=row.region_id,
        zone=row.zone_id,
        node=row.home_id or row.residences_on_id,
        disk_mib=0 if row.home_id else row.disk_mib,
        is_releasing=row.is_releasing,
        market=row.market,
        is_failover=row.is_failover,
        is_promised=row.is_promised,
        waited_s=max(0, int((now - row.requested_at).total_seconds())),
        lasts_s=row.lasts_s,
        bond=bond_of(row),
    )
    return Waiting(ask=ask, instance_id=row.instance_id, reasons=row.reasons)


SHAPE_COLUMNS: Final = (
    "gpu_models",
    "mode",
    "count",
    "tenths",
    "vram_mib",
    "profile",
    "cpu_milli",
    "ram_mib",
    "disk_mib",
)


def shape_of(row: Any) -> Shape:
    """Return the shape of a row that has ``SHAPE_COLUMNS``."""
    models = (text.rpartition("|") for text in row.gpu_models)
    return Shape(
        gpu_models=tuple((name, int(memory_mib)) for name, _, memory_mib in models),
        mode=row.mode,  # a CHECK keeps it to Mode
        count=row.count,
        tenths=row.tenths,
        vram_mib=row.vram_mib,
        cpu_milli=row.cpu_milli,
        ram_mib=row.ram_mib,
        disk_mib=row.disk_mib,
        profile=row.profile,
    )
