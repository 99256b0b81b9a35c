"""
``python -m benchmarks.ingest --slices N``: usage frames, decoded, to committed stretches.

Two gateways at once, each with the frames of half of the nodes, through ``billing.metering.record``
as it is: values checked, ownership joined, clamped, maximum kept, one durable commit a flush.
"""

import argparse
import time
import uuid
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier

from benchmarks._shared import (
    cpu_seconds,
    in_processes,
    print_json,
    print_table,
    scratch_database,
    server_facts,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
RUNS_PER_NODE = 8
TICKS_PER_REPORT = 5  # 30 s


def _seed(slices: int) -> None:
    from django.db import connection

    from rental.tenants.models import Project, Tenant

    tenant = Tenant.objects.create(name="bench", slug="bench")
    project = Project.objects.create(tenant=tenant, name="bench", slug="bench", is_default=True)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO billing_run
                (id, tenant_id, project_id, instance_id, allocation_id, reporter, session,
                 opened_at, started_at, close_reason, suspect, settled, reckoned)
            SELECT billing_new_id(), %s, %s, gen_random_uuid(), gen_random_uuid(),
                   lpad(to_hex((n - 1) / %s), 32, '0')::uuid, 1, %s, %s, '', false, false, true
            FROM generate_series(1, %s) AS n
            """,
            [tenant.id, project.id, RUNS_PER_NODE, START, START, slices],
        )
        cursor.execute("VACUUM ANALYZE billing_run")


def _gateway(
    *, index: int, count: int, barrier: Barrier, slices: int, rounds: int, flush: int
) -> tuple[int, list[float], tuple[float, float]]:
    """One gateway's flusher: ``rounds`` reports of all its runs, ``flush`` rows a commit."""
    from agents.protocol import RunReport, Stretch
    from billing.metering import UsageReport, record
    from billing.models import Run

    of_node: dict[uuid.UUID, list[str]] = {}
    for run_id, node in Run.objects.order_by("reporter").values_list("id", "reporter"):
        if node.int % count == index:
            of_node.setdefault(node, []).append(str(run_id))
    batches = []
    frames: list[UsageReport] = []
    for number in range(1, rounds + 1):
        until = number * TICKS_PER_REPORT
        received_at = START + timedelta(seconds=6 * until)
        for node, runs in of_node.items():
            reports = [
                RunReport(
                    run=run,
                    ready_age_ms=until * 6000,
                    stretches=[Stretch(from_tick=0, until_tick=until, net_out=until, net_in=until)],
                )
                for run in runs
            ]
            frames.append(UsageReport(node, received_at, reports))
            if len(frames) * RUNS_PER_NODE >= flush:
                batches.append(frames)
                frames = []
    if frames:
        batches.append(frames)

    before = cpu_seconds()
    barrier.wait()
    written, times = 0, []
    for batch in batches:
        begin = time.perf_counter()
        refused = record(reports=batch)
        times.append(time.perf_counter() - begin)
        if refused:
            raise SystemExit(f"refused: {refused[0]}")
        written += sum(len(frame.runs) for frame in batch)
    barrier.wait()
    after = cpu_seconds()
    return written, times, (after[0] - before[0], after[1] - before[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=10, help="reports of every slice")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--flush", type=int, default=4_000, help="stretches a commit")
    options = parser.parse_args()
    with scratch_database("ingest") as url:
        from django.db import connection

        _seed(options.slices)
        facts = server_facts()
        connection.close()
        answers, seconds = in_processes(
            url,
            _gateway,
            count=options.processes,
            slices=options.slices,
            rounds=options.rounds,
            flush=options.flush,
        )
        written = sum(n for n, _, _ in answers)
        times = sorted(t for _, ts, _ in answers for t in ts)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*), min(until_tick) FROM billing_stretch")
            rows, least = cursor.fetchone()
            cursor.execute(
                "SELECT n_tup_upd, n_tup_hot_upd, pg_table_size(relid)"
                " FROM pg_stat_user_tables WHERE relname = 'billing_stretch'"
            )
            updated, hot, size = cursor.fetchone()
    assert (rows, least) == (options.slices, options.rounds * TICKS_PER_REPORT), "rows were lost"
    figures = {
        "benchmark": "ingest",
        "slices": options.slices,
        "processes": options.processes,
        "stretches": written,
        "seconds": round(seconds, 3),
        "stretches_per_s": round(written / seconds),
        "python_us_each": round(1e6 * sum(cpu[0] for _, _, cpu in answers) / written, 1),
        "database_us_each": round(1e6 * sum(cpu[1] for _, _, cpu in answers) / written, 1),
        "flush_p50_ms": round(times[len(times) // 2] * 1000, 1),
        "flush_max_ms": round(times[-1] * 1000, 1),
        "hot_updates_percent": round(100 * hot / updated) if updated else None,
        "table_mib": round(size / 2**20, 1),
        **facts,
    }
    print_table("Ingest: decoded frames to committed stretches", list(figures.items()))
    print_json(figures)


if __name__ == "__main__":
    main()
