"""
``python -m benchmarks.rating --slices N``: one hour of N runs, from stretches to posted charges.

Every run has 600 ticks of which 10 % are missing in the middle, and a price that changes inside:
three charges a run, one posting and transfer a tenant, holds and ``exhausts_at`` anew, all of it
``billing.services.settle`` as it is, with durable commits. Then the audit looks at the money.
"""

import argparse
import time
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from typing import Any

from benchmarks._shared import (
    cpu_seconds,
    in_processes,
    print_json,
    print_table,
    scratch_database,
    server_facts,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
NOW = START + timedelta(hours=1)
KEY = "compute/bench/a100/on_demand"
RUNS_PER_TENANT = 20
GAP = (270, 330)  # 60 of 600 ticks
CHANGE = START + timedelta(minutes=10, seconds=3)  # tick 101
OLD_PRICE, NEW_PRICE = 4_900_000, 5_390_000
# F of 101 ticks at the old price, and of the other 439 at the new one.
EXPECTED = 824_833 + 3_943_683


def _seed(slices: int) -> None:
    from django.db import connection
    from psycopg.types.range import TimestamptzRange

    from billing.models import PriceVersion
    from billing.services.wallets import open_wallet
    from rental.tenants.models import Project, Tenant

    for price, since, until in ((OLD_PRICE, START, CHANGE), (NEW_PRICE, CHANGE, None)):
        PriceVersion.objects.create(
            price_key=KEY,
            currency="CNY",
            during=TimestamptzRange(since, until),
            price=price,
            unit="hour",
            created_at=START,
        )
    tenants = [
        Tenant(name=f"bench {n}", slug=f"bench-{n}") for n in range(-(-slices // RUNS_PER_TENANT))
    ]
    Tenant.objects.bulk_create(tenants)
    Project.objects.bulk_create(
        Project(tenant=tenant, name="bench", slug="bench", is_default=True) for tenant in tenants
    )
    for tenant in tenants:
        open_wallet(tenant_id=tenant.id, now=START)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE billing_wallet SET credit_limit = 1000000000000")
        cursor.execute(
            """
            INSERT INTO billing_run
                (id, tenant_id, project_id, instance_id, allocation_id, reporter, session,
                 opened_at, started_at, close_reason, suspect, settled, reckoned)
            SELECT billing_new_id(), p.tenant_id, p.id, gen_random_uuid(), gen_random_uuid(),
                   gen_random_uuid(), 1, %s, %s, '', false, false, true
            FROM tenants_project p, generate_series(1, %s) LIMIT %s
            """,
            [START, START, RUNS_PER_TENANT, slices],
        )
        cursor.execute(
            """
            INSERT INTO billing_segment (id, run_id, tenant_id, project_id, from_tick, price_key,
                                         market, share_numerator, share_denominator)
            SELECT billing_new_id(), id, tenant_id, project_id, 0, %s, 'on_demand', 1, 1
            FROM billing_run
            """,
            [KEY],
        )
        cursor.execute("INSERT INTO billing_tally SELECT id, '{}' FROM billing_run")
        cursor.execute(
            """
            INSERT INTO billing_stretch
            SELECT id, first, until, 0, 0, %s
            FROM billing_run, (VALUES (0, %s), (%s, 600)) AS s(first, until)
            """,
            [NOW, *GAP],
        )
        cursor.execute("VACUUM ANALYZE")


def _worker(*, index: int, count: int, barrier: Barrier) -> tuple[list[float], tuple[float, float]]:
    """Settle every ``count``-th shard, as so many Celery workers would."""
    from billing.services.settle import plan_shards, settle_shard

    shards = plan_shards()[index::count]
    before = cpu_seconds()
    barrier.wait()
    times = []
    for shard in shards:
        begin = time.perf_counter()
        settle_shard(shard, now=NOW)
        times.append(time.perf_counter() - begin)
    barrier.wait()
    after = cpu_seconds()
    return times, (after[0] - before[0], after[1] - before[1])


def _check(slices: int, audit_runs: int) -> dict[str, Any]:
    from django.db import connection

    from billing.services.audit import find_errors

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), sum(amount) FROM billing_charge")
        charges, total = cursor.fetchone()
        cursor.execute("SELECT -sum(posted) FROM billing_wallet")
        (taken,) = cursor.fetchone()
    assert total == taken == slices * EXPECTED, (total, taken, slices * EXPECTED)
    figures: dict[str, Any] = {"charges": charges, "total_micro": int(total)}
    if slices <= audit_runs:
        begin = time.perf_counter()
        assert find_errors(now=NOW) == []
        figures["audit_s"] = round(time.perf_counter() - begin, 1)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--audit-runs", type=int, default=20_000, help="audit up to so many runs")
    options = parser.parse_args()
    with scratch_database("rating") as url:
        from django.db import connection

        _seed(options.slices)
        facts = server_facts()
        connection.close()
        answers, seconds = in_processes(url, _worker, count=options.processes)
        checked = _check(options.slices, options.audit_runs)
    times = sorted(t for ts, _ in answers for t in ts)
    figures = {
        "benchmark": "rating",
        "slices": options.slices,
        "processes": options.processes,
        "seconds": round(seconds, 3),
        "runs_per_s": round(options.slices / seconds),
        **checked,
        "python_us_each": round(1e6 * sum(cpu[0] for _, cpu in answers) / options.slices, 1),
        "database_us_each": round(1e6 * sum(cpu[1] for _, cpu in answers) / options.slices, 1),
        "shards": len(times),
        "shard_max_s": round(times[-1], 3),
        **facts,
    }
    print_table("Rating: an hour of runs to posted charges", list(figures.items()))
    print_json(figures)


if __name__ == "__main__":
    main()
