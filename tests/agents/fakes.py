"""A clock that stands still, drivers in memory, and shorthands for orders."""

import asyncio
from dataclasses import replace

from agents.clock import Instant
from agents.drivers.base import Container, DriverError, Labels, NoSuchContainer
from agents.meter import Traffic
from agents.protocol import (
    AllocationSpec,
    Desired,
    EndpointFact,
    Facts,
    GpuFact,
    Order,
    ResidenceFact,
    ResidenceOrder,
    Sample,
    SliceSpec,
)

BOOT = "boot-1"
START_MS = 1_000_000


class FakeClock:
    def __init__(self):
        self.at = Instant(BOOT, START_MS, START_MS, 1_800_000_000)

    def now(self):
        return self.at

    def advance(self, ms):
        self.at = self.at._replace(
            boot_ms=self.at.boot_ms + ms,
            mono_ms=self.at.mono_ms + ms,
            wall_s=self.at.wall_s + ms // 1000,
        )

    def suspend(self, ms):
        self.at = self.at._replace(boot_ms=self.at.boot_ms + ms)

    def reboot(self):
        self.at = Instant("boot-2", 5_000, 5_000, self.at.wall_s + 60)

    async def wait(self, event, timeout_s):
        await asyncio.sleep(0)


class FakeRuntime:
    """Containers in a dict. ``ready``: whether probes pass; ``lasting``: SIGTERM is ignored."""

    name = "fake"

    def __init__(self, clock):
        self.clock = clock
        self.containers = {}
        self.residences = {}
        self.ready = True
        self.lasting = False
        self.start_error = None
        self.hang = set()
        self.broken = set()
        self.calls = []

    async def list_containers(self):
        if "*" in self.hang:
            await asyncio.Event().wait()
        return sorted(self.containers)

    async def inspect(self, container):
        if container in self.hang:
            await asyncio.Event().wait()
        if container in self.broken:
            raise DriverError("input/output error")
        found = self.containers.get(container)
        if found is None:
            raise NoSuchContainer(container)
        if found.boot != self.clock.now().boot:
            return replace(found, state="ended")
        return found

    async def pull(self, image):
        self.calls.append(("pull", image))

    async def start(self, order, labels, residences):
        self.calls.append(("start", labels.container))
        if self.start_error is not None:
            raise self.start_error
        now = self.clock.now()
        self.containers.setdefault(
            labels.container, Container(labels, "alive", now.boot, str(now.boot_ms))
        )
        for residence in residences:
            self.residences[residence.residence] = residence

    async def probe(self, container):
        if not self.ready:
            return None
        return [EndpointFact(kind="ssh", host="127.0.0.1", port=2222, user="tessera")]

    async def update(self, container, spec, spec_rev):
        self.calls.append(("update", container, spec_rev))
        found = self.containers[container]
        self.containers[container] = replace(found, labels=replace(found.labels, spec_rev=spec_rev))

    async def terminate(self, container):
        self.calls.append(("terminate", container))
        if not self.lasting:
            self.end(container, 143)

    async def kill(self, container):
        self.calls.append(("kill", container))
        self.end(container, 137)

    def end(self, container, code):
        self.containers[container] = replace(
            self.containers[container], state="ended", exit_code=code
        )

    def traffic(self, container, out, into):
        self.containers[container] = replace(self.containers[container], traffic=Traffic(out, into))

    async def remove(self, container):
        self.calls.append(("remove", container))
        self.containers.pop(container, None)

    async def list_residences(self):
        return [
            ResidenceFact(residence=r.residence, instance=r.instance, kind=r.kind)
            for r in self.residences.values()
        ]

    async def wipe(self, residence):
        self.calls.append(("wipe", residence))
        self.residences.pop(residence, None)


class FakeGpus:
    name = "fake"

    def __init__(self):
        self.lost = set()
        self.wiped = []

    def facts(self):
        return Facts(
            cpu_milli=8000,
            ram_mib=32_000,
            disk_mib=100_000,
            gpus=[
                GpuFact(
                    uuid=f"GPU-{i}",
                    index=i,
                    model="T4",
                    memory_mib=16_384,
                    healthy=f"GPU-{i}" not in self.lost,
                )
                for i in range(2)
            ],
        )

    def samples(self, now_ms, in_use):
        return [Sample(gpu_uuid=part.gpu_uuid, allocation=alloc) for alloc, part in in_use]

    def wipe(self, slices):
        self.wiped += slices


def tenth(gpu=0, cell=0):
    return SliceSpec(
        gpu_uuid=f"GPU-{gpu}",
        mode="share_shared",
        from_cell=cell,
        until_cell=cell + 1,
        vram_mib=1638,
    )


def an_order(allocation="alc_1", **changes):
    spec = AllocationSpec(
        **{
            "instance": "ins_1",
            "name": "one",
            "slug": "one",
            "image": "cuda",
            "grace_s": 10,
            **changes.pop("spec", {}),
        }
    )
    return Order(
        **{
            "allocation": allocation,
            "instance": "ins_1",
            "run": f"run_{allocation}_{changes.get('incarnation', 1)}",
            "incarnation": 1,
            "spec_rev": 1,
            "want": "run",
            "spec": spec,
            "slices": [tenth()],
            **changes,
        }
    )


def a_set(*orders, version=1, epoch=1, residences=()):
    return Desired(
        node="node-a",
        control_epoch=epoch,
        node_version=version,
        orders=list(orders),
        residences=list(residences),
    )


def a_residence(name="res_1", kind="workspace", want="keep", instance="ins_1"):
    return ResidenceOrder(residence=name, instance=instance, kind=kind, disk_mib=10, want=want)


def labels_of(order, node="node-a"):
    return Labels(
        node=node,
        instance=order.instance,
        allocation=order.allocation,
        incarnation=order.incarnation,
        run=order.run or "",
        spec_rev=order.spec_rev,
        slices=tuple(order.slices),
    )
