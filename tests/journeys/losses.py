"""
Two nodes of the ``null`` runtime in a real Tessera, one of which is killed again and again; what
happens to its instances, and what they cost. For a journey and for ``benchmarks.failover``.
"""

import json
import time
from dataclasses import dataclass
from typing import Literal

from tests.journeys.stack import Api, NodeAgent, Stack, wait_for

CARDS = 8
MODEL = {"model": "A100", "memory_mib": 81920}
OFFER, IMAGE = "a100-80g-1t", "ubuntu-22.04"
AT_ONCE = 16  # instances of one order

RUNNING = """
    SELECT count(*), min(node.name), max(node.name)
    FROM rental_instance AS one
    JOIN scheduler_allocation AS home ON home.id = one.allocation_id
    JOIN scheduler_node AS node ON node.id = home.node_id
    WHERE one.state = 'running' AND home.abandoned_at IS NULL AND home.phase = 'running'
      AND home.observed_incarnation = home.incarnation"""
# Copies that a node has said to run, whether their instances know of it or not.
HEARD = """
    SELECT count(*) FROM scheduler_allocation AS home
    JOIN scheduler_node AS node ON node.id = home.node_id
    WHERE node.name = %s AND home.released_at IS NULL AND home.abandoned_at IS NULL
      AND home.phase = 'running' AND home.observed_incarnation = home.incarnation"""
# When the server heard the last pulse, and since then, all by PostgreSQL's clock.
SILENCE = """
    SELECT received_at, extract(epoch FROM clock_timestamp() - received_at)::float8
    FROM scheduler_nodeliveness JOIN scheduler_node ON id = node_id WHERE name = %s"""
UNCLEAN = """
    SELECT (SELECT count(*) FROM scheduler_allocation
            WHERE abandoned_at IS NOT NULL AND released_at IS NULL)
         + (SELECT count(*) FROM scheduler_residence
            WHERE abandoned_at IS NOT NULL AND wiped_at IS NULL)"""
LIVE_COPIES = """
    SELECT count(*) FROM (
        SELECT instance_id FROM scheduler_allocation
        WHERE released_at IS NULL AND abandoned_at IS NULL GROUP BY instance_id
        HAVING count(*) > 1) AS twice"""
# Per run: ticks that are charged, and ticks that were proven below its end.
BILL = """
    SELECT run.id, coalesce(charged.ticks, 0)::bigint, coalesce(proven.ticks, 0)::bigint
    FROM billing_run AS run
    LEFT JOIN (SELECT run_id, sum(upper(units) - lower(units)) AS ticks
               FROM billing_charge GROUP BY run_id) AS charged ON charged.run_id = run.id
    LEFT JOIN LATERAL (
        SELECT sum(upper(part) - lower(part)) AS ticks
        FROM unnest((SELECT range_agg(int8range(from_tick, until_tick))
                     FROM billing_stretch WHERE run_id = run.id)
                    * int8multirange(int8range(0, run.closed_at_tick))) AS part
    ) AS proven ON true"""


@dataclass(frozen=True)
class Loss:
    """
    Seconds from the last pulse that was received, by PostgreSQL's clock, until all ran elsewhere:
    as the server heard it from the other node (``seconds``), and as its customer sees it.
    """

    node: str
    seconds: float
    shown: float


