"""
``python -m benchmarks.placement_commit --gpus 10000 [--requests 5000] [--batch 200]``: requests in
the table to committed allocations and slices, over a fleet of nodes with 8 cards, half of it sold.

``scheduler.services.place.run_pass`` as it is, with durable commits: passes with nothing to place,
all requests at once, the same with the runs that ``rental.instances`` opens, one batch size after
another, and a stream of requests from a second process while passes follow each other.
"""

import argparse
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any

from benchmarks._shared import (
    cpu_seconds,
    print_json,
    print_table,
    server_facts,
    setup_django,
    spin_ms,
)
from benchmarks.stage import own_database

CARDS = 8  # a node
GIB = 1024
NAME, MEMORY_MIB = "A100", 81_920
REGION, ZONES = "bench", ("bench-a", "bench-b")
TENANTS = 100
SOLD = 0.5  # of the fleet, before anything is measured
BATCHES = (1, 10, 100, 200, 500)
FEWER = {1: 0.1, 10: 0.4}  # part of the requests: small batches would take minutes
TICK = 0.02  # s between two inserts of the stream
HOLDS = ("request", "allocation", "slice", "residence", "allocationdirty")
# How often each shape is asked for, of 100: (mode, cards, tenths).
MIX = (
    [("share_tenant", 1, 1)] * 30
    + [("share_tenant", 1, 2)] * 20
    + [("share_shared", 1, 2)] * 20
    + [("share_shared", 1, 5)] * 10
    + [("whole", 1, 10)] * 15
    + [("whole", 2, 10)] * 4
    + [("whole", 8, 10)] * 1
)
# What a request of the mix takes on average.
CARDS_OF_ONE = sum(count * tenths for _, count, tenths in MIX) / 10 / len(MIX)

Timed = dict[str, float]


