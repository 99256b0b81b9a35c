"""Loading: rows to what the pure core decides on. Reads only."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from django.db import connection

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
    Request,
    Residence,
)

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
    taken: int = 0
    has_media: bool = False


NOTHING: Final = Sold()

Card: TypeAlias = tuple[Any, Sold]  # a row of _read_cards

# The columns of Sold. Two MIG profiles can take the same memory slices: their requests tell which.
_SOLD = """
SELECT part.gpu_id, min(part.mode), (array_agg(part.tenant_id))[1], count(*), min(part.vram_mib),
       bit_or((SELECT bit_or(((1 << upper(cell) - lower(cell)) - 1) << lower(cell))
               FROM unnest(part.cells) AS cell)),
       bool_or(CASE WHEN part.mode = 'mig' THEN (
                   SELECT request.profile LIKE '%+me%' FROM scheduler_allocation AS held
                   JOIN scheduler_request AS request ON request.id = held.request_id
                   WHERE held.id = part.allocation_id)
               ELSE false END)
FROM scheduler_slice AS part WHERE part.released_at IS NULL GROUP BY part.gpu_id
"""


def _read_nodes() -> list[Any]:
    rows = Node.objects.order_by("id").values_list(
        "id",
        "version",
        "zone_id",
        "zone__region_id",
        "cordoned",
        "shared_allowed",
        "liveness__status",  # none before the first pulse
        "cpu_milli_free",
        "ram_mib_free",
        "disk_mib_free",
        "cpu_milli_total",
        "ram_mib_total",
        "disk_mib_total",
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
        is_cordoned=node.cordoned,
        is_live=node.liveness__status == LivenessStatus.LIVE,
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
        cpu_milli=node.cpu_milli_total,
        ram_mib=node.ram_mib_total,
        disk_mib=node.disk_mib_total,
        gpus=tuple(
            replace(_gpu_state(gpu, NOTHING), vram_free_mib=gpu.memory_mib, is_healthy=True)
            for gpu, _ in cards
        ),
    )


def _gpu_state(gpu: Any, sold: Sold) -> GpuState:
    return GpuState(
        id=gpu.id,
        index=gpu.index,
        model=(gpu.model__name, gpu.model__memory_mib),
        vram_free_mib=gpu.vram_free_mib,
        nvlink_group=gpu.nvlink_group,
        is_healthy=gpu.health == GpuHealth.HEALTHY,
        taken=sold.taken & ALL_CELLS,
        mode=sold.mode,
        tenant=sold.tenant_id,
        tile=sold.taken.bit_count() // sold.slices if sold.slices else 0,
        tile_vram_mib=sold.vram_mib,
        is_mig_capable=gpu.mig_capable,
        has_media=sold.has_media,
    )


def load_waiting(*, now: datetime, limit: int = MOST) -> list[Request]:
    """Return the requests that wait, first come first."""
    waiting = Request.objects.waiting().filter(expires_at__gt=now)
    return list(waiting.order_by("requested_at", "id")[:limit])


def load_asks(requests: Iterable[Request]) -> list[Ask]:
    """Return the requests as the core sees them, with what pins or holds up their instances."""
    requests = list(requests)
    instances = [request.instance_id for request in requests]
    homes = dict(
        Residence.objects.filter(instance_id__in=instances, wiped_at=None).values_list(
            "instance_id", "node_id"
        )
    )
    releasing = set(
        Allocation.objects.held()
        .filter(instance_id__in=instances)
        .values_list("instance_id", flat=True)
    )
    return [
        Ask(
            id=request.id,
            tenant=request.tenant_id,
            shape=shape_of(request),
            region=request.region_id,
            zone=request.zone_id,
            node=homes.get(request.instance_id, request.residences_on_id),
            disk_mib=0 if request.instance_id in homes else request.disk_mib,
            is_releasing=request.instance_id in releasing,
        )
        for request in requests
    ]


def shape_of(request: Request) -> Shape:
    models = (text.rpartition("|") for text in request.gpu_models)
    return Shape(
        gpu_models=tuple((name, int(memory_mib)) for name, _, memory_mib in models),
        mode=request.mode,  # type: ignore[arg-type]  # a CHECK keeps it to Mode
        count=request.count,
        tenths=request.tenths,
        vram_mib=request.vram_mib,
        cpu_milli=request.cpu_milli,
        ram_mib=request.ram_mib,
        disk_mib=request.disk_mib,
        profile=request.profile,
    )
