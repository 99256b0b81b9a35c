"""
One small room on this machine: ``python -m benchmarks.room [--agents 40] [--seconds 60]``.

Real agents (one process each, simulated GPUs, the ``null`` runtime, which starts nothing), a real
gateway, and the passes that beat would start, run here. 8 cards a node; every card is rented,
watched for a while, stopped and billed. Says what the room costs and whether the bill is right.
"""

import argparse
import contextlib
import json
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from benchmarks._shared import print_json, print_table, server_facts
from benchmarks.stage import (
    Server,
    cpu_seconds_of,
    end,
    memory_mib,
    own_database,
    serving,
    start_python,
)

CARDS = 8  # a node
OFFER = "rtx4090-24g"
ORDER = 20  # instances in one order, the most that create takes
CREDIT = 1_000_000 * 1_000_000  # micro-units
PATIENCE = 300  # s


def make_agents(folder: Path, *, count: int, gateway: Server) -> list[list[str]]:
    """Enrol agents of one node each and write their files; return the command of each."""
    from rental.records.audit import Actor
    from rental.records.clock import database_now
    from scheduler.models import Zone
    from scheduler.services.enrolment import enrol, issue_token

    now = database_now()
    token = issue_token(
        zone=Zone.objects.earliest("code"),
        uses=count,
        expires_at=now + timedelta(hours=1),
        actor=Actor(kind="system", id="benchmarks"),
        now=now,
    )
    commands = []
    for number in range(count):
        name = f"node-{number}"
        enrolled = enrol(token=token, agent_name=f"agent-{number}", nodes=[name], now=now)
        home = folder / name
        home.mkdir()
        (home / "credential.json").write_text(
            json.dumps(
                {"credential": enrolled.credential, "nodes": {name: str(enrolled.nodes[name])}}
            )
        )
        (home / "gpus.toml").write_text(_gpus(name))
        (home / "agent.toml").write_text(
            f'url = "ws://127.0.0.1:{gateway.port}/agent/v1"\n'
            'credential_file = "credential.json"\nstate_dir = "state"\n'
            f'[[nodes]]\nname = "{name}"\ngpus_file = "gpus.toml"\nruntime = "null"\n'
        )
        config = str(home / "agent.toml")
        commands.append(["-m", "agents", "--log-level", "warning", "run", "--config", config])
    return commands


def _gpus(name: str) -> str:
    text = "[node]\ncpu_milli = 256000\nram_mib = 1048576\ndisk_mib = 4194304\n"
    for index in range(CARDS):
        text += (
            f'[[gpus]]\nuuid = "GPU-{name}-{index}"\nindex = {index}\n'
            'model = "RTX 4090"\nmemory_mib = 24576\n'
        )
    return text


def make_tenant() -> object:
    from billing.services.wallets import credit
    from rental.records.audit import Actor
    from rental.records.clock import database_now
    from rental.tenants import services

    now = database_now()
    bench = Actor(kind="system", id="benchmarks")
    owner = services.create_user(email="owner@example.com", actor=bench, now=now)
    tenant = services.create_tenant(name="Bench", slug="bench", owner=owner, now=now)
    credit(
        tenant_id=tenant.id, amount=CREDIT, reason="benchmark", actor=bench, key="bench", now=now
    )
    return tenant


class Drive(threading.Thread):
    """The passes of the ``drive`` queue, each every 2 s as beat has them; counts their CPU time."""

    PERIOD = 2.0

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()
        self.cpu: Counter[str] = Counter()

    def run(self) -> None:
        from billing.services.exhaust import close_exhausted
        from rental.instances import passes
        from rental.records.clock import database_now
        from scheduler.services.liveness import watch_nodes

        while not self._ended.wait(self.PERIOD):
            for work in (passes.place, passes.sync, passes.deadlines, watch_nodes, close_exhausted):
                began = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
                work(now=database_now())
                ended = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
                self.cpu[work.__name__] += ended - began

    def stop(self) -> None:
        self._ended.set()
        self.join()


@contextlib.contextmanager
def driving() -> Iterator[Drive]:
    drive = Drive()
    drive.start()
    try:
        yield drive
    finally:
        drive.stop()


def wait_for(state: str, count: int) -> float:
    """Return how many seconds it took until ``count`` instances were in ``state``."""
    from django.db.models import Count

    from rental.instances.models import Instance

    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        states = Counter(
            dict(Instance.objects.values_list("state").annotate(n=Count("id")).order_by())
        )
        if states[state] == count:
            return time.monotonic() - began
        time.sleep(0.2)
    raise SystemExit(f"not {count} {state} within {PATIENCE} s: {dict(states)}")


class Meters:
    """Counters of the room at one moment; two of them subtract to a cost."""

    def __init__(self, *, gateway: Server, agents: list[subprocess.Popen[bytes]]) -> None:
        from django.db import connection

        self.at = time.monotonic()
        self.gateway = cpu_seconds_of(gateway.process.pid)
        self.agents = sum(cpu_seconds_of(agent.pid) for agent in agents)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE 'gateway-%'"
            )
            self.postgres = sum(cpu_seconds_of(pid) for (pid,) in cursor.fetchall())
            cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")
            self.wal = int(cursor.fetchone()[0])
            cursor.execute("SELECT sum(n_tup_ins + n_tup_upd) FROM pg_stat_user_tables")
        self.metrics = {}
        for line in gateway.get("/metrics")[1].splitlines():
            if line.startswith("tessera_gateway_"):
                name, _, value = line.rpartition(" ")
                self.metrics[name] = float(value)

    def since(self, before: "Meters", name: str) -> float:
        """How far a metric of the gateway rose, labels summed up."""

        def total(metrics: dict[str, float]) -> float:
            return sum(v for k, v in metrics.items() if k.partition("{")[0] == name)

        return total(self.metrics) - total(before.metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=60, help="how long the room is watched")
    chosen = parser.parse_args()
    with own_database("room"), tempfile.TemporaryDirectory() as folder:
        run(Path(folder), count=chosen.agents, seconds=chosen.seconds)


