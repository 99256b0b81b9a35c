"""The catalogue, a node with GPUs and instances for tests. Values are exact."""

import uuid
from datetime import UTC, datetime, timedelta
from itertools import count

from agents import protocol
from billing.services import prices, wallets
from rental.catalog.models import Image, Offer
from rental.instances import passes, services
from rental.instances.models import Instance
from rental.records.audit import Actor
from rental.records.ids import new_id
from scheduler.models import (
    Agent,
    Allocation,
    ControlPlane,
    Gpu,
    GpuModel,
    Node,
    NodeLiveness,
    Region,
    Residence,
    Zone,
)
from scheduler.services.liveness import record_pulses
from scheduler.services.observe import Observed, observe
from tests.factories.tenants import make_tenant

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MICRO = 1_000_000
PERSON = Actor(kind="user", id="usr_tester")
IMAGE = "pytorch-2.6.0-cuda12.4"
REGION, ZONE = "test-1", "test-1a"
PRICE = 490_000  # 0.1 of an A100 at 4.90 CNY/h

_numbers = count(1)


def seconds(n):
    return timedelta(seconds=n)


def make_place():
    region, _ = Region.objects.get_or_create(code=REGION)
    zone, _ = Zone.objects.get_or_create(code=ZONE, defaults={"region": region})
    ControlPlane.load()
    return zone


def make_gpu_model(name="A100", memory_mib=81920, capability="8.0", vendor="nvidia"):
    return GpuModel.objects.get_or_create(
        name=name,
        memory_mib=memory_mib,
        defaults={"vendor": vendor, "compute_capability": capability, "active": True},
    )[0]


def make_node(*, gpus=1, memory_mib=81920, model="A100", now=NOON):
    """A live node with much of everything, so that only its GPUs are scarce."""
    number = next(_numbers)
    agent = Agent.objects.create(name=f"agent-{number}", digest=bytes(32), enrolled_at=now)
    node = Node.objects.create(
        name=f"node-{number}",
        zone=make_place(),
        agent=agent,
        shared_allowed=True,
        cpu_milli_total=1_000_000,
        cpu_milli_free=1_000_000,
        ram_mib_total=10_000_000,
        ram_mib_free=10_000_000,
        disk_mib_total=100_000_000,
        disk_mib_free=100_000_000,
        created_at=now,
    )
    for index in range(gpus):
        Gpu.objects.create(
            node=node,
            uuid=f"GPU-{number}-{index}",
            model=make_gpu_model(model, memory_mib),
            index=index,
            memory_mib=memory_mib,
            vram_free_mib=memory_mib,
        )
    set_liveness(node, "live", now=now)
    return node


def set_liveness(node, status, *, now=NOON):
    NodeLiveness.objects.update_or_create(
        node=node, defaults={"status": status, "status_at": now, "received_at": now}
    )


def listen(*, since, until):
    """Let one gateway have listened without a break."""
    moment = since
    while moment < until:
        record_pulses([], "gateway-1", moment)
        moment += seconds(2)
    record_pulses([], "gateway-1", until)


def make_offer(code="a100-80g-1t", *, tenths=1, isolation="tenant", price=PRICE, now=NOON, **rest):
    """A share of an A100 by default; ``tenths=10`` is the whole card."""
    make_place()
    make_gpu_model()
    is_whole = tenths == 10
    fields = {
        "name": "0.1 A100 80G",
        "region": REGION,
        "gpu_model_name": "A100",
        "gpu_memory_mib": 81920,
        "slice": "whole" if is_whole else "share",
        "isolation": "whole" if is_whole else isolation,
        "tenths": tenths,
        "vram_mib": 81920 * tenths // 10,
        "cpu_milli": 1000,
        "ram_mib": 1024,
        "disk_mib": 10240,
        "markets": ["on_demand"],
    }
    offer = Offer.objects.create(code=code, **(fields | rest))
    for market in offer.markets:
        prices.publish_price(
            price_key=f"compute/{offer.region}/{code}/{market}",
            currency="CNY",
            price=price,
            unit="hour",
            effective_at=now - timedelta(days=1),
            actor=PERSON,
            now=now - timedelta(days=1),
        )
    return offer


