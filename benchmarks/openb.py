"""
The public GPU trace of Alibaba as an inventory and as kinds of request (Weng et al., ATC 2023).

Its cards are cut by thousandths, anybody beside anybody, and their memory is no dimension.
"""

import csv
import uuid
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from scheduler.core.dice import Dice
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.kinds import WHOLE, Kind

NODES: Final = "openb_node_list_gpu_node.csv"
WORKLOADS: Final = (
    "cpu050",
    "cpu100",
    "cpu200",
    "cpu250",
    "default",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpushare100",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
    "multigpu20",
    "multigpu30",
    "multigpu40",
    "multigpu50",
)


@cache
def read_nodes(folder: Path) -> tuple[dict[str, str], ...]:
    with (folder / NODES).open() as lines:
        return tuple(csv.DictReader(lines))


def nodes_of(folder: Path, *, order: Sequence[int] | None = None) -> list[NodeState]:
    """Return the nodes, empty. Ties go to the lowest id, which is a node's place in ``order``."""
    rows = read_nodes(folder)
    return [
        NodeState(
            id=uuid.UUID(int=place + 1),
            version=1,
            region="openb",
            zone="openb",
            allows_strangers=True,
            cpu_milli=int(rows[at]["cpu_milli"]),
            ram_mib=int(rows[at]["memory_mib"]),
            disk_mib=0,
            gpus=tuple(
                GpuState(
                    id=uuid.UUID(int=(place + 1) * 100 + index),
                    index=index,
                    model=(rows[at]["model"], 0),
                    vram_free_mib=0,
                )
                for index in range(int(rows[at]["gpu"]))
            ),
        )
        for place, at in enumerate(order or range(len(rows)))
    ]


def shuffled_room(folder: Path, seed: int) -> Inventory:
    """Return the empty nodes in a random order, which decides ties."""
    order = list(range(len(read_nodes(folder))))
    Dice(seed).shuffle(order)
    return Inventory(nodes_of(folder, order=order))


@cache
def read_pods(folder: Path, workload: str) -> tuple[Kind, ...]:
    with (folder / f"openb_pod_list_{workload}.csv").open() as lines:
        return tuple(_kind_of(row) for row in csv.DictReader(lines))


def _kind_of(row: dict[str, str]) -> Kind:
    count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    is_share = count == 1 and milli < WHOLE
    tied_to = row.get("gpu_spec") or ""  # multigpu… have no such column
    models = sorted(name for name in tied_to.split("|") if name)
    return Kind(
        mode="share_shared" if is_share else "whole",
        count=count,
        milli=milli if is_share else WHOLE,
        width=0,
        models=tuple((name, 0) for name in models),
        cpu_milli=int(row["cpu_milli"]),
        ram_mib=int(row["memory_mib"]),
    )


def counts_of(folder: Path, workload: str) -> Counter[Kind]:
    return Counter(read_pods(folder, workload))


def arrivals(pods: Sequence[Kind], capacity: int, *, percent: int, seed: int) -> list[Kind]:
    """
    Return pods in a random order, then drawn again and again until they ask for ``percent`` of
    ``capacity`` (thousandths of cards).
    """
    dice = Dice(seed)
    order = list(range(len(pods)))
    dice.shuffle(order)
    wanted = [pods[at] for at in order]
    asked = sum(kind.total_milli for kind in wanted)
    while asked * 100 < capacity * percent:
        kind = pods[dice.below(len(pods))]
        wanted.append(kind)
        asked += kind.total_milli
    return wanted