def seed_fleet(gpus: int) -> None:
    """Make the nodes, their cards, who has been heard, and the tenants."""
    from scheduler.models import Agent, Gpu, GpuModel, Node, NodeLiveness, Region, Zone

    now = datetime.now(UTC)
    region = Region.objects.create(code=REGION)
    zones = [Zone.objects.create(code=code, region=region) for code in ZONES]
    model, _ = GpuModel.objects.get_or_create(name=NAME, memory_mib=MEMORY_MIB)
    agent = Agent.objects.create(name="bench", digest=bytes(32), enrolled_at=now)
    size = {"cpu_milli": 192_000, "ram_mib": 2_048 * GIB, "disk_mib": 30_000 * GIB}
    nodes = [
        Node(
            name=f"bench-{number:05}",
            zone=zones[number % len(zones)],
            agent=agent,
            shared_allowed=True,
            created_at=now,
            facts={"kernel": "6.8.0", "driver": "570.86", "boot": str(uuid.uuid4())},
            **{f"{name}_total": value for name, value in size.items()},
            **{f"{name}_free": value for name, value in size.items()},
        )
        for number in range(gpus // CARDS)
    ]
    Node.objects.bulk_create(nodes, batch_size=2_000)
    NodeLiveness.objects.bulk_create(
        [NodeLiveness(node=node, received_at=now, status_at=now) for node in nodes]
    )
    Gpu.objects.bulk_create(
        [
            Gpu(
                node=node,
                uuid=f"GPU-{node.name}-{index}",
                model=model,
                index=index,
                memory_mib=MEMORY_MIB,
                vram_free_mib=MEMORY_MIB,
                nvlink_group=index // 4,
            )
            for node in nodes
            for index in range(CARDS)
        ],
        batch_size=2_000,
    )


def make_instances(count: int, *, of: int) -> list[tuple[uuid.UUID, uuid.UUID]]:
    """Make rows of ``rental.instances`` for requests to be about; return (id, tenant id)."""
    from django.core.management import call_command

    from rental.catalog.models import Image, Offer
    from rental.instances.models import Instance
    from rental.tenants.models import Project, Tenant

    call_command("seed_catalog", verbosity=0)
    now = datetime.now(UTC)
    tenants = [Tenant(name=f"bench {n}", slug=f"bench-{n}") for n in range(of)]
    Tenant.objects.bulk_create(tenants)
    projects = [Project(tenant=t, name="bench", slug="bench", is_default=True) for t in tenants]
    Project.objects.bulk_create(projects)
    offer, image = Offer.objects.earliest("code"), Image.objects.earliest("code")
    made = [
        Instance(
            tenant=tenants[number % of],
            project=projects[number % of],
            name=f"bench-{number}",
            slug=f"bench-{number}",
            state_at=now,
            deadline_at=now + timedelta(days=1),
            offer=offer,
            image=image,
            price_key=f"compute/{REGION}/{offer.code}/on_demand",
            region=REGION,
            disk_mib=10 * GIB,
            created_at=now,
        )
        for number in range(count)
    ]
    Instance.objects.bulk_create(made, batch_size=1_000)
    return [(one.id, one.tenant_id) for one in made]


def make_requests(
    owners: Sequence[tuple[uuid.UUID, uuid.UUID]], *, first: int = 0, fits: bool = True
) -> None:
    """Let these instances wait, in the mix; where not ``fits``, for more CPU than a node has."""
    from scheduler.models import Request

    now = datetime.now(UTC)
    rows = []
    for number, (instance_id, tenant_id) in enumerate(owners, first):
        mode, count, tenths = MIX[number * 37 % len(MIX)]
        share = tenths if mode != "whole" else 10 * count
        rows.append(
            Request(
                id=uuid.uuid4(),
                tenant_id=tenant_id,
                instance_id=instance_id,
                group_id=instance_id,
                market="on_demand",
                mode=mode,
                gpu_models=[f"{NAME}|{MEMORY_MIB}"],
                count=count,
                tenths=tenths,
                vram_mib=MEMORY_MIB * tenths // 10,
                cpu_milli=share * 2_000 if fits else 200_000,
                ram_mib=share * 20 * GIB,
                disk_mib=share * 20 * GIB,
                region_id=REGION,
                spec=spec_of(instance_id),
                requested_at=now,
                expires_at=now + timedelta(days=1),
            )
        )
    Request.objects.bulk_create(rows, batch_size=1_000)


def spec_of(instance_id: uuid.UUID) -> dict[str, Any]:
    import msgspec

    from agents.protocol import AllocationSpec

    name = instance_id.hex[:12]
    return msgspec.to_builtins(
        AllocationSpec(
            instance=str(instance_id),
            name=name,
            slug=name,
            image="registry.test/pytorch:2.6-cuda12.8",
            env={"HF_HOME": "/workspace/hf", "PORT": "8888"},
            ssh_keys=["ssh-ed25519 " + "A" * 68],
            cpu_milli=16_000,
            ram_mib=160 * GIB,
            disk_mib=100 * GIB,
        )
    )


class Fleet:
    """Brings the fleet back to how it was sold before the measuring began."""

    def __init__(self) -> None:
        self._run(*(f"CREATE TABLE kept_{it} AS TABLE scheduler_{it}" for it in (*HOLDS, "gpu")))
        self._run("CREATE TABLE kept_node AS TABLE scheduler_node")
        self.restore()

    def restore(self) -> None:
        tables = ", ".join(f"scheduler_{it}" for it in HOLDS)
        self._run(
            f"TRUNCATE {tables}, scheduler_reclaim",
            "TRUNCATE billing_run CASCADE",
            *(f"INSERT INTO scheduler_{it} TABLE kept_{it}" for it in HOLDS),
            "UPDATE scheduler_gpu AS gpu SET vram_free_mib = kept.vram_free_mib"
            " FROM kept_gpu AS kept WHERE kept.id = gpu.id",
            "UPDATE scheduler_node AS node SET version = node.version + 1,"
            " cpu_milli_free = kept.cpu_milli_free, ram_mib_free = kept.ram_mib_free,"
            " disk_mib_free = kept.disk_mib_free FROM kept_node AS kept WHERE kept.id = node.id",
            "VACUUM ANALYZE",
        )

    def _run(self, *statements: str) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@contextmanager
def watching(on_commit: Callable[[Sequence[Any]], None] | None = None) -> Iterator[Timed]:
    """
    Yield seconds by part of a pass. ``on_commit`` is told the placed of each committed batch,
    after its commit.
    """
    from scheduler.services import place

    spent: Timed = defaultdict(float)
    depth = 0
    names = {
        "load_waiting": "read_requests",
        "load_inventory": "load",
        "plan": "decide",
        "store_reasons": "reasons",
    }
    before = {name: getattr(place, name) for name in names}
    halving = place._Commit.halving

    def timed(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return before[name](*args, **options)
            finally:
                spent[names[name]] += time.perf_counter() - began

        return call

    def timed_halving(self: Any, places: Any) -> None:
        nonlocal depth
        began, known = time.perf_counter(), len(self.placed)
        depth += 1
        try:
            halving(self, places)
        finally:
            depth -= 1
        if not depth:
            spent["commit"] += time.perf_counter() - began
            if on_commit:
                on_commit(self.placed[known:])

    for name in names:
        setattr(place, name, timed(name))
    place._Commit.halving = timed_halving  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        for name, function in before.items():
            setattr(place, name, function)
        place._Commit.halving = halving  # type: ignore[method-assign]


def pass_once(on_placed: Callable[..., None]) -> tuple[Any, Timed]:
    from rental.records.clock import database_now
    from scheduler.services.place import run_pass

    waits: list[float] = []
    began = time.perf_counter()

    def committed(placed: Sequence[Any]) -> None:
        waits.extend([time.perf_counter() - began] * len(placed))

    with watching(committed) as spent:
        result = run_pass(now=database_now(), on_placed=on_placed)
    spent["pass"] = time.perf_counter() - began
    if waits:
        waits.sort()
        spent["p50"], spent["p99"] = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    return result, spent


def cheap(placed: Sequence[Any]) -> None:
    """Open no runs."""


def real(placed: Sequence[Any]) -> None:
    """Open the runs of rental.instances, as its pass does."""
    from rental.instances import money

    money.open_placed(placed, now=datetime.now(UTC))


def burst(
    owners: Sequence[tuple[uuid.UUID, uuid.UUID]],
    *,
    batch: int,
    on_placed: Callable[..., None] = cheap,
) -> dict[str, float]:
    """Place all at once in one pass; return the figures."""
    from django.conf import settings

    settings.SCHEDULER_BATCH = batch
    make_requests(owners)
    before = cpu_seconds()
    result, spent = pass_once(on_placed)
    python, database = (b - a for a, b in zip(before, cpu_seconds(), strict=True))
    assert len(result.placed) == len(owners), (len(result.placed), len(owners))
    assert (result.stale, result.refused) == (0, 0), "nobody else writes here"
    return {
        "requests": len(owners),
        "placements_per_s": round(len(owners) / spent["pass"]),
        "commits_per_s": round(len(owners) / spent["commit"]),
        "python_us_each": round(1e6 * python / len(owners)),
        "database_us_each": round(1e6 * database / len(owners)),
        **{f"{name}_ms": round(1_000 * seconds, 1) for name, seconds in sorted(spent.items())},
    }


def feed(url: str, owners: Sequence[Any], *, rate: int, ready: Event, done: Event) -> None:
    """Insert requests at a steady rate; each is asked for when its row is committed."""
    setup_django(url)
    from django.db import connection

    connection.ensure_connection()
    ready.set()
    began, sent = time.monotonic(), 0
    while sent < len(owners):
        due = min(len(owners), int((time.monotonic() - began) * rate))
        if due > sent:
            make_requests(owners[sent:due], first=sent)
            sent = due
        time.sleep(TICK)
    done.set()


def stream(url: str, owners: Sequence[Any], *, rate: int, batch: int) -> dict[str, float]:
    """Let passes follow each other while requests come in; return the figures."""
    from django.conf import settings
    from django.db import connection

    from rental.records.clock import database_now
    from scheduler.models import Request
    from scheduler.services.place import run_pass

    settings.SCHEDULER_BATCH = batch
    context = get_context("spawn")
    ready, done = context.Event(), context.Event()
    connection.close()
    feeder = context.Process(
        target=feed, args=(url, owners), kwargs={"rate": rate, "ready": ready, "done": done}
    )
    feeder.start()
    ready.wait(60)
    placed_at: dict[uuid.UUID, float] = {}
    passes = []

    def committed(placed: Sequence[Any]) -> None:
        placed_at.update(dict.fromkeys([one.request_id for one in placed], time.time()))

    began = time.monotonic()
    with watching(committed):
        while not done.is_set() or len(placed_at) < len(owners):
            start = time.perf_counter()
            run_pass(now=database_now(), on_placed=cheap)
            passes.append(time.perf_counter() - start)
            assert time.monotonic() - began < 20 * len(owners) / rate + 60, "the queue only grows"
    seconds = time.monotonic() - began
    feeder.join(60)
    asked_at = dict(Request.objects.filter(id__in=placed_at).values_list("id", "requested_at"))
    waits = sorted(at - asked_at[one].timestamp() for one, at in placed_at.items())
    return {
        "requests": len(owners),
        "asked_per_s": rate,
        "placements_per_s": round(len(owners) / seconds),
        "p50_ms": round(1_000 * waits[len(waits) // 2]),
        "p99_ms": round(1_000 * waits[len(waits) * 99 // 100]),
        "max_ms": round(1_000 * waits[-1]),
        "passes": len(passes),
        "longest_pass_ms": round(1_000 * max(passes)),
    }


def idle(owners: Sequence[Any]) -> dict[str, float]:
    """What passes cost that place nothing: nobody waits; nobody fits, for the first time; again."""
    _, nothing = pass_once(cheap)
    make_requests(owners, fits=False)
    first_result, first = pass_once(cheap)
    assert first_result.waiting == len(owners)
    _, again = pass_once(cheap)
    return {
        "nothing_waits_ms": round(1_000 * nothing["pass"], 1),
        "none_fits_first_ms": round(1_000 * first["pass"]),
        **{f"none_fits_first_{n}_ms": round(1_000 * s, 1) for n, s in sorted(first.items())},
        "none_fits_again_ms": round(1_000 * again["pass"]),
        **{f"none_fits_again_{n}_ms": round(1_000 * s, 1) for n, s in sorted(again.items())},
    }


def loading() -> dict[str, float]:
    from scheduler.services.inventory import load_capacity, load_inventory

    figures = {}
    for name, load in (("load_inventory", load_inventory), ("load_capacity", load_capacity)):
        times = []
        for _ in range(5):
            began = time.perf_counter()
            load()
            times.append(time.perf_counter() - began)
        figures[f"{name}_ms"] = round(1_000 * sorted(times)[2], 1)
    return figures


def measure(url: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Measure what is wanted, one thing after another, and print each when it is done."""
    streamed = max(options.rates) * options.seconds
    owners = make_instances(max(options.requests, streamed) + options.gpus, of=TENANTS)
    seed_fleet(options.gpus)
    sold, owners = owners[: options.gpus], owners[options.gpus :]
    make_requests(sold[: int(options.gpus * SOLD / CARDS_OF_ONE)])
    while pass_once(cheap)[0].placed:
        pass  # one looks at some thousand requests
    fleet = Fleet()
    figures: dict[str, dict[str, Any]] = {}
    requests = owners[: options.requests]
    wanted: dict[str, Callable[[], dict[str, float]]] = {
        "loading": loading,
        "idle": lambda: idle(owners[:5_000]),
        "burst": lambda: burst(requests, batch=options.batch),
        "burst_with_runs": lambda: burst(requests, batch=options.batch, on_placed=real),
        **{
            f"batch_{size}": lambda size=size: burst(
                requests[: int(len(requests) * FEWER.get(size, 1))], batch=size
            )
            for size in BATCHES
        },
        **{
            f"stream_{rate}": lambda rate=rate: stream(
                url, owners[: rate * options.seconds], rate=rate, batch=options.batch
            )
            for rate in options.rates
        },
    }
    for name, work in wanted.items():
        if options.only and name not in options.only:
            continue
        fleet.restore()
        figures[name] = {**work(), "spin_ms": round(spin_ms())}
        print_table(name, list(figures[name].items()))
        sys.stdout.flush()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument(
        "--rates", type=int, nargs="*", default=[250, 500, 1_000], help="requests a second"
    )
    parser.add_argument("--seconds", type=int, default=8, help="how long a stream flows")
    parser.add_argument(
        "--only", nargs="*", help="loading, idle, burst, burst_with_runs, batch_N, stream_N"
    )
    options = parser.parse_args()
    with own_database("placement_commit") as url:
        setup_django(url)
        facts = {**server_facts(), "spin_ms": round(spin_ms(), 1)}
        figures = measure(url, options)
        facts |= {"load": server_facts()["load"], "spin_ms_after": round(spin_ms(), 1)}
    print_table("machine", list(facts.items()))
    print_json({"benchmark": "placement_commit", "gpus": options.gpus, **figures, **facts})


if __name__ == "__main__":
    main()