def run(folder: Path, *, count: int, seconds: int) -> None:
    from django.core.management import call_command

    from billing.models import Charge, Run, Stretch
    from billing.services.audit import find_errors
    from billing.services.settle import settle
    from rental.instances.models import Instance
    from rental.instances.services import create_instances, stop_instance
    from rental.records.audit import Actor
    from rental.records.clock import database_now

    call_command("seed_catalog")
    facts = server_facts()
    tenant = make_tenant()
    actor = Actor(kind="system", id="benchmarks")
    slices = count * CARDS
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(
            serving("gateway", path="/healthz", log=folder / "gateway.log")
        )
        commands = make_agents(folder, count=count, gateway=gateway)
        began = time.monotonic()
        agents = [start_python(*command, log=folder / "agents.log") for command in commands]
        stack.callback(end, *agents)
        while f"tessera_gateway_nodes {float(count)}" not in gateway.get("/metrics")[1]:
            if time.monotonic() - began > PATIENCE:
                raise SystemExit((folder / "agents.log").read_text()[-4000:])
            time.sleep(0.2)
        joined = time.monotonic() - began
        drive = stack.enter_context(driving())

        began = time.monotonic()
        for first in range(0, slices, ORDER):
            create_instances(
                tenant_id=tenant.id,
                offer_code=OFFER,
                image_code="ubuntu-22.04",
                count=min(ORDER, slices - first),
                name=f"bench-{first}",
                actor=actor,
                now=database_now(),
            )
        ordered = time.monotonic() - began
        started = wait_for("running", slices)

        drive_before = Counter(drive.cpu)
        before = Meters(gateway=gateway, agents=agents)
        time.sleep(seconds)  # the measurement itself
        after = Meters(gateway=gateway, agents=agents)
        drive_cost = Counter(drive.cpu)
        drive_cost.subtract(drive_before)
        memory = memory_mib(gateway.process.pid)
        agents_rss = sum(memory_mib(agent.pid)["rss"] for agent in agents)
        agents_own = sum(memory_mib(agent.pid)["own"] for agent in agents)

        for instance_id in Instance.objects.values_list("id", flat=True):
            stop_instance(
                tenant_id=tenant.id, instance_id=instance_id, actor=actor, now=database_now()
            )
        stopped = wait_for("stopped", slices)
    settle(now=database_now())
    findings = find_errors(now=database_now())
    runs = list(Run.objects.all())
    due = sum(run.closed_at_tick or 0 for run in runs)
    charged = sum(c.units.upper - c.units.lower for c in Charge.objects.all())

    span = after.at - before.at

    def per_second(name: str) -> float:
        return after.since(before, f"tessera_gateway_{name}") / span

    def share(cost: float) -> str:
        return f"{100 * cost / span:.1f} % of one core"

    acks = after.since(before, "tessera_gateway_usage_ack_seconds_count")
    ack_ms = 1000 * after.since(before, "tessera_gateway_usage_ack_seconds_sum") / max(acks, 1)
    wal = (after.wal - before.wal) / span / 1024
    print_table(
        f"A room of {count} agents and {slices} slices, watched for {span:.0f} s",
        [
            ("agents connected after", f"{joined:.1f} s"),
            ("orders taken in", f"{ordered:.1f} s"),
            ("all running after", f"{started:.1f} s more"),
            ("all stopped after", f"{stopped:.1f} s"),
            ("gateway, CPU", share(after.gateway - before.gateway)),
            ("gateway, memory", f"{memory['rss']:.0f} MiB (its own {memory['own']:.0f})"),
            ("PostgreSQL for the gateway, CPU", share(after.postgres - before.postgres)),
            ("passes, CPU", share(drive_cost.total())),
            *[(f"  {name}", share(cost)) for name, cost in drive_cost.most_common()],
            ("agents, CPU, all together", share(after.agents - before.agents)),
            ("agents, memory, all together", f"{agents_rss:.0f} MiB (own {agents_own:.0f})"),
            ("frames a second", f"{per_second('frames_total'):.1f}"),
            ("usage frames a second", f"{acks / span:.1f}"),
            ("usage, receipt to ack, mean", f"{ack_ms:.0f} ms"),
            ("refused frames", f"{after.since(before, 'tessera_gateway_refused_total'):.0f}"),
            ("WAL", f"{wal:.0f} KiB/s"),
            ("stretches", Stretch.objects.count()),
            ("ticks due and charged", f"{due} and {charged}"),
            ("audit_ledger", f"{len(findings)} findings"),
        ],
    )
    print_json(
        {
            "benchmark": "room",
            "agents": count,
            "slices": slices,
            "seconds": round(span, 1),
            "gateway_cpu": round((after.gateway - before.gateway) / span, 4),
            "gateway_rss_mib": round(memory["rss"], 1),
            "postgres_cpu": round((after.postgres - before.postgres) / span, 4),
            "passes_cpu": round(drive_cost.total() / span, 4),
            "agents_cpu": round((after.agents - before.agents) / span, 4),
            "agents_rss_mib": round(agents_rss, 1),
            "frames_per_second": round(per_second("frames_total"), 1),
            "ack_mean_ms": round(ack_ms, 1),
            "running_after_s": round(ordered + started, 1),
            "stopped_after_s": round(stopped, 1),
            "ticks_due": due,
            "ticks_charged": charged,
            "findings": len(findings),
            **facts,
        }
    )


if __name__ == "__main__":
    main()
