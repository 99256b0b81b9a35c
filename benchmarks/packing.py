"""
``python -m benchmarks.packing --traces DIR [--workload default] [--policy fgdx] [--seeds 42-51]``

The experiment of Weng et al. (ATC 2023): 1,213 nodes with 6,212 cards, requests in a random order
until they ask for 130 % of the cards, one at a time, nobody leaves, nobody is asked again. Prints
what part of the cards is allocated when 90, 95, 100 and 130 % have been asked for.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import openb
from benchmarks._shared import print_json, print_table
from scheduler.core.boards import make_board, make_policy
from scheduler.core.forecast import Forecast

POINTS = (90, 95, 100, 130)
PERCENT = 130
# Published (P) and reproduced elsewhere (M), at 100 % arrived: reference/scheduler.md §2.5.
PUBLISHED = {
    "cpu050": 95.00,
    "cpu100": 95.21,
    "cpu200": 94.82,
    "cpu250": 93.20,
    "default": 95.23,
    "gpushare40": 93.96,
    "gpushare60": 91.26,
    "gpushare80": 89.08,
    "gpushare100": 86.64,
    "gpuspec10": 94.66,
    "gpuspec20": 94.66,
    "gpuspec25": 93.91,
    "gpuspec33": 87.84,
    "multigpu20": 95.53,
    "multigpu30": 96.36,
    "multigpu40": 96.91,
    "multigpu50": 97.09,
}


def run_once(folder: Path, workload: str, policy: str, seed: int) -> dict[str, Any]:
    pods = openb.read_pods(folder, workload)
    room = openb.shuffled_room(folder, seed ^ 0x5EED)
    capacity = int(room.free.sum())
    wanted = openb.arrivals(pods, capacity, percent=PERCENT, seed=seed)
    forecast = Forecast.of(openb.counts_of(folder, workload))
    board = make_board(room, make_policy(policy, room, forecast))
    asked, given, at = 0, 0, {}
    began = time.perf_counter()
    for kind in wanted:
        asked += kind.total_milli
        if (chosen := board.choose(kind)) is not None:
            room.take(kind, *chosen)
            given += kind.total_milli
        for point in POINTS:
            if point not in at and asked * 100 >= capacity * point:
                at[point] = 100 * given / capacity
    seconds = time.perf_counter() - began
    return {"seed": seed, "at": at, "per_second": len(wanted) / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packing", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder of the openb files")
    parser.add_argument("--workload", default="default", help="one of them, or all")
    parser.add_argument("--policy", nargs="+", default=["fgdx"])
    parser.add_argument("--seeds", default="42-51", help="first-last")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    first, last = (int(part) for part in chosen.seeds.split("-"))
    seeds = range(first, last + 1)
    workloads = openb.WORKLOADS if chosen.workload == "all" else (chosen.workload,)
    began = time.perf_counter()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        futures = {
            (workload, policy, seed): pool.submit(run_once, chosen.traces, workload, policy, seed)
            for workload in workloads
            for policy in chosen.policy
            for seed in seeds
        }
        rows, figures = [], {}
        for workload in workloads:
            for policy in chosen.policy:
                runs = [futures[workload, policy, seed].result() for seed in seeds]
                figures[f"{workload}/{policy}"] = figure = _summary(runs)
                rows.append((f"{workload} {policy}", _line(workload, figure)))
                print(*rows[-1], file=sys.stderr, flush=True)  # it takes an hour
    print_table(f"allocated, % of the cards, when {POINTS} % were asked for", rows)
    means = {
        policy: round(mean(figures[f"{w}/{policy}"]["100"] for w in workloads), 3)
        for policy in chosen.policy
    }
    print_json(
        {
            "benchmark": "packing",
            "seeds": chosen.seeds,
            "seconds": round(time.perf_counter() - began, 1),
            "mean_at_100": means,
            "figures": figures,
        }
    )


def _line(workload: str, figure: dict[str, float]) -> str:
    shares = " ".join(f"{figure[str(point)]:6.2f}" for point in POINTS)
    return (
        f"{shares}  sd {figure['sd']:.2f}  lowest {figure['lowest']:.2f}"
        f"  published FGD {PUBLISHED[workload]:.2f}  {figure['per_second']:,.0f}/s"
    )


def _summary(runs: list[dict[str, Any]]) -> dict[str, float]:
    at = {point: [run["at"][point] for run in runs] for point in POINTS}
    return {
        **{str(point): round(mean(at[point]), 3) for point in POINTS},
        "sd": round(stdev(at[100]), 3) if len(runs) > 1 else 0.0,
        "lowest": round(min(at[100]), 3),
        "per_second": round(mean(run["per_second"] for run in runs)),
    }


if __name__ == "__main__":
    main()
