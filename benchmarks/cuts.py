"""
``python -m benchmarks.cuts --traces DIR [--seeds 42-45] [--plot docs/images/cuts.svg]``

What cutting cards as finely as they are asked for is worth: the public trace's requests (default
workload, 38 % of them for a part of a card) on the public trace's nodes, when parts can be had as
whole cards only, as halves, quarters, tenths, or to the thousandth. Every request gets the smallest
cut that holds it. Useful is what was asked for, not what was given: the rest of a cut is sold and
idle. Nobody leaves and nobody waits, as in benchmarks.packing.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import openb
from benchmarks._shared import print_json, print_table
from scheduler.core.boards import make_board, make_policy
from scheduler.core.forecast import Forecast
from scheduler.core.kinds import WHOLE, Kind

CUTS = {"whole cards": 1_000, "halves": 500, "quarters": 250, "tenths": 100, "thousandths": 1}
COLOURS = ("#9a3412", "#c2410c", "#ca8a04", "#15803d", "#1d4ed8")
POLICY = "fgdx"
PERCENT = 130
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 420, 60, 50


def cut_to(kind: Kind, size: int) -> Kind:
    """Return what is sold for a request: the smallest multiple of ``size`` that holds it."""
    if not kind.is_share:
        return kind
    milli = -(-kind.milli // size) * size
    return replace(kind, milli=milli, mode="whole" if milli >= WHOLE else kind.mode)


def run_once(folder: Path, cut: str, seed: int) -> dict[str, Any]:
    """Return, for each percent that was asked for, what part of the cards is in useful hands."""
    size = CUTS[cut]
    room = openb.shuffled_room(folder, seed ^ 0x5EED)
    capacity = int(room.free.sum())
    counts: dict[Kind, int] = {}
    for kind, often in openb.counts_of(folder, "default").items():
        sold = cut_to(kind, size)
        counts[sold] = counts.get(sold, 0) + often
    board = make_board(room, make_policy(POLICY, room, Forecast.of(counts)))
    pods = openb.read_pods(folder, "default")
    asked = useful = sold_milli = served = 0
    curve: dict[int, float] = {}
    for kind in openb.arrivals(pods, capacity, percent=PERCENT, seed=seed):
        asked += kind.total_milli
        sold = cut_to(kind, size)
        if (chosen := board.choose(sold)) is not None:
            room.take(sold, *chosen)
            useful += kind.total_milli
            sold_milli += sold.total_milli
            served += 1
        curve.setdefault(100 * asked // capacity, 100 * useful / capacity)
    return {"curve": curve, "sold": 100 * sold_milli / capacity, "served": served}


def plot(curves: dict[str, dict[int, float]]) -> str:
    """Return an SVG of useful against asked, a line a cut."""

    def x(percent: float) -> float:
        return LEFT + (WIDTH - LEFT - 150) * percent / PERCENT

    def y(percent: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * percent / 100

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for tick in range(0, 101, 20):
        parts += [
            f'<path d="M{LEFT} {y(tick):.1f}H{x(PERCENT):.1f}" stroke="#e5e7eb"/>',
            f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>',
        ]
    for tick in range(0, PERCENT + 1, 20):
        parts.append(
            f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick}</text>'
        )
    middle = (LEFT + x(PERCENT)) / 2
    parts += [
        f'<text x="{middle:.0f}" y="{HEIGHT - 12}" text-anchor="middle">asked for,'
        " % of the cards</text>",
        f'<text transform="translate(16 {HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">'
        "in useful hands, % of the cards</text>",
    ]
    last = 1_000.0
    for (cut, curve), colour in zip(reversed(curves.items()), reversed(COLOURS), strict=True):
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in sorted(curve.items()))
        end = curve[max(curve)]
        label = y(end) + 4 if last == 1_000.0 else max(y(end) + 4, last + 15)
        last = label
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{x(PERCENT) + 6:.1f}" y="{label:.1f}" fill="{colour}">'
            f"{cut} {end:.1f}</text>",
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuts", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder of the openb files")
    parser.add_argument("--seeds", default="42-45", help="first-last")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="an SVG to write")
    chosen = parser.parse_args()
    first, last = (int(part) for part in chosen.seeds.split("-"))
    seeds = range(first, last + 1)
    began = time.perf_counter()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        futures = {
            (cut, seed): pool.submit(run_once, chosen.traces, cut, seed)
            for cut in CUTS
            for seed in seeds
        }
        found = {key: future.result() for key, future in futures.items()}
    curves, rows, figures = {}, [], {}
    for cut in CUTS:
        runs = [found[cut, seed] for seed in seeds]
        shared = set.intersection(*(set(run["curve"]) for run in runs))
        curves[cut] = curve = {at: mean(run["curve"][at] for run in runs) for at in sorted(shared)}
        sold, served = mean(run["sold"] for run in runs), mean(run["served"] for run in runs)
        at_most = curve[max(curve)]
        figures[cut] = {
            "useful_at_100": round(curve[100], 2),
            "useful_at_130": round(at_most, 2),
            "sold": round(sold, 2),
            "served": round(served),
        }
        rows.append(
            (
                cut,
                f"{curve[100]:6.2f} % useful when 100 % were asked for, {at_most:6.2f} % at 130;"
                f" sold {sold:6.2f} %, {served:,.0f} requests served",
            )
        )
    print_table(f"cuts of a card, {POLICY}, seeds {chosen.seeds}", rows)
    if chosen.plot:
        chosen.plot.write_text(plot(curves))
    seconds = round(time.perf_counter() - began, 1)
    print_json({"benchmark": "cuts", "seconds": seconds, "figures": figures})


if __name__ == "__main__":
    main()
