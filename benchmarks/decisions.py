"""
``python -m benchmarks.decisions --gpus 1000 10000 100000``: decisions a second of the pure core.

Fills rooms of equal nodes with the product mix until 99 % of the cards are given, one decision
after another, and keeps deciding while the room is full. Prints decisions a second, the longest,
and how the cost grows with the fleet (the slope of log cost against log cards).
"""

import argparse
import time
from math import log
from typing import Any

from benchmarks import product
from benchmarks._shared import print_json, print_table, spin_ms
from scheduler.core.boards import Way, make_board
from scheduler.core.dice import Dice
from scheduler.core.fast import IS_HERE
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import Inventory
from scheduler.core.kinds import Kind
from scheduler.core.policies.fgdx import Fgdx

FULL = 99  # % of the cards
MOST = {"compiled": 400_000, "numpy": 20_000}  # decisions of one run
AIMS = {1_000: 10_000, 10_000: 20_000, 100_000: 10_000}
AIM_NUMPY = 2_000


def mix(counts: dict[Kind, int], dice: Dice, length: int) -> list[Kind]:
    heap = [kind for kind, often in counts.items() for _ in range(often)]
    return [heap[dice.below(len(heap))] for _ in range(length)]


def run(cards: int, way: Way) -> dict[str, Any]:
    counts = product.product()
    room = Inventory(product.nodes_of(cards // product.CARDS))
    policy = Fgdx(room, Forecast.of(counts))
    board = make_board(room, policy, way)
    wanted = mix(counts, Dice(7), MOST[way])
    for kind in counts:  # compiles, and rates the empty room: said apart
        board.choose(kind)
    capacity, given, decided = int(room.free.sum()), 0, 0
    longest = 0.0
    began = time.perf_counter()
    for kind in wanted:
        start = time.perf_counter()
        chosen = board.choose(kind)
        if chosen is not None:
            room.take(kind, *chosen)
            given += kind.total_milli
        longest = max(longest, time.perf_counter() - start)
        decided += 1
        if given * 100 >= capacity * FULL:
            break
    seconds = time.perf_counter() - began
    return {
        "cards": cards,
        "decisions": decided,
        "given": round(100 * given / capacity, 2),
        "per_second": round(decided / seconds),
        "us": round(1e6 * seconds / decided, 1),
        "longest_ms": round(1_000 * longest, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--ways", nargs="+", default=["compiled", "numpy"])
    chosen = parser.parse_args()
    rows, figures = [], {}
    for way in chosen.ways:
        if way == "compiled" and not IS_HERE:
            rows.append((way, "numba is not installed"))
            continue
        runs = [run(cards, way) for cards in chosen.gpus]
        for one in runs:
            aim = AIMS.get(one["cards"]) if way == "compiled" else AIM_NUMPY
            rows.append(
                (
                    f"{way}, {one['cards']:,} cards",
                    f"{one['per_second']:>8,} a second (aim {aim:,}), {one['us']} us, longest"
                    f" {one['longest_ms']} ms, {one['given']} % given",
                )
            )
        figures[way] = runs
        if len(runs) > 1:
            first, last = runs[0], runs[-1]
            slope = log(last["us"] / first["us"]) / log(last["cards"] / first["cards"])
            rows.append((f"{way}, slope", f"{slope:.2f}"))
            figures[f"{way}_slope"] = round(slope, 3)
    print_table("decisions of FGDX, product mix", [*rows, ("spin", f"{spin_ms():.0f} ms")])
    print_json({"benchmark": "decisions", **figures})


if __name__ == "__main__":
    main()