class LossRoom:
    """``instances`` that are to be started elsewhere run on one of two nodes."""

    def __init__(self, stack: Stack, *, instances: int) -> None:
        self.stack, self.instances = stack, instances
        made = stack.world(tenants={"losses": 10_000_000_000}, tokens=2)
        self.tokens: list[str] = made["tokens"]
        self.api: Api = stack.api(made["tenants"]["losses"]["key"])
        self.agents: dict[str, NodeAgent] = {}
        self.home = self._add("node-1")
        ordered = 0
        while ordered < instances:
            count = min(AT_ONCE, instances - ordered)
            self.api.post(
                "/v1/instances",
                {"offer": OFFER, "image": IMAGE, "count": count, "on_node_loss": "replace"},
            )
            ordered += count
        self._wait_all_on("node-1")
        self._add("node-2")

    def _add(self, name: str) -> str:
        gpus = [{"uuid": f"GPU-{name}-{i}", "index": i, **MODEL} for i in range(CARDS)]
        token = self.tokens.pop()
        self.agents[name] = self.stack.add_agent(name, token, gpus, runtime="null")
        alive = "SELECT 1 FROM scheduler_node WHERE name = %s AND facts->>'runtime' = 'null'"
        wait_for(f"{name} to say hello", lambda: self.stack.sql(alive, name) or None)
        return name

    def _wait_all_on(self, name: str, *, seconds: float = 120) -> None:
        def look() -> bool:
            [(count, first, last)] = self.stack.sql(RUNNING)
            return count == self.instances and first == last == name

        wait_for(f"{self.instances} instances to run on {name}", look, seconds=seconds, every=0.1)

    def prove(self, *, seconds: float = 100) -> None:
        """Wait until each open run has a proven tick, so that there is something to charge."""
        unproven = """
            SELECT count(*) FROM billing_run AS run WHERE closed_at IS NULL AND NOT EXISTS (
                SELECT FROM billing_stretch WHERE run_id = run.id)"""
        wait_for(
            "every run to be proven",
            lambda: self.stack.sql(unproven) == [(0,)],
            seconds=seconds,
            every=0.5,
        )

    def wait_listening(self) -> None:
        """Wait until the control plane has listened for its grace: before, nobody is lost."""
        grace = int(self.stack.extra_env.get("SCHEDULER_DEAF_GRACE", "60"))
        deaf = """
            SELECT 1 FROM scheduler_gatewayflush
            WHERE greatest(started_at, hole_at) > now() - make_interval(secs => %s)"""
        wait_for(
            "the control plane to trust itself",
            lambda: not self.stack.sql(deaf, grace + 1),
            seconds=150,
        )

    def lose(self, how: Literal["kill", "cut"] = "kill") -> Loss:
        """
        Kill the agent of the node on which they run, or cut its link, with which everything there
        runs on; and wait until all run on the other node.
        """
        lost, other = self.home, next(name for name in self.agents if name != self.home)
        self.wait_listening()
        process = self.agents[lost].process
        assert process is not None
        if how == "kill":
            process.kill()
            process.wait(10)
        else:
            self.agents[lost].relay.cut()
        time.sleep(1.5)  # what was sent before is written once a second
        [(last_heard, _)] = self.stack.sql(SILENCE, lost)
        wait_for(
            "the copies to run",
            lambda: self.stack.sql(HEARD, other) == [(self.instances,)],
            seconds=90,
            every=0.05,
        )
        [(_, seconds)] = self.stack.sql(SILENCE, lost)
        self._wait_all_on(other, seconds=90)
        [(again, shown)] = self.stack.sql(SILENCE, lost)
        assert again == last_heard, "the lost node was heard again"
        self.home = other
        return Loss(node=lost, seconds=seconds, shown=shown)

    def bring_back(self, name: str) -> None:
        """
        Start the agent again, or heal its link, and wait until its node has confirmed the end of
        all that it had.
        """
        agent = self.agents[name]
        if agent.process is None or agent.process.poll() is not None:
            agent.start()
        agent.relay.heal()
        wait_for(
            f"{name} to be clean",
            lambda: self.stack.sql(UNCLEAN) == [(0,)],
            seconds=60,
            every=0.2,
        )
        live = "SELECT 1 FROM scheduler_nodeliveness WHERE status <> 'live'"
        wait_for("all nodes to be live", lambda: not self.stack.sql(live), seconds=30)

    def really_runs(self, name: str) -> int:
        """Return how many containers are alive on the node, whatever anybody knows of them."""
        [kept] = (self.agents[name].state_dir / "state").rglob("null.json")
        containers = json.loads(kept.read_text())["containers"].values()
        return sum(1 for one in containers if one["alive"])

    def copies(self) -> int:
        """Return how many instances live in two places."""
        [(count,)] = self.stack.sql(LIVE_COPIES)
        return int(count)

    def stop_all(self) -> None:
        cursor, found = None, []
        while True:
            query = {"limit": 100} | ({"cursor": cursor} if cursor else {})
            page = self.api.get("/v1/instances", **query)
            found += page["data"]
            if not (cursor := page.get("next_cursor")):
                break
        for one in found:
            self.api.post(f"/v1/instances/{one['id']}/stop")
        open_ = "SELECT count(*) FROM billing_run WHERE NOT settled"
        wait_for("the bill", lambda: self.stack.sql(open_) == [(0,)], seconds=120, every=0.5)

    def bill(self) -> tuple[int, int, int]:
        """Return the ticks charged, the ticks proven, and how many runs differ in them."""
        rows = self.stack.sql(BILL)
        wrong = sum(1 for _, charged, proven in rows if charged != proven)
        return sum(row[1] for row in rows), sum(row[2] for row in rows), wrong
