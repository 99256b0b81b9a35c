"""What is free, as arrays over nodes and GPUs. Pure; memory and disk in MiB, CPU in milli-cores."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.core.shapes import CELLS, Mode

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

ALL_CELLS: Final = (1 << CELLS) - 1
IDLE: Final = 0
MODE_CODES: Final[dict[str, int]] = {"whole": 1, "mig": 2, "share_tenant": 3, "share_shared": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """
    ``model``: name and nominal memory; ``vram_free_mib``: what is unsold. ``taken``: bit k is
    cell k. ``mode``, ``tenant``, ``tile`` (cells), ``tile_vram_mib``: of what is sold on it.
    """

    id: uuid.UUID
    index: int
    model: tuple[str, int]
    vram_free_mib: int
    nvlink_group: int | None = None
    is_healthy: bool = True
    taken: int = 0
    mode: Mode | None = None
    tenant: uuid.UUID | None = None
    tile: int = 0
    tile_vram_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    id: uuid.UUID
    version: int
    region: str
    zone: str
    is_cordoned: bool = False
    is_live: bool = True
    allows_strangers: bool = False
    cpu_milli: int
    ram_mib: int
    disk_mib: int
    gpus: tuple[GpuState, ...] = ()


class Codes:
    """Small integers for values of any kind, in order of first sight."""

    def __init__(self) -> None:
        self._codes: dict[object, int] = {}

    def of(self, value: object) -> int:
        return self._codes.setdefault(value, len(self._codes))

    def find(self, value: object) -> int:
        """Return the code, or -1 for a value that was never seen."""
        return self._codes.get(value, -1)

    def __len__(self) -> int:
        return len(self._codes)


class Inventory:
    """
    One row a node (sorted by id) and one a GPU (sorted by node, then index): the order in which
    nodes were given changes nothing. A pass writes into the arrays as it decides.

    ``pair``: (node, model) of a GPU; ``link``: (node, model, NVLink group), one of its own for a
    GPU without NVLink.
    """

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.id)
        self.gpus = [
            gpu for node in self.nodes for gpu in sorted(node.gpus, key=lambda g: (g.index, g.id))
        ]
        self.tenants = Codes()
        self.regions = Codes()
        self.zones = Codes()
        self.models = Codes()
        self._fill_nodes()
        self._fill_gpus()

    def _fill_nodes(self) -> None:
        self.row_of_node = {node.id: row for row, node in enumerate(self.nodes)}
        self.cpu = _ints(node.cpu_milli for node in self.nodes)
        self.ram = _ints(node.ram_mib for node in self.nodes)
        self.disk = _ints(node.disk_mib for node in self.nodes)
        self.region = _ints(self.regions.of(node.region) for node in self.nodes)
        self.zone = _ints(self.zones.of(node.zone) for node in self.nodes)
        self.is_cordoned = _bools(node.is_cordoned for node in self.nodes)
        self.is_live = _bools(node.is_live for node in self.nodes)
        self.allows_strangers = _bools(node.allows_strangers for node in self.nodes)

    def _fill_gpus(self) -> None:
        pairs, links = Codes(), Codes()
        node_of, pair, link = [], [], []
        for row, node in enumerate(self.nodes):
            for gpu in sorted(node.gpus, key=lambda g: (g.index, g.id)):
                group = gpu.id if gpu.nvlink_group is None else gpu.nvlink_group
                node_of.append(row)
                pair.append(pairs.of((row, gpu.model)))
                link.append(links.of((row, gpu.model, group)))
        self.node_of, self.pair, self.link = _ints(node_of), _ints(pair), _ints(link)
        self.pair_count, self.link_count = len(pairs), len(links)
        self.model = _ints(self.models.of(gpu.model) for gpu in self.gpus)
        self.memory = _ints(gpu.model[1] for gpu in self.gpus)
        self.vram = _ints(gpu.vram_free_mib for gpu in self.gpus)
        self.is_healthy = _bools(gpu.is_healthy for gpu in self.gpus)
        self.taken = _ints(gpu.taken for gpu in self.gpus)
        self.mode = _ints(MODE_CODES[gpu.mode] if gpu.mode else IDLE for gpu in self.gpus)
        self.tenant = _ints(
            -1 if gpu.tenant is None else self.tenants.of(gpu.tenant) for gpu in self.gpus
        )
        self.tile = _ints(gpu.tile for gpu in self.gpus)
        self.tile_vram = _ints(gpu.tile_vram_mib for gpu in self.gpus)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _bools(values: Iterable[bool]) -> Bools:
    return np.array(list(values), dtype=np.bool_)
