"""
``python -m benchmarks.mig [--gpus 1000] [--offered 1.1] [--seeds 5]``: where MIG instances are put.

A room of H100s in which instances come and go: Poisson arrivals, lognormal lives (sigma 1.3), what
does not fit is lost. ``offered``: compute slices that would be held in the long run, of the seven
that a card has. Starts empty, measures from the 2nd to the 12th mean life: over this window best
fit refuses as much, on average, as in the earlier experiment that is printed as "reference", whose
own window is not known. Prints what part of the slice-time (compute slices x life inside the
window) was refused, for four mixes of profiles:

- first fit: the first card that can, the lowest start
- best fit: the card left with the fewest free memory slices, the lowest start
- high starts: best fit, but parts of 1 and 3 compute slices begin as high as they can
- ours: what the scheduler itself decides, a Board over an Inventory of nodes of eight cards
- pool: as if all memory slices were one heap; less is hardly possible

The same arrivals for every rule.
"""

import argparse
import heapq
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, count
from math import exp, log, pi, sin, sqrt
from multiprocessing import get_context
from statistics import mean
from typing import Any, Final

import numpy as np

from benchmarks._shared import print_json, print_table, spin_ms
from scheduler.core.board import Board
from scheduler.core.dice import Dice
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.kinds import Kind
from scheduler.core.mig import H100_80, MASKS, MOST_SLICES, Profile, fits
from scheduler.core.policies.best_fit import BestFit

SIGMA: Final = 1.3
BEGIN, END = 2.0, 12.0  # of the window, in mean lives
CARDS: Final = 8  # of a node
COMPUTE: Final = 7  # slices of a card
H100: Final = ("H100", 81_920)
NAMES: Final = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
PROFILES: Final = [next(one for one in H100_80.profiles if one.name == name) for name in NAMES]
# How often each comes.
MIXES: Final = {
    "small-heavy": (40, 10, 25, 15, 5, 5),
    "uniform": (1, 1, 1, 1, 1, 1),
    "no 7g": (35, 10, 25, 20, 10, 0),
    "big-heavy": (20, 5, 20, 25, 15, 15),
}
# Refused %, mixes as above: reference/scheduler.md §3.2.
REFERENCE: Final = {
    "reference, first fit": (6.90, 12.28, 6.93, 9.15),
    "reference, best fit": (6.14, 8.83, 6.59, 5.87),
    "reference, high starts": (6.28, 5.48, 5.80, 4.40),
}
AIM_MEAN, AIM_BEHIND = 5.5, 0.2

NEVER: Final = 1 << 14
Held = Any  # what a room remembers of an instance


@dataclass(frozen=True, slots=True)
class Visit:
    at: float
    until: float
    profile: int


class ByTable:
    """A rule over an array of masks: of the cards that can, the one with the least key."""

    def __init__(self, gpus: int, *, is_best: bool, is_high: bool = False) -> None:
        self._masks = np.zeros(gpus, dtype=np.int64)
        self._starts = [fits(one) if is_high else _lowest(one) for one in PROFILES]
        self._keys = [
            np.array(
                [
                    NEVER if start < 0 else is_best * (MOST_SLICES - mask.bit_count())
                    for mask, start in enumerate(starts)
                ]
            )
            for starts in self._starts
        ]

    def place(self, profile: int) -> Held | None:
        keys = self._keys[profile][self._masks]
        card = int(keys.argmin())
        if keys[card] == NEVER:
            return None
        start = self._starts[profile][self._masks[card]]
        part = ((1 << PROFILES[profile].size) - 1) << start
        self._masks[card] |= part
        return card, part

    def give_back(self, held: Held) -> None:
        card, part = held
        self._masks[card] &= ~part


def _lowest(profile: Profile) -> Sequence[int]:
    part = (1 << profile.size) - 1
    return [
        next((start for start in profile.starts if not mask & part << start), -1)
        for mask in range(MASKS)
    ]


class Pool:
    def __init__(self, gpus: int) -> None:
        self._free = gpus * MOST_SLICES

    def place(self, profile: int) -> Held | None:
        size = PROFILES[profile].size
        if size > self._free:
            return None
        self._free -= size
        return size

    def give_back(self, held: Held) -> None:
        self._free += held


class Ours:
    """The scheduler itself."""

    def __init__(self, gpus: int) -> None:
        self._room = Inventory(_nodes(gpus))
        self._board = Board(self._room, BestFit(self._room))
        self._kinds = [
            Kind(mode="mig", milli=0, width=0, profile=one.name, vram_mib=one.vram_mib)
            for one in PROFILES
        ]

    def place(self, profile: int) -> Held | None:
        kind = self._kinds[profile]
        if (chosen := self._board.choose(kind)) is None:
            return None
        return kind, chosen[0], self._room.take(kind, *chosen)

    def give_back(self, held: Held) -> None:
        self._room.give_back(*held)


