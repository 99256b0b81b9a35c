"""
A working day in one room: ``python -m benchmarks.console [--users 200] [--agents 40]``.

The room of benchmarks.room (real gateway, an agent process a node with the ``null`` runtime, the
passes), real web processes as the supervisor starts them, and people of 20 tenants who look at
their running instances (benchmarks.users, in a process of their own). Aim: p95 < 300 ms.
Shorter ``--thinks`` find out how many pages a second are too many. Says also what a page costs by
itself: its queries with few and with many instances, and its CPU.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks._shared import print_json, print_table, server_facts, spin_ms
from benchmarks.room import CARDS, CREDIT, OFFER, Meters, driving, make_agents, wait_for
from benchmarks.sockets import Web, percentile, sign_in
from benchmarks.stage import (
    cpu_seconds_of,
    end,
    memory_mib,
    own_database,
    serving,
    start_python,
)
from benchmarks.users import KINDS, THINKS, Person, Sample, Work, address_of, use_console

TENANTS = 20
EACH = 15  # instances of a tenant, at most; fewer in a small room
FEW = 3  # instances in the fleet when queries are counted first
IMAGE = "ubuntu-22.04"
AIM = 300.0  # ms, of the 95th of a hundred page loads
WARM_UP = 20.0  # s; until everybody has begun, and what the web process keeps is filled
LANGUAGES = ("zh-hans", "en")


def make_tenants(users: int) -> tuple[list[Any], list[list[str]]]:
    """Return tenants with money and keys, and for each the sessions of its members."""
    from rental.records.clock import database_now
    from rental.tenants.models import Role
    from tests.factories.rental import make_rich_tenant
    from tests.factories.tenants import (
        make_api_key,
        make_member,
        make_ssh_key,
        make_user,
        owner_of,
    )

    tenants, sessions = [], []
    for number in range(min(TENANTS, users)):
        tenant = make_rich_tenant(money=CREDIT, now=database_now())
        make_ssh_key(tenant)
        make_api_key(tenant)
        people = [owner_of(tenant)]
        for member in range(number + TENANTS, users, TENANTS):
            somebody = make_user(language=LANGUAGES[member // TENANTS % len(LANGUAGES)])
            people.append(make_member(tenant, Role.ADMIN, user=somebody))
        tenants.append(tenant)
        sessions.append([sign_in(one) for one in people])
    return tenants, sessions


def order(tenant: Any, count: int) -> None:
    from rental.instances.services import create_instances
    from rental.records.audit import Actor
    from rental.records.clock import database_now

    create_instances(
        tenant_id=tenant.id,
        offer_code=OFFER,
        image_code=IMAGE,
        count=count,
        actor=Actor(kind="system", id="benchmarks"),
        now=database_now(),
    )


def ids_of(tenant: Any) -> tuple[str, ...]:
    from rental.instances.models import Instance
    from rental.records.ids import to_text

    found = Instance.objects.of(tenant.id).values_list("pk", flat=True)
    return tuple(to_text("ins", pk) for pk in found)


def look_alone(person: Person, *, times: int = 4) -> dict[str, tuple[int, float]]:
    """
    Return for each kind of page its queries (nothing of the stock kept) and the milliseconds of
    CPU that one load takes in this process, nobody else asking.
    """
    from django.db import connection
    from django.test import Client, override_settings
    from django.test.utils import CaptureQueriesContext

    client = Client(headers={"host": "127.0.0.1"})
    client.cookies["sessionid"] = person.session
    found = {}
    for kind in KINDS:
        address = address_of(kind, person, person.ids[0])
        if client.get(address).status_code != 200:
            raise SystemExit(f"{address}: not 200")
        with (
            override_settings(SCHEDULER_STOCK_KEPT=timedelta(0)),
            CaptureQueriesContext(connection) as seen,
        ):
            client.get(address)
            queries = len(seen)  # the next request forgets them
        began = time.thread_time()
        for _ in range(times):
            client.get(address)
        found[kind] = queries, 1000 * (time.thread_time() - began) / times
    return found


def postgres_cpu() -> dict[int, float]:
    """Return the CPU seconds of the database's sessions that are not the gateway's."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name NOT LIKE 'gateway-%'"
        )
        return {pid: cpu_seconds_of(pid) for (pid,) in cursor.fetchall()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--agents", type=int, default=40)
    parser.add_argument("--processes", type=int, default=3, help="of the web server")
    parser.add_argument("--thinks", type=float, default=THINKS, help="s between a user's pages")
    parser.add_argument("--seconds", type=float, default=60.0, help="that are measured")
    chosen = parser.parse_args()
    os.environ.setdefault("SECRETS_KEY", "A" * 43 + "=")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # as under the supervisor
    with own_database("console"), tempfile.TemporaryDirectory() as folder:
        run(
            Path(folder),
            users=chosen.users,
            count=chosen.agents,
            processes=chosen.processes,
            thinks=chosen.thinks,
            seconds=chosen.seconds,
        )


def run(
    folder: Path, *, users: int, count: int, processes: int, thinks: float, seconds: float
) -> None:
    from django.core.management import call_command

    from billing.services.settle import settle
    from rental.records.clock import database_now

    call_command("seed_catalog")
    tenants, sessions = make_tenants(users)
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(
            serving("gateway", path="/healthz", log=folder / "gateway.log")
        )
        commands = make_agents(folder, count=count, gateway=gateway)
        agents = [start_python(*command, log=folder / "agents.log") for command in commands]
        stack.callback(end, *agents)
        stack.enter_context(driving())

        each = min(EACH, count * CARDS // len(tenants))
        many = each * len(tenants)
        order(tenants[0], FEW)
        wait_for("running", FEW)
        alone = Person(tenants[0].slug, sessions[0][0], ids_of(tenants[0]), OFFER, IMAGE)
        few = look_alone(alone)
        order(tenants[0], each - FEW)
        for tenant in tenants[1:]:
            order(tenant, each)
        wait_for("running", many)
        settle(now=database_now())
        cost, spin = look_alone(alone), spin_ms()

        people = [
            Person(tenant.slug, session, ids_of(tenant), OFFER, IMAGE)
            for tenant, several in zip(tenants, sessions, strict=True)
            for session in several
        ]
        web = Web(folder / "web.log", processes)
        stack.callback(lambda: asyncio.run(web.end(signal.SIGTERM)))
        asyncio.run(web.start())
        process = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=process) as pool:
            begin = time.monotonic() + WARM_UP
            asked = pool.submit(use_console, people, web.address, begin, begin + seconds, thinks)
            time.sleep(begin - time.monotonic())
            before, web_before = (
                Meters(gateway=gateway, agents=agents),
                sum(map(cpu_seconds_of, web.pids)),
            )
            postgres = postgres_cpu()
            time.sleep(begin + seconds - time.monotonic())  # the measurement itself
            after, web_after = (
                Meters(gateway=gateway, agents=agents),
                sum(map(cpu_seconds_of, web.pids)),
            )
            sessions_cpu = sum(s - postgres.get(pid, 0.0) for pid, s in postgres_cpu().items())
            facts = server_facts()
            work = asked.result()
        span = after.at - before.at
        cores = {
            "web": (web_after - web_before) / span,
            "gateway": (after.gateway - before.gateway) / span,
            "postgres_for_gateway": (after.postgres - before.postgres) / span,
            "postgres_for_web_and_passes": sessions_cpu / span,
            "agents": (after.agents - before.agents) / span,
            "users": work.cpu,
        }
        memory = {
            "web": max(memory_mib(pid)["rss"] for pid in web.pids),
            "gateway": memory_mib(gateway.process.pid)["rss"],
        }
        log = (folder / "web.log").read_text()
    facts |= {"web_processes": processes, "thinks_s": thinks}
    facts["spin_ms"] = [round(one) for one in (spin, spin_ms())]
    report(work, few, cost, cores, memory, facts, users, count, many, span, log)


def report(
    work: Work,
    few: dict[str, tuple[int, float]],
    cost: dict[str, tuple[int, float]],
    cores: dict[str, float],
    memory: dict[str, float],
    facts: dict[str, Any],
    users: int,
    agents: int,
    many: int,
    span: float,
    log: str,
) -> None:
    loads = [one for one in work.samples if one.is_page]
    wrong = [one for one in work.samples if one.status != 200]
    all_ms = sorted(one.ms for one in loads)
    p95 = percentile(all_ms, 0.95)
    head = f"{'loads':>6}{'p50 ms':>8}{'p95 ms':>8}{'KiB':>6}{'CPU ms':>8}{'queries':>14}"
    rows: list[tuple[str, object]] = [(f"({FEW} and {many} instances)", head)]
    by_kind: dict[str, list[Sample]] = {kind: [] for kind in KINDS}
    for one in work.samples:
        by_kind.setdefault(one.kind, []).append(one)
    figures: dict[str, Any] = {}
    for kind, several in by_kind.items():
        if not several:
            continue
        ms = [one.ms for one in several]
        figure = {
            "loads": len(ms),
            "p50_ms": round(percentile(ms, 0.5), 1),
            "p95_ms": round(percentile(ms, 0.95), 1),
            "kib": round(sum(one.size for one in several) / len(several) / 1024, 1),
        }
        text = "{loads:>6}{p50_ms:>8}{p95_ms:>8}{kib:>6}".format(**figure)
        if kind in KINDS:
            figure |= {"cpu_ms": round(cost[kind][1], 1), "queries": [few[kind][0], cost[kind][0]]}
            text += f"{figure['cpu_ms']:>8}{f'{few[kind][0]} and {cost[kind][0]}':>14}"
        figures[kind] = figure
        rows.append((kind, text))
    print_table(f"{users} users, {agents} agents, {many} instances, watched for {span:.0f} s", rows)
    print_table(
        "All of them",
        [
            ("page loads a second", f"{len(loads) / span:.1f}"),
            ("p50, p95, longest", f"{percentile(all_ms, 0.5):.0f}, {p95:.0f}, {all_ms[-1]:.0f} ms"),
            ("not answered by 200", f"{len(wrong)} of {len(work.samples)}"),
            ("sockets dialled, open at the end", f"{work.dials}, {work.were_open}"),
            ("how sockets ended", work.close_codes),
            *((f"CPU, {name}", f"{100 * part:.0f} % of one core") for name, part in cores.items()),
            *((f"memory, {name}", f"{mib:.0f} MiB") for name, mib in memory.items()),
            ("load of the machine", f"{facts['load']} on {facts['cpus']} CPUs"),
            ("a fixed piece of Python", " and ".join(f"{ms} ms" for ms in facts["spin_ms"])),
            ("lines in web's log", log.count("\n")),
            ("aim", f"p95 < {AIM:.0f} ms: {'met' if p95 < AIM and not wrong else 'missed'}"),
        ],
    )
    if wrong:
        print_table(
            "Of what was wrong", [(w.kind, f"{w.status} after {w.ms:.0f} ms") for w in wrong[:10]]
        )
        print(log[-2000:])
    print_json(
        {
            "benchmark": "console",
            "users": users,
            "agents": agents,
            "instances": many,
            "seconds": round(span, 1),
            "loads_per_second": round(len(loads) / span, 1),
            "p50_ms": round(percentile(all_ms, 0.5), 1),
            "p95_ms": round(p95, 1),
            "errors": len(wrong) / max(len(work.samples), 1),
            "cores": {name: round(part, 3) for name, part in cores.items()},
            "rss_mib": {name: round(mib) for name, mib in memory.items()},
            "pages": figures,
            **facts,
        }
    )


if __name__ == "__main__":
    main()