def make_image(code=IMAGE, **rest):
    fields = {
        "name": "PyTorch 2.6.0",
        "ref": f"tessera/{code}",
        "cuda": "12.4",
        "frameworks": {"pytorch": "2.6.0"},
        "min_capability": 50,
    }
    return Image.objects.create(code=code, **(fields | rest))


def make_rich_tenant(*, money=1000 * MICRO, now=NOON):
    tenant = make_tenant()
    if money:
        wallets.credit(
            tenant_id=tenant.id,
            amount=money,
            reason="test",
            actor=PERSON,
            key=f"test:{new_id()}",
            now=now,
        )
    return tenant


def order(
    tenant, *, count=1, offer="a100-80g-1t", image="pytorch-2.6.0-cuda12.4", now=NOON, **rest
):
    return services.create_instances(
        tenant_id=tenant.id,
        offer_code=offer,
        image_code=image,
        count=count,
        actor=PERSON,
        now=now,
        **rest,
    )


def fresh(instance) -> Instance:
    return Instance.objects.get(pk=instance.pk)


def allocation_of(instance) -> Allocation:
    return Allocation.objects.filter(instance_id=instance.pk).order_by("-created_at", "-pk").first()


# --- what an agent says


def says(instance_or_allocation, phase, *, now, age=0, sync=True, **rest):
    """Let the node report a phase of the instance's newest allocation, as its gateway hears it."""
    allocation = instance_or_allocation
    if isinstance(instance_or_allocation, Instance):
        allocation = allocation_of(instance_or_allocation)
    allocation.refresh_from_db()
    endpoints = []
    if phase == "running":
        endpoints = [
            protocol.EndpointFact(
                kind="ssh",
                host="127.0.0.1",
                port=22022,
                user="root",
                host_key_fingerprint="SHA256:test",
            )
        ]
    message = protocol.Phase(
        node=str(allocation.node_id),
        allocation=str(allocation.id),
        instance=str(allocation.instance_id),
        incarnation=rest.pop("incarnation", allocation.incarnation),
        phase=phase,
        seq=rest.pop("seq", allocation.observed_seq + 1),
        run=str(allocation.run_id),
        age_ms=age * 1000,
        endpoints=rest.pop("endpoints", endpoints),
        **rest,
    )
    observe(frames=[Observed(node_id=allocation.node_id, received_at=now, message=message)])
    if sync:
        passes.sync(now=now)


def confirm_wiped(instance, *, now, sync=True):
    """Let the node confirm that the instance's disks are wiped."""
    by_node = {}
    for disk in Residence.objects.filter(instance_id=instance.pk, wiped_at=None, want="gone"):
        by_node.setdefault(disk.node_id, []).append(
            protocol.ResidenceFact(
                residence=str(disk.id),
                instance=str(instance.pk),
                kind=disk.kind,
                state="wiped",
            )
        )
    for node_id, facts in by_node.items():
        observe(
            frames=[
                Observed(
                    node_id=node_id, received_at=now, message=make_hello(node_id, residences=facts)
                )
            ]
        )
    if sync:
        passes.sync(now=now)


def make_hello(node_id: uuid.UUID, *, residences=(), phases=()):
    """A hello that tells of the node's GPUs as the database has them."""
    node = Node.objects.get(pk=node_id)
    gpus = [
        protocol.GpuFact(
            uuid=gpu.uuid, index=gpu.index, model=gpu.model.name, memory_mib=gpu.memory_mib
        )
        for gpu in node.gpus.select_related("model").order_by("index")
    ]
    return protocol.Hello(
        node=str(node_id),
        boot="boot-1",
        seq=0,
        oldest_version=1,
        newest_version=1,
        control_epoch=1,
        node_version=node.version,
        facts=protocol.Facts(
            cpu_milli=node.cpu_milli_total,
            ram_mib=node.ram_mib_total,
            disk_mib=node.disk_mib_total,
            gpus=gpus,
            runtime=node.facts.get("runtime", ""),
            shared_allowed=True,
        ),
        residences=list(residences),
        phases=list(phases),
    )


def run_up(instance, *, now=NOON):
    """Place a queued instance and let its node start it."""
    passes.place(now=now)
    for phase in ("accepted", "pulling", "starting", "running"):
        says(instance, phase, now=now)
    return fresh(instance)


def make_running(tenant, *, now=NOON, **rest):
    (instance,) = order(tenant, now=now, **rest)
    return run_up(instance, now=now)
