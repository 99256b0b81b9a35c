"""
``python -m benchmarks.races [--races 100000] [--workers 3]``: passes at once over one queue, some
stopped in the middle and woken later, some killed.

Every round begins with the same half sold fleet and the same queue. Workers run
``scheduler.services.place.run_pass`` again and again; meanwhile now one is stopped for a moment
(SIGSTOP: it wakes with decisions from before), now one is killed (SIGKILL) and another begun. After
each round: no cell, memory, CPU, RAM or disk is sold twice (the tables are added up by plain SQL),
nobody has two places, everybody has a place or a reason, and one more pass finds nothing to do. A
race is a decision that a worker tried to commit while others were deciding on the same request.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from multiprocessing import get_context
from typing import Any, Final

from benchmarks._shared import print_json, print_table, setup_django
from benchmarks.placement_commit import (
    CARDS,
    Fleet,
    cheap,
    make_instances,
    make_requests,
    pass_once,
    seed_fleet,
)
from benchmarks.stage import own_database

GPUS: Final = 160
QUEUE: Final = 400  # requests of a round; about half of them fit
BATCH: Final = 50  # small, so that commits of several workers interleave
ROUND: Final = 30.0  # s, at most
TROUBLE: Final = (0.02, 0.15)  # s between two blows
PAUSE: Final = (0.05, 0.4)  # s that a worker stands still

CHECKS: Final = {
    "a cell sold twice": """
        SELECT count(*) FROM scheduler_slice a JOIN scheduler_slice b
        ON a.gpu_id = b.gpu_id AND a.id < b.id AND a.cells && b.cells
        WHERE a.released_at IS NULL AND b.released_at IS NULL""",
    "card memory that does not add up": """
        SELECT count(*) FROM scheduler_gpu gpu WHERE vram_free_mib <> memory_mib - coalesce(
            (SELECT sum(vram_mib) FROM scheduler_slice WHERE gpu_id = gpu.id
             AND released_at IS NULL), 0)""",
    "CPU or RAM that does not add up": """
        SELECT count(*) FROM scheduler_node node LEFT JOIN (
            SELECT node_id, sum(cpu_milli) AS cpu, sum(ram_mib) AS ram FROM scheduler_allocation
            WHERE released_at IS NULL GROUP BY node_id) held ON held.node_id = node.id
        WHERE cpu_milli_free <> cpu_milli_total - coalesce(held.cpu, 0)
           OR ram_mib_free <> ram_mib_total - coalesce(held.ram, 0)""",
    "disk that does not add up": """
        SELECT count(*) FROM scheduler_node node WHERE disk_mib_free <> disk_mib_total - coalesce(
            (SELECT sum(disk_mib) FROM scheduler_residence WHERE node_id = node.id
             AND wiped_at IS NULL), 0)""",
    "a request with two places": """
        SELECT count(*) FROM (SELECT request_id FROM scheduler_allocation
        GROUP BY request_id HAVING count(*) > 1) twice""",
    "placed without a place, or waiting with one": """
        SELECT count(*) FROM scheduler_request request WHERE (state = 'placed') <> EXISTS (
            SELECT 1 FROM scheduler_allocation WHERE request_id = request.id)""",
    "an allocation without its slices": """
        SELECT count(*) FROM scheduler_allocation held JOIN scheduler_request request
        ON request.id = held.request_id WHERE request.count <> (
            SELECT count(*) FROM scheduler_slice WHERE allocation_id = held.id)""",
    "waiting without a reason": """
        SELECT count(*) FROM scheduler_request WHERE state = 'waiting' AND reasons = '{}'""",
}


def work(counts: Any, stop: Any) -> None:
    """Run passes until told to stop; add up what was tried."""
    from django.db import connection

    from rental.records.clock import database_now
    from scheduler.services.place import run_pass

    connection.ensure_connection()
    while not stop.is_set():
        result = run_pass(now=database_now(), on_placed=cheap)
        with counts.get_lock():
            counts[0] += len(result.placed) + result.stale + result.refused
            counts[1] += result.stale
            counts[2] += result.refused
            counts[3] += 1
        if not result.placed and not result.stale:
            time.sleep(0.005)  # the queue is done, or another has it


class Workers:
    """Processes made by fork: another is there in milliseconds."""

    def __init__(self, number: int) -> None:
        self._context = get_context("fork")
        self.counts = self._context.Array("q", 4)
        self._number = number

    def begin(self) -> None:
        self._stop = self._context.Event()
        self._all = [self._new() for _ in range(self._number)]

    def _new(self) -> Any:
        process = self._context.Process(target=work, args=(self.counts, self._stop), daemon=True)
        process.start()
        return process

    def trouble(self, dice: random.Random, seen: Counter[str]) -> None:
        """Stop one for a moment, or kill one and begin another."""
        at = dice.randrange(len(self._all))
        pid = self._all[at].pid
        if dice.random() < 0.6:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(dice.uniform(*PAUSE))
            os.kill(pid, signal.SIGCONT)
            seen["stopped and woken"] += 1
            return
        if not self.counts.get_lock().acquire(timeout=5):  # nobody dies with the lock in hand
            raise SystemExit("a worker keeps the lock of the counts")
        try:
            self._all[at].kill()
        finally:
            self.counts.get_lock().release()
        self._all[at].join()
        self._all[at] = self._new()
        seen["killed"] += 1

    def end(self) -> None:
        self._stop.set()
        for process in self._all:
            process.join(30)


def waiting() -> int:
    from scheduler.models import Request

    return Request.objects.waiting().filter(reasons={}).count()


def check() -> Counter[str]:
    from django.db import connection

    wrong: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for text, statement in CHECKS.items():
            cursor.execute(statement)
            wrong[text] += cursor.fetchone()[0]
    result, _ = pass_once(cheap)
    wrong["left for one more pass"] += len(result.placed)
    return +wrong


def round_once(workers: Workers, dice: random.Random, seen: Counter[str]) -> None:
    from django.db import connection

    connection.close()  # no child may inherit it
    workers.begin()
    began = time.monotonic()
    while waiting() and time.monotonic() - began < ROUND:
        connection.close()
        time.sleep(dice.uniform(*TROUBLE))
        workers.trouble(dice, seen)
    workers.end()
    seen["rounds"] += 1
    seen["rounds that were stuck"] += time.monotonic() - began >= ROUND


def measure(races: int, workers_number: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    from django.conf import settings

    settings.SCHEDULER_BATCH = BATCH
    owners = make_instances(QUEUE + GPUS, of=20)
    seed_fleet(GPUS)
    make_requests(owners[QUEUE : QUEUE + GPUS * 2 // 5])
    while pass_once(cheap)[0].placed:
        pass
    fleet = Fleet()
    workers, dice = Workers(workers_number), random.Random(seed)
    seen: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    while workers.counts[0] < races:
        fleet.restore()
        make_requests(owners[:QUEUE])
        round_once(workers, dice, seen)
        wrong += check()
        if seen["rounds"] % 10 == 0:
            print(f"{workers.counts[0]:,} races, {sum(wrong.values())} violations", file=sys.stderr)
    for name, count in zip(("races", "stale", "refused", "passes"), workers.counts, strict=True):
        seen[name] = count
    return seen, wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.races", description=__doc__)
    parser.add_argument("--races", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    began = time.perf_counter()
    with own_database("races") as url:
        setup_django(url)
        seen, wrong = measure(chosen.races, chosen.workers, chosen.seed)
    rows: list[tuple[str, object]] = [(name, f"{count:,}") for name, count in seen.items()]
    rows += [("seconds", round(time.perf_counter() - began))]
    rows += [("violations", sum(wrong.values())), *((f"  {k}", n) for k, n in wrong.items())]
    print_table(f"{chosen.workers} passes at once over {GPUS // CARDS} nodes", rows)
    print_json({"benchmark": "races", **seen, "violations": sum(wrong.values())})


if __name__ == "__main__":
    main()
