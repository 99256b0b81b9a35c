"""
Rooms of equal nodes and mixes of what a product like ours sells, for benchmarks of placement.

``product``: tenths of any size beside anybody, and 1, 2, 4 and 8 whole cards, each with 0.6, 1 or
1.5 times its part of the node's CPU. ``catalogue``: what seed_catalog sells of one model.
"""

import uuid
from collections import Counter
from typing import Final

from scheduler.core.inventory import GpuState, NodeState
from scheduler.core.kinds import WHOLE, Kind

CARDS: Final = 8
CORES, CPU, RAM = 16_000, 144_000, 1_048_576  # a card's part; of a node: 12 % are to spare
MODEL: Final = ("H100", 81_920)

# How often each comes, of 100.
TENTHS: Final = {1: 12, 2: 12, 3: 8, 4: 5, 5: 10, 6: 3, 7: 3, 8: 3, 9: 2}
WHOLES: Final = {1: 26, 2: 8, 4: 5, 8: 3}
FACTORS: Final = {600: 1, 1_000: 2, 1_500: 1}  # thousandths of a proportional part of the CPU


def nodes_of(count: int) -> list[NodeState]:
    return [
        NodeState(
            id=uuid.UUID(int=number),
            version=1,
            region="bench",
            zone="bench",
            allows_strangers=True,
            cpu_milli=CPU,
            ram_mib=RAM,
            disk_mib=0,
            gpus=tuple(
                GpuState(
                    id=uuid.UUID(int=number * 100 + index),
                    index=index,
                    model=MODEL,
                    vram_free_mib=MODEL[1],
                    nvlink_group=0,
                )
                for index in range(CARDS)
            ),
        )
        for number in range(1, count + 1)
    ]


def product() -> Counter[Kind]:
    """Return how often each kind of the product mix comes."""
    counts: Counter[Kind] = Counter()
    for factor, weight in FACTORS.items():
        for tenths, often in TENTHS.items():
            counts[_kind(1, tenths * 100, factor)] += often * weight
        for cards, often in WHOLES.items():
            counts[_kind(cards, WHOLE, factor)] += often * weight
    return counts


def catalogue() -> Counter[Kind]:
    """Return the same with what is on sale for one model: cuts of one tenant, and tiles."""
    counts: Counter[Kind] = Counter()
    for tenths, often in {1: 20, 2: 15, 3: 8, 5: 15}.items():
        counts[_kind(1, tenths * 100, 1_000, width=tenths)] += often
    for cards, often in WHOLES.items():
        counts[_kind(cards, WHOLE, 1_000)] += often
    return counts


def _kind(cards: int, milli: int, factor: int, *, width: int = 0) -> Kind:
    is_share = milli < WHOLE
    part = cards * milli
    return Kind(
        mode="share_shared" if is_share else "whole",
        count=cards,
        milli=milli,
        width=width,
        vram_mib=MODEL[1] * milli // WHOLE // 64 * 64 if is_share else 0,
        cpu_milli=min(CPU, CORES * part * factor // (WHOLE * 1_000)),  # of one node
        ram_mib=RAM * part // (CARDS * WHOLE * 2),
    )
