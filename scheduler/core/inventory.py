"""What is free, as arrays over nodes and their GPUs. Pure; memory in MiB, CPU in milli-cores."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.core.cells import ALL_CELLS, FREE_CELLS, start_of
from scheduler.core.kinds import WHOLE, Kind
from scheduler.core.mig import MASKS, Choices, Table, builtin_table
from scheduler.core.shapes import CELLS, Mode

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

IDLE: Final = 0
MODE_CODES: Final[dict[str, int]] = {"whole": 1, "mig": 2, "share_tenant": 3, "share_shared": 4}
NOBODY: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """
    ``model``: name and nominal memory; ``vram_free_mib``: what is unsold. ``taken``: bit k is
    cell k, in mode "mig" memory slice k. ``mode``, ``tenant``: of what is sold on it; ``tile``
    (cells), ``tile_vram_mib``: of strangers' tiles, read for them alone. ``has_media``: the part
    with media extensions is sold. ``mig_table``: what its agent reports; the built-in one of its
    model if nothing.
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
    is_mig_capable: bool = False
    mig_table: Table | None = None
    has_media: bool = False

    @property
    def table(self) -> Table | None:
        """How the card is cut for MIG, None if it cannot be."""
        if not self.is_mig_capable:
            return None
        return self.mig_table or builtin_table(*self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    id: uuid.UUID
    version: int
    region: str
    zone: str
    rack: str = ""
    is_cordoned: bool = False
    is_live: bool = True
    is_cleaning: bool = False
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

    def __iter__(self) -> Iterator[object]:
        return iter(self._codes)


@dataclass(frozen=True, slots=True)
class Cut:
    """
    What one placement took of one card: ``width`` cells from ``start`` (-1: without cells); of
    MIG, memory slices.
    """

    column: int
    start: int
    width: int
    vram_mib: int


class Inventory:
    """
    One row a node, sorted by id; one column a GPU, sorted by index, as many as the largest node
    has (``exists``). The order in which nodes were given changes nothing. Whoever decides writes
    into the arrays by ``take`` and ``give_back``; ``changed`` is the log of the rows that moved.

    ``free``: thousandths of a card, none of one that is cut for MIG. ``link``: the NVLink group
    inside the node, one of its own for a GPU without NVLink.
    """

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.id)
        self.gpus = [sorted(node.gpus, key=lambda gpu: (gpu.index, gpu.id)) for node in self.nodes]
        self.row_of_node = {node.id: row for row, node in enumerate(self.nodes)}
        self.tenants, self.regions, self.zones, self.models = Codes(), Codes(), Codes(), Codes()
        self.tables: list[Table] = []  # of MIG
        self._choices: dict[tuple[str, int], Choices] = {}
        self.changed: list[int] = []
        self.stamp = np.zeros(len(self.nodes), dtype=np.int64)  # how often each row has moved
        self._fill_nodes()
        self._fill_gpus()

    def _fill_nodes(self) -> None:
        self.cpu = _ints(node.cpu_milli for node in self.nodes)
        self.ram = _ints(node.ram_mib for node in self.nodes)
        self.disk = _ints(node.disk_mib for node in self.nodes)
        self.region = _ints(self.regions.of(node.region) for node in self.nodes)
        self.zone = _ints(self.zones.of(node.zone) for node in self.nodes)
        racks = Codes()  # a node of which no rack is known is one by itself
        self.rack = _ints(racks.of((node.zone, node.rack or node.id)) for node in self.nodes)
        self.is_cordoned = _bools(node.is_cordoned for node in self.nodes)
        self.is_live = _bools(node.is_live for node in self.nodes)
        self.is_cleaning = _bools(node.is_cleaning for node in self.nodes)
        self.allows_strangers = _bools(node.allows_strangers for node in self.nodes)
        self.is_held = np.zeros(len(self.nodes), dtype=np.bool_)

    def _fill_gpus(self) -> None:
        # One at least: a table without columns has no smallest, no fullest, no first.
        self.columns = max([1, *(len(gpus) for gpus in self.gpus)])
        self.exists = self._table(lambda _: 1, missing=0).astype(np.bool_)
        self.model = self._table(lambda gpu: self.models.of(gpu.model), missing=-1)
        self.memory = self._table(lambda gpu: gpu.model[1], missing=0)
        self.vram = self._table(lambda gpu: gpu.vram_free_mib, missing=0)
        self.is_healthy = self._table(lambda gpu: int(gpu.is_healthy), missing=0).astype(np.bool_)
        self.taken = self._table(lambda gpu: gpu.taken, missing=ALL_CELLS)
        self.mode = self._table(
            lambda gpu: MODE_CODES[gpu.mode] if gpu.mode else IDLE, missing=MODE_CODES["whole"]
        )
        self.tenant = self._table(
            lambda gpu: NOBODY if gpu.tenant is None else self.tenants.of(gpu.tenant),
            missing=NOBODY,
        )
        strangers = self.mode == MODE_CODES["share_shared"]
        self.tile = self._table(lambda gpu: gpu.tile, missing=0) * strangers
        self.tile_vram = self._table(lambda gpu: gpu.tile_vram_mib, missing=0) * strangers
        self.link = self._links()
        self.free = FREE_CELLS[self.taken] * (WHOLE // CELLS)
        self.free[self.mode == MODE_CODES["mig"]] = 0
        self.has_media = self._table(lambda gpu: int(gpu.has_media), missing=0)
        self.table = self._table(lambda gpu: self._code_of(gpu.table), missing=-1)
        first = self.model[:, :1]
        self.is_mixed = bool(((self.model != first) & self.exists).any())

    def _table(self, value: Callable[[GpuState], int], *, missing: int) -> Ints:
        """Return ``value`` of every GPU, nodes by columns."""
        table = np.full((len(self.nodes), self.columns), missing, dtype=np.int64)
        for row, gpus in enumerate(self.gpus):
            table[row, : len(gpus)] = [value(gpu) for gpu in gpus]
        return table

    def _links(self) -> Ints:
        """Number NVLink groups inside each node by (group, model): models never mix in one."""
        links = np.full((len(self.nodes), self.columns), -1, dtype=np.int64)
        for row, gpus in enumerate(self.gpus):
            groups = Codes()
            for column, gpu in enumerate(gpus):
                group = ("alone", column) if gpu.nvlink_group is None else gpu.nvlink_group
                links[row, column] = groups.of((group, gpu.model))
        return links

    def _code_of(self, table: Table | None) -> int:
        """Return the table's index in ``tables``, -1 for a card that cannot be cut."""
        if table is None:
            return -1
        if table not in self.tables:
            self.tables.append(table)
        return self.tables.index(table)

    def choices(self, kind: Kind) -> Choices:
        """Return what a MIG request of this kind gets on a card of each table in each state."""
        wish = kind.profile, kind.vram_mib
        if wish not in self._choices:
            self._choices[wish] = Choices(self.tables, *wish)
        return self._choices[wish]

    def states(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return table and state of every card of these nodes: an index into ``Choices``."""
        return self.table[rows], self.taken[rows] % MASKS + self.has_media[rows] * MASKS

    def take(self, kind: Kind, row: int, columns: Sequence[int]) -> tuple[Cut, ...]:
        """Give these cards of this node to a request of this kind, which fits there."""
        cuts = tuple(self._cut(kind, row, column) for column in columns)
        self.cpu[row] -= kind.cpu_milli
        self.ram[row] -= kind.ram_mib
        self.disk[row] -= kind.disk_mib
        self._moved(row)
        return cuts

    def _cut(self, kind: Kind, row: int, column: int) -> Cut:
        self.mode[row, column] = MODE_CODES[kind.mode]
        if kind.mode == "mig":
            return self._cut_mig(kind, row, column)
        if not kind.is_share:
            vram = int(self.vram[row, column])
            self.taken[row, column], self.free[row, column] = ALL_CELLS, 0
            self.vram[row, column] = 0
            return Cut(column, 0, CELLS, vram)
        start = start_of(kind, int(self.taken[row, column]))
        if kind.width:
            self.taken[row, column] |= ((1 << kind.width) - 1) << start
        self.free[row, column] -= kind.milli
        self.vram[row, column] -= kind.vram_mib
        if kind.tenant is not None:
            self.tenant[row, column] = self.tenants.of(kind.tenant)
        if kind.mode == "share_shared":
            self.tile[row, column], self.tile_vram[row, column] = kind.width, kind.vram_mib
        return Cut(column, start, kind.width, kind.vram_mib)

    def _cut_mig(self, kind: Kind, row: int, column: int) -> Cut:
        choices, at = self.choices(kind), (row, column)
        chosen = self.table[at], self.taken[at] + self.has_media[at] * MASKS
        cut = Cut(
            column,
            start=int(choices.start[chosen]),
            width=int(choices.size[chosen]),
            vram_mib=int(choices.vram_mib[chosen]),
        )
        self.taken[at] |= ((1 << cut.width) - 1) << cut.start
        self.has_media[at] |= kind.is_media
        self.free[at] = 0
        self.vram[at] -= cut.vram_mib
        return cut

    def give_back(self, kind: Kind, row: int, cuts: Sequence[Cut]) -> None:
        """Take back what ``take`` gave."""
        for cut in cuts:
            at = row, cut.column
            self.vram[at] += cut.vram_mib
            if kind.mode == "mig":
                self.taken[at] &= ~(((1 << cut.width) - 1) << cut.start)
                self.has_media[at] &= not kind.is_media
                self.free[at] = 0 if self.taken[at] else WHOLE
            elif kind.is_share:
                self.free[at] += kind.milli
                if kind.width:
                    self.taken[at] &= ~(((1 << kind.width) - 1) << cut.start)
            else:
                self.free[at], self.taken[at] = WHOLE, 0
            if self.free[at] == WHOLE:
                self.mode[at], self.tenant[at] = IDLE, NOBODY
                self.tile[at], self.tile_vram[at] = 0, 0
        self.cpu[row] += kind.cpu_milli
        self.ram[row] += kind.ram_mib
        self.disk[row] += kind.disk_mib
        self._moved(row)

    def hold(self, row: int) -> None:
        """Give nothing more of this node to anybody in this pass."""
        self.is_held[row] = True
        self._moved(row)

    def lift(self, row: int) -> None:
        """Take back ``hold``."""
        self.is_held[row] = False
        self._moved(row)

    def copy(self) -> "Inventory":
        """Return the same room, for what may come of it; its arrays are its own."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | list):
                setattr(other, name, value.copy())
        return other

    def free_up(
        self,
        row: int,
        cpu_milli: int,
        ram_mib: int,
        mode: Mode,
        parts: Iterable[tuple[uuid.UUID, int, int]],
    ) -> None:
        """Take what somebody else held: of each GPU the bits of its cells, and MiB."""
        column_of = {gpu.id: column for column, gpu in enumerate(self.gpus[row])}
        for gpu, mask, vram_mib in parts:
            at = row, column_of[gpu]
            self.vram[at] += vram_mib
            self.taken[at] &= ~mask
            left = int(self.taken[at])
            self.free[at] = FREE_CELLS[left] * (WHOLE // CELLS)
            if not left:
                self.mode[at], self.tenant[at] = IDLE, NOBODY
                self.tile[at], self.tile_vram[at], self.has_media[at] = 0, 0, 0
            elif mode == "mig":
                self.free[at] = 0
        self.cpu[row] += cpu_milli
        self.ram[row] += ram_mib
        self._moved(row)

    def _moved(self, row: int) -> None:
        self.changed.append(row)
        self.stamp[row] += 1


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _bools(values: Iterable[bool]) -> Bools:
    return np.array(list(values), dtype=np.bool_)
