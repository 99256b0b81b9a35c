"""
``python -m benchmarks.churn --room product --offered 1.15 --policy fgd fgdx --seeds 20-31``

A room in which instances come and go: Poisson arrivals, lognormal lives (sigma 1.3), what does not
fit is lost. The same arrivals for every policy, so that seeds are pairs. Starts empty, measures
from the 2nd to the 6th mean life; ``offered`` is what would be asked for in the long run, of the
cards there are. Prints what part of the cards is allocated, and what part of the GPU time that was
asked for in that window was refused, of all and of jobs of several cards.

Rooms: ``product`` (776 equal nodes, tenths beside anybody), ``catalogue`` (40 equal nodes and what
we sell of one model, tiles), ``openb`` (the public trace's nodes and kinds; needs --traces).
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from math import exp, log, pi, sin, sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev

from benchmarks import openb, product
from benchmarks._shared import print_json, print_table
from scheduler.core.boards import make_board, make_policy
from scheduler.core.dice import Dice
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import Inventory
from scheduler.core.kinds import Kind
from scheduler.core.replay import Visit, replay

SIGMA = 1.3
BEGIN, END = 2.0, 6.0  # of the window, in mean lives
NODES = {"product": 776, "catalogue": 40}


def uniform(dice: Dice) -> float:
    return (dice.draw() >> 11) / (1 << 53)


def arrivals(counts: dict[Kind, int], rate: float, seed: int) -> list[Visit]:
    """Return who comes until END, ``rate`` a mean life."""
    dice, heap = Dice(seed), [kind for kind, often in counts.items() for _ in range(often)]
    found, at = [], 0.0
    while True:
        at -= log(1 - uniform(dice)) / rate
        if at >= END:
            return found
        kind = heap[dice.below(len(heap))]
        normal = sqrt(-2 * log(1 - uniform(dice))) * sin(2 * pi * uniform(dice))
        found.append(Visit(at, at + exp(SIGMA * normal - SIGMA**2 / 2), kind))


def make_room(name: str, traces: Path | None) -> tuple[Inventory, dict[Kind, int]]:
    if name == "openb":
        if traces is None:
            raise SystemExit("--room openb needs --traces")
        return openb.shuffled_room(traces, 1), openb.counts_of(traces, "default")
    counts = product.product() if name == "product" else product.catalogue()
    return Inventory(product.nodes_of(NODES[name])), counts


def run_once(
    room_name: str, policy: str, offered: float, seed: int, traces: Path | None
) -> dict[str, float]:
    room, counts = make_room(room_name, traces)
    capacity = int(room.free.sum())
    asked_each = sum(kind.total_milli * often for kind, often in counts.items())
    rate = offered * capacity * sum(counts.values()) / asked_each
    board = make_board(room, make_policy(policy, room, Forecast.of(counts)))
    outcome = replay(board, arrivals(counts, rate, seed), begin=BEGIN, end=END)
    return {
        "allocated": outcome.allocated,
        "refused": outcome.refused,
        "refused_large": outcome.refused_large,
    }


def fill_once(room_name: str, policy: str, seed: int, traces: Path | None) -> float:
    """Return what part of the cards is given when 130 % were asked for and nobody left."""
    room, counts = make_room(room_name, traces)
    board = make_board(room, make_policy(policy, room, Forecast.of(counts)))
    dice, heap = Dice(seed), [kind for kind, often in counts.items() for _ in range(often)]
    capacity, asked = int(room.free.sum()), 0
    while asked * 100 < capacity * 130:
        kind = heap[dice.below(len(heap))]
        asked += kind.total_milli
        if (chosen := board.choose(kind)) is not None:
            room.take(kind, *chosen)
    return 100 * (1 - float(room.free.sum()) / capacity)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.churn", description=__doc__)
    parser.add_argument("--room", default="product", choices=["product", "catalogue", "openb"])
    parser.add_argument("--offered", type=float, nargs="+", default=[1.15])
    parser.add_argument("--policy", nargs="+", default=["first_fit", "best_fit", "fgd", "fgdx"])
    parser.add_argument("--seeds", default="20-31", help="first-last")
    parser.add_argument("--traces", type=Path, help="folder of the openb files")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    first, last = (int(part) for part in chosen.seeds.split("-"))
    seeds = range(first, last + 1)
    began = time.perf_counter()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        runs = {
            (offered, policy, seed): pool.submit(
                run_once, chosen.room, policy, offered, seed, chosen.traces
            )
            for offered in chosen.offered
            for policy in chosen.policy
            for seed in seeds
        }
        fills = {
            (policy, seed): pool.submit(fill_once, chosen.room, policy, seed, chosen.traces)
            for policy in chosen.policy
            for seed in seeds[:3]
        }
        found = {key: future.result() for key, future in runs.items()}
        filled = {key: future.result() for key, future in fills.items()}
    rows, figures = [], {}
    for policy in chosen.policy:
        full = mean(filled[policy, seed] for seed in seeds[:3])
        rows.append((f"{policy}, nobody leaves", f"{full:6.2f} % allocated at 130 % asked"))
        figures[f"fill/{policy}"] = round(full, 3)
    base = chosen.policy[-1]
    for offered in chosen.offered:
        for policy in chosen.policy:
            several = [found[offered, policy, seed] for seed in seeds]
            figure = {name: round(mean(one[name] for one in several), 3) for name in several[0]}
            pairs = [
                found[offered, base, seed]["allocated"] - one["allocated"]
                for seed, one in zip(seeds, several, strict=True)
            ]
            error = stdev(pairs) / sqrt(len(pairs)) if len(pairs) > 1 else 0.0
            figure |= {"ahead": round(mean(pairs), 3), "error": round(error, 3)}
            figures[f"{offered}/{policy}"] = figure
            rows.append(
                (
                    f"{policy}, offered {offered}",
                    f"{figure['allocated']:6.2f} % allocated, refused {figure['refused']:5.2f} % of"
                    f" the time, {figure['refused_large']:5.2f} % of large jobs';"
                    f" {base} is ahead by {figure['ahead']:.2f} ± {figure['error']:.2f}",
                )
            )
    print_table(f"{chosen.room}, seeds {chosen.seeds}", rows)
    seconds = round(time.perf_counter() - began, 1)
    print_json({"benchmark": "churn", "room": chosen.room, "seconds": seconds, "figures": figures})


if __name__ == "__main__":
    main()