def _nodes(gpus: int) -> list[NodeState]:
    return [
        NodeState(
            id=uuid.UUID(int=first + 1),
            version=1,
            region="bench",
            zone="bench",
            cpu_milli=0,
            ram_mib=0,
            disk_mib=0,
            gpus=tuple(
                GpuState(
                    id=uuid.UUID(int=number + 1),
                    index=number - first,
                    model=H100,
                    vram_free_mib=H100[1],
                    is_mig_capable=True,
                )
                for number in range(first, min(first + CARDS, gpus))
            ),
        )
        for first in range(0, gpus, CARDS)
    ]


RULES: Final[dict[str, Callable[[int], Any]]] = {
    "first fit": lambda gpus: ByTable(gpus, is_best=False),
    "best fit": lambda gpus: ByTable(gpus, is_best=True),
    "high starts": lambda gpus: ByTable(gpus, is_best=True, is_high=True),
    "ours": Ours,
    "pool": Pool,
}


def uniform(dice: Dice) -> float:
    return (dice.draw() >> 11) / (1 << 53)


def arrivals(mix: Sequence[int], *, gpus: int, offered: float, seed: int) -> Iterator[Visit]:
    """Yield who comes before END, in order; a mean life is 1."""
    dice, ends = Dice(seed), list(accumulate(mix))
    asked = sum(one.compute * often for one, often in zip(PROFILES, mix, strict=True))
    rate = offered * gpus * COMPUTE * ends[-1] / asked
    at = 0.0
    while (at := at - log(1 - uniform(dice)) / rate) < END:
        drawn = dice.below(ends[-1])
        normal = sqrt(-2 * log(1 - uniform(dice))) * sin(2 * pi * uniform(dice))
        life = exp(SIGMA * normal - SIGMA**2 / 2)
        yield Visit(at, at + life, next(i for i, end in enumerate(ends) if drawn < end))


def run_once(rule: str, mix: str, gpus: int, offered: float, seed: int) -> tuple[float, float]:
    """Return what part of the slice-time was refused, and decisions a second."""
    room, order = RULES[rule](gpus), count()
    leaving: list[tuple[float, int, Held]] = []
    asked = refused = 0.0
    began = time.perf_counter()
    for visit in arrivals(MIXES[mix], gpus=gpus, offered=offered, seed=seed):
        while leaving and leaving[0][0] <= visit.at:
            room.give_back(heapq.heappop(leaving)[2])
        held = room.place(visit.profile)
        number = next(order)
        if held is not None:
            heapq.heappush(leaving, (visit.until, number, held))
        if visit.at >= BEGIN:
            wanted = PROFILES[visit.profile].compute * (min(visit.until, END) - visit.at)
            asked += wanted
            refused += wanted * (held is None)
    return 100 * refused / asked, next(order) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mig", description=__doc__)
    parser.add_argument("--gpus", type=int, default=1_000)
    parser.add_argument("--offered", type=float, default=1.1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    seeds = range(1, chosen.seeds + 1)
    began = time.perf_counter()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        runs = {
            (rule, mix, seed): pool.submit(run_once, rule, mix, chosen.gpus, chosen.offered, seed)
            for rule in chosen.rules
            for mix in MIXES
            for seed in seeds
        }
        found = {key: future.result() for key, future in runs.items()}
    figures = {
        rule: [round(mean(found[rule, mix, seed][0] for seed in seeds), 3) for mix in MIXES]
        for rule in chosen.rules
    }
    speeds = {
        rule: round(mean(found[rule, mix, seed][1] for mix in MIXES for seed in seeds))
        for rule in chosen.rules
    }
    rows: list[tuple[str, object]] = [("", "  ".join(f"{mix:>11}" for mix in (*MIXES, "mean")))]
    rows += [(rule, _line(values)) for rule, values in {**figures, **REFERENCE}.items()]
    rows += [(f"{rule}, a second", f"{speed:,}") for rule, speed in speeds.items()]
    if "ours" in figures and "best fit" in figures:
        pairs = zip(figures["ours"], figures["best fit"], strict=True)
        behind = max(ours - best for ours, best in pairs)
        rows.append((f"aim: mean <= {AIM_MEAN}", f"{mean(figures['ours']):.2f}"))
        rows.append((f"aim: behind best fit <= {AIM_BEHIND}", f"{behind:.2f} at the most"))
    print_table(
        f"refused, % of the slice-time; {chosen.gpus:,} cards, offered {chosen.offered},"
        f" {chosen.seeds} seeds",
        [*rows, ("spin", f"{spin_ms():.0f} ms")],
    )
    print_json(
        {
            "benchmark": "mig",
            "gpus": chosen.gpus,
            "offered": chosen.offered,
            "seeds": chosen.seeds,
            "seconds": round(time.perf_counter() - began, 1),
            "mean": {rule: round(mean(values), 3) for rule, values in figures.items()},
            "refused": {rule: dict(zip(MIXES, row, strict=True)) for rule, row in figures.items()},
            "per_second": speeds,
        }
    )


def _line(values: Sequence[float]) -> str:
    return "  ".join(f"{value:11.2f}" for value in (*values, mean(values)))


if __name__ == "__main__":
    main()
