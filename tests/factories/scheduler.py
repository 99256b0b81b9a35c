"""Nodes, cards, requests and allocations for tests. Values are exact; counters keep names apart."""

import uuid
from datetime import UTC, datetime, timedelta
from itertools import count

from agents import protocol
from rental.records.ids import new_id
from rental.tenants.models import Tenant
from scheduler.models import (
    Agent,
    Allocation,
    Gpu,
    GpuModel,
    LivenessStatus,
    Node,
    NodeLiveness,
    Region,
    Request,
    Zone,
)
from scheduler.services.observe import Observed, observe
from scheduler.services.place import run_pass
from scheduler.services.requests import Bond, Shape, open_request

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
GIB = 1024

_numbers = count(1)

A_SHARE = Shape(
    gpu_models=(("RTX 4090", 24 * GIB),),
    mode="share_tenant",
    tenths=1,
    vram_mib=2_457,
    cpu_milli=1_000,
    ram_mib=4 * GIB,
    disk_mib=10 * GIB,
)
A_CARD = Shape(
    gpu_models=(("RTX 4090", 24 * GIB),),
    mode="whole",
    count=1,
    vram_mib=24 * GIB,
    cpu_milli=8_000,
    ram_mib=32 * GIB,
    disk_mib=100 * GIB,
)


def make_tenant() -> Tenant:
    number = next(_numbers)
    return Tenant.objects.create(slug=f"tenant-{number}", name=f"Tenant {number}")


def make_zone(code="test-1a", region="test-1") -> Zone:
    Region.objects.get_or_create(code=region)
    return Zone.objects.get_or_create(code=code, defaults={"region_id": region})[0]


def make_model(name="RTX 4090", memory_mib=24 * GIB) -> GpuModel:
    return GpuModel.objects.get_or_create(
        name=name, memory_mib=memory_mib, defaults={"active": True}
    )[0]


def make_node(
    *,
    gpus=1,
    model=("RTX 4090", 24 * GIB),
    zone=None,
    name=None,
    cpu_milli=64_000,
    ram_mib=256 * GIB,
    disk_mib=2_000 * GIB,
    nvlink_group=None,
    status=LivenessStatus.LIVE,
    **fields,
) -> Node:
    """A live node with ``gpus`` idle cards of one model, heard of just now."""
    number = next(_numbers)
    agent = Agent.objects.create(name=f"agent-{number}", digest=bytes(32), enrolled_at=NOON)
    node = Node.objects.create(
        name=name or f"node-{number}",
        zone=zone or make_zone(),
        agent=agent,
        created_at=NOON,
        cpu_milli_total=cpu_milli,
        cpu_milli_free=cpu_milli,
        ram_mib_total=ram_mib,
        ram_mib_free=ram_mib,
        disk_mib_total=disk_mib,
        disk_mib_free=disk_mib,
        **fields,
    )
    if status:
        NodeLiveness.objects.create(node=node, received_at=NOON, status=status, status_at=NOON)
    for index in range(gpus):
        make_gpu(node, index=index, model=model, nvlink_group=nvlink_group)
    return node


def make_gpu(node: Node, *, index=0, model=("RTX 4090", 24 * GIB), **fields) -> Gpu:
    return Gpu.objects.create(
        node=node,
        uuid=f"GPU-{node.name}-{index}",
        serial=f"SN-{node.name}-{index}",
        model=make_model(*model),
        index=index,
        memory_mib=model[1],
        vram_free_mib=model[1],
        **fields,
    )


def spec_of(instance_id: uuid.UUID) -> protocol.AllocationSpec:
    return protocol.AllocationSpec(
        instance=str(instance_id), name="a", slug="a", image="registry.test/cuda:12.8"
    )


def make_request(
    *,
    tenant=None,
    shape=A_SHARE,
    instance_id=None,
    region="test-1",
    at=NOON,
    residences_on=None,
    zone=None,
    bond=None,
    lasts_s=None,
) -> Request:
    instance_id = instance_id or new_id()
    make_zone(region=region)
    return open_request(
        request_id=new_id(),
        tenant_id=(tenant or make_tenant()).id,
        instance_id=instance_id,
        shape=shape,
        market="on_demand",
        region=region,
        spec=spec_of(instance_id),
        residences_on=residences_on,
        zone=zone,
        bond=bond,
        lasts_s=lasts_s,
        now=at,
    )


def make_gang(size, *, tenant=None, group=None, shape=A_CARD, at=NOON, lasts_s=None, **rules):
    """As many requests with one bond; ``rules``: those of the bond."""
    tenant, bond = tenant or make_tenant(), Bond(group=group or new_id(), size=size, **rules)
    return [
        make_request(tenant=tenant, shape=shape, bond=bond, at=at, lasts_s=lasts_s)
        for _ in range(size)
    ]


def place(*, now=NOON, on_placed=lambda placed: None):
    return run_pass(now=now, on_placed=on_placed)


def make_allocation(*, node=None, **fields) -> Allocation:
    """A request that was just placed, on ``node`` or one of its own."""
    node = node or make_node()
    request = make_request(residences_on=node.id, **fields)
    place()
    return Allocation.objects.get(request=request)


def phase(allocation: Allocation, name: str, *, seq: int, incarnation=None, **fields):
    return protocol.Phase(
        node=str(allocation.node_id),
        allocation=str(allocation.id),
        instance=str(allocation.instance_id),
        incarnation=incarnation or allocation.incarnation,
        phase=name,
        seq=seq,
        run=str(allocation.run_id),
        **fields,
    )


def say(message, *, node_id=None, at=NOON + timedelta(seconds=10)):
    """Have the node of the message (or another one) say it."""
    node_id = node_id or uuid.UUID(message.node)
    observe(frames=[Observed(node_id=node_id, received_at=at, message=message)])


def hello(node: Node, *, facts=None, **fields) -> protocol.Hello:
    return protocol.Hello(
        node=str(node.id),
        boot="boot-1",
        seq=1,
        oldest_version=1,
        newest_version=1,
        control_epoch=1,
        node_version=node.version,
        facts=facts or facts_of(node),
        **fields,
    )


def facts_of(node: Node, **fields) -> protocol.Facts:
    """What the rows say already."""
    known = {
        "cpu_milli": node.cpu_milli_total,
        "ram_mib": node.ram_mib_total,
        "disk_mib": node.disk_mib_total,
        "gpus": [fact_of(gpu) for gpu in node.gpus.order_by("index")],
    }
    return protocol.Facts(**(known | fields))


def fact_of(gpu: Gpu, **fields) -> protocol.GpuFact:
    known = {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "model": gpu.model.name,
        "memory_mib": gpu.memory_mib,
        "serial": gpu.serial,
        "nvlink_group": gpu.nvlink_group,
    }
    return protocol.GpuFact(**(known | fields))
