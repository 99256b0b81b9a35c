"""
GPUs out of a file, for machines that have none. The file (TOML, or JSON where Python has no TOML
reader) says what the node is made of; a control file beside it, ``<file>.faults`` (JSON), breaks
things while the agent runs:

    {"gpu_lost": ["GPU-…"], "runtime_hang": ["<container id>" or "*"]}
"""

import asyncio
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from agents.drivers.base import Container, DriverError, Runtime
from agents.files import read_json
from agents.protocol import Facts, GpuFact, Sample, SliceSpec
from agents.settings import read_table

IDLE_WATTS = 42


class SimulatedNode(msgspec.Struct, kw_only=True):
    """The ``[node]`` table. Zero: what this machine has."""

    cpu_milli: int = 0
    ram_mib: int = 0
    disk_mib: int = 0
    shared_allowed: bool = False


class SimulatedFile(msgspec.Struct, kw_only=True):
    node: SimulatedNode = msgspec.field(default_factory=SimulatedNode)
    gpus: list[GpuFact] = []


class Faults:
    """The control file, read again whenever it is asked."""

    def __init__(self, gpus_file: Path) -> None:
        self._path = gpus_file.with_name(gpus_file.name + ".faults")

    def read(self, name: str) -> list[str]:
        content = read_json(self._path)
        value = content.get(name, []) if isinstance(content, dict) else []
        return [str(item) for item in value] if isinstance(value, list) else []


class SimulatedGpus:
    name = "simulated"

    def __init__(self, path: Path) -> None:
        self._content = msgspec.convert(read_table(path), SimulatedFile)
        self._faults = Faults(path)

    def facts(self) -> Facts:
        node = self._content.node
        lost = self._faults.read("gpu_lost")
        return Facts(
            cpu_milli=node.cpu_milli or 1000 * (os.cpu_count() or 1),
            ram_mib=node.ram_mib or _machine_ram_mib(),
            disk_mib=node.disk_mib or _machine_disk_mib(),
            shared_allowed=node.shared_allowed,
            gpus=[
                msgspec.structs.replace(gpu, healthy=False, health_reason="gpu_lost")
                if gpu.uuid in lost
                else gpu
                for gpu in self._content.gpus
            ],
        )

    def samples(self, now_ms: int, in_use: Sequence[tuple[str, SliceSpec]]) -> list[Sample]:
        lost = self._faults.read("gpu_lost")
        found = []
        for gpu in self._content.gpus:
            if gpu.uuid in lost:
                continue
            slices = [(alloc, part) for alloc, part in in_use if part.gpu_uuid == gpu.uuid]
            found += [_busy(gpu, part, now_ms, alloc) for alloc, part in slices] or [_idle(gpu)]
        return found

    def wipe(self, slices: Sequence[SliceSpec]) -> None:
        lost = self._faults.read("gpu_lost")
        for part in slices:
            if part.gpu_uuid in lost:
                raise DriverError(f"{part.gpu_uuid} is off the bus, so it cannot be wiped")


class HangingRuntime:
    """A runtime whose ``inspect`` never returns for the containers that the control file names."""

    def __init__(self, inner: Runtime, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def inspect(self, container: str) -> Container:
        hung = self._faults.read("runtime_hang")
        if container in hung or "*" in hung:
            await asyncio.Event().wait()
        return await self._inner.inspect(container)


def _idle(gpu: GpuFact) -> Sample:
    return Sample(gpu_uuid=gpu.uuid, watts=IDLE_WATTS, celsius=34)


def _busy(gpu: GpuFact, part: SliceSpec, now_ms: int, allocation: str) -> Sample:
    """
    What training looks like: a slow swell, a ripple of batches, a dip every four minutes while a
    checkpoint is written. Where it stands depends on card and allocation, so that charts differ.
    """
    place = zlib.crc32(f"{gpu.uuid} {allocation}".encode()) % 600
    seconds = now_ms / 1000 + place
    swell = (1 + math.sin(2 * math.pi * seconds / 600)) / 2
    ripple = math.sin(2 * math.pi * seconds / 47)
    load = 0.62 + 0.26 * swell + 0.08 * ripple
    if seconds % 240 < 20:
        load *= 0.25
    size = min(1.0, part.vram_mib / gpu.memory_mib) if gpu.memory_mib else 1.0
    return Sample(
        gpu_uuid=gpu.uuid,
        allocation=allocation,
        util_percent=round(100 * load),
        vram_mib=round(part.vram_mib * (0.55 + 0.3 * swell)),
        watts=round((IDLE_WATTS + 290 * load) * size),
        celsius=round(38 + 36 * load),
    )


def _machine_ram_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def _machine_disk_mib() -> int:
    stat = os.statvfs("/")
    return stat.f_frsize * stat.f_bavail // 2**20
