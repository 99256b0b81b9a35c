"""Loading: rows to what the pure core decides on. Reads only."""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from django.db.models import Case, OuterRef, Subquery, Value, When

from scheduler.core.cells import ALL_CELLS
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.placement import Ask
from scheduler.core.shapes import Shape
from scheduler.models import (
    Allocation,
    Gpu,
    GpuHealth,
    LivenessStatus,
    Node,
    Request,
    Residence,
    Slice,
    SliceMode,
)

# Waiting requests that one pass looks at; more wait for the next.
MOST = 5_000
# Two MIG profiles can take the same memory slices; the request tells them apart.
PROFILE = Case(
    When(
        mode=SliceMode.MIG,
        then=Subquery(
            Request.objects.filter(allocations=OuterRef("allocation")).values("profile")[:1]
        ),
    ),
    default=Value(""),
)


def load_inventory() -> Inventory:
    """
    Read what is free. Node versions are read first: whatever changes after that raises one, so a
    plan made of newer GPUs or slices is refused at commit, never half right.
    """
    nodes = list(Node.objects.select_related("zone", "liveness").order_by("id"))
    sold = _sold_by_gpu()
    gpus: defaultdict[uuid.UUID, list[GpuState]] = defaultdict(list)
    for gpu in Gpu.objects.select_related("model"):
        gpus[gpu.node_id].append(_gpu_state(gpu, sold[gpu.id]))
    return Inventory([_node_state(node, gpus[node.id]) for node in nodes])


def load_capacity() -> tuple[Inventory, Inventory]:
    """
    Read what is free, and what would be if nothing were sold and every node and card were well.

    Three queries. What the second cannot hold, this fleet can never place.
    """
    nodes = list(Node.objects.select_related("zone", "liveness").order_by("id"))
    sold = _sold_by_gpu()
    free: defaultdict[uuid.UUID, list[GpuState]] = defaultdict(list)
    empty: defaultdict[uuid.UUID, list[GpuState]] = defaultdict(list)
    for gpu in Gpu.objects.select_related("model"):
        free[gpu.node_id].append(_gpu_state(gpu, sold[gpu.id]))
        empty[gpu.node_id].append(
            replace(_gpu_state(gpu, []), vram_free_mib=gpu.memory_mib, is_healthy=True)
        )
    return (
        Inventory([_node_state(node, free[node.id]) for node in nodes]),
        Inventory([_empty_node(node, empty[node.id]) for node in nodes]),
    )


def _sold_by_gpu() -> defaultdict[uuid.UUID, list[Slice]]:
    sold: defaultdict[uuid.UUID, list[Slice]] = defaultdict(list)
    for part in Slice.objects.filter(released_at=None).annotate(profile=PROFILE):
        sold[part.gpu_id].append(part)
    return sold


def _empty_node(node: Node, gpus: Iterable[GpuState]) -> NodeState:
    return replace(
        _node_state(node, gpus),
        is_cordoned=False,
        is_live=True,
        cpu_milli=node.cpu_milli_total,
        ram_mib=node.ram_mib_total,
        disk_mib=node.disk_mib_total,
    )


def _node_state(node: Node, gpus: Iterable[GpuState]) -> NodeState:
    liveness = getattr(node, "liveness", None)  # none before the first pulse
    return NodeState(
        id=node.id,
        version=node.version,
        region=node.zone.region_id,
        zone=node.zone_id,
        is_cordoned=node.cordoned,
        is_live=liveness is not None and liveness.status == LivenessStatus.LIVE,
        allows_strangers=node.shared_allowed,
        cpu_milli=node.cpu_milli_free,
        ram_mib=node.ram_mib_free,
        disk_mib=node.disk_mib_free,
        gpus=tuple(gpus),
    )


def _gpu_state(gpu: Gpu, sold: list[Slice]) -> GpuState:
    taken = 0
    for part in sold:
        for lower, upper in part.cells:
            taken |= ((1 << (upper - lower)) - 1) << lower & ALL_CELLS
    first = sold[0] if sold else None
    return GpuState(
        id=gpu.id,
        index=gpu.index,
        model=(gpu.model.name, gpu.model.memory_mib),
        vram_free_mib=gpu.vram_free_mib,
        nvlink_group=gpu.nvlink_group,
        is_healthy=gpu.health == GpuHealth.HEALTHY,
        taken=taken,
        mode=first.mode if first else None,  # type: ignore[arg-type]  # a CHECK keeps it to Mode
        tenant=first.tenant_id if first else None,
        tile=taken.bit_count() // len(sold) if sold else 0,
        tile_vram_mib=first.vram_mib if first else 0,
        is_mig_capable=gpu.mig_capable,
        has_media=any("+me" in part.profile for part in sold),  # type: ignore[attr-defined]
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
