"""Many instances in one running stack, and the comparison of every bill with what they wrote."""

import bisect
import contextlib
import json
import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.journeys.stack import ORACLE, Api, SshKey, Stack, wait_for

TICK = 6.0
OFFER = "a100-80g-1t"
IMAGE = "ubuntu-22.04"


@dataclass
class Fleet:
    """The instances of one tenant, with the retrying client that a careful customer would use."""

    stack: Stack
    api: Api
    ssh: SshKey
    ssh_key_id: str
    ids: list[str] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)

    @classmethod
    def make(cls, stack: Stack, folder: Path) -> "Fleet":
        world = stack.world(tenants={"fleet": 100_000_000_000}, tokens=0)
        api = stack.api(world["tenants"]["fleet"]["key"])
        ssh = SshKey.make(folder, f"fleet-{uuid.uuid4().hex[:6]}")
        return cls(stack, api, ssh, api.add_ssh_key(ssh.public))

    def post(self, path: str, body: dict[str, Any], *, seconds: float = 90) -> Any:
        """POST until it is answered; the key makes the repeats harmless."""
        key = uuid.uuid4().hex

        def attempt() -> Any:
            try:
                answer = self.api.http.post(path, json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                return None
            if answer.status_code >= 500 or answer.status_code in (409, 429):
                return None
            answer.raise_for_status()
            return answer.json()

        return wait_for(f"an answer to POST {path}", attempt, seconds=seconds, every=0.5)

    def get(self, path: str, *, seconds: float = 90, **query: Any) -> Any:
        def attempt() -> Any:
            try:
                answer = self.api.http.get(path, params=query)
            except httpx.TransportError:
                return None
            return None if answer.status_code >= 500 else answer.json()

        return wait_for(f"an answer to GET {path}", attempt, seconds=seconds, every=0.5)

    def order(self, count: int = 1, *, offer: str = OFFER) -> list[str]:
        made = self.post(
            "/v1/instances",
            {
                "offer": offer,
                "image": IMAGE,
                "count": count,
                "ssh_key_ids": [self.ssh_key_id],
                "command": ["/bin/bash", "-c", ORACLE],
            },
        )
        new = [one["id"] for one in made["data"]]
        self.ids += new
        return new

    def stop(self, instance_id: str) -> None:
        self.post(f"/v1/instances/{instance_id}/stop", {})
        self.stopped.add(instance_id)

    def churn(self, rng: random.Random) -> str:
        """Do one thing that customers do."""
        live = [one for one in self.ids if one not in self.stopped]
        if len(live) > 4 and rng.random() < 0.5:
            victim = rng.choice(live)
            self.stop(victim)
            return f"stop {victim}"
        return f"order {self.order()[0]}"

    def state(self, instance_id: str) -> str:
        return str(self.get(f"/v1/instances/{instance_id}")["state"])

    def wait_all(self, wanted: str, ids: list[str], *, seconds: float = 180) -> None:
        for one in ids:
            wait_for(
                f"{one} to be {wanted}",
                lambda one=one: self.state(one) == wanted or None,
                seconds=seconds,
                every=0.5,
            )


def runs(stack: Stack) -> list[dict[str, Any]]:
    """Every run with its charged ticks: {instance, started, closed_at_tick, charged, settled}."""
    rows = stack.sql(
        """
        SELECT r.id, r.instance_id, extract(epoch FROM r.started_at)::float8, r.closed_at_tick,
               r.settled, r.suspect,
               coalesce(
                   (SELECT array_agg(ARRAY[lower(c.units)::int, upper(c.units)::int]
                                     ORDER BY lower(c.units))
                    FROM billing_charge c WHERE c.run_id = r.id AND c.component = 'compute'),
                   '{}')
        FROM billing_run r ORDER BY r.opened_at
        """
    )
    names = ("id", "instance", "started", "closed_at_tick", "settled", "suspect", "charged")
    return [dict(zip(names, row, strict=True)) for row in rows]


def oracle_times(home: Path) -> dict[str, list[float]]:
    """The seconds at which each instance's own process was alive, by instance id (hex)."""
    found: dict[str, list[float]] = {}
    for path in home.rglob("oracle"):
        lines = [line.split() for line in path.read_text().splitlines()]
        label = json.loads((path.parent.parent / "residence.json").read_text())
        instance = str(label["instance"])
        found[instance.replace("-", "")] = sorted(
            float(line[1]) for line in lines if len(line) == 2
        )
    return found


def alive_ticks(run: dict[str, Any], times: list[float]) -> set[int]:
    """Ticks below the close in which the oracle wrote, and after whose end it wrote again."""
    if run["started"] is None or not run["closed_at_tick"]:
        return set()
    last = bisect.bisect_right(times, times[-1]) - 1 if times else -1
    seen = set()
    for k in range(run["closed_at_tick"]):
        begin, end = run["started"] + k * TICK, run["started"] + (k + 1) * TICK
        inside = bisect.bisect_left(times, begin) < bisect.bisect_left(times, end)
        after = last >= 0 and times[last] >= end
        if inside and (after or k == run["closed_at_tick"] - 1):
            seen.add(k)
    return seen


def compare(stack: Stack, home: Path) -> dict[str, Any]:
    """Compare all charges with all oracles; the answer names every tick that is wrong."""
    times = oracle_times(home)
    report: dict[str, Any] = {"runs": 0, "ticks": 0, "lost": [], "extra": [], "gaps": []}
    for run in runs(stack):
        report["runs"] += 1
        charged: list[int] = [k for begin, end in run["charged"] for k in range(begin, end)]
        assert len(charged) == len(set(charged)), f"charged twice: {run}"
        alive = alive_ticks(run, times.get(run["instance"].hex, []))
        report["ticks"] += len(charged)
        if lost := sorted(alive - set(charged)):
            report["lost"].append((str(run["id"]), lost))
        if extra := sorted(set(charged) - alive):
            report["extra"].append((str(run["id"]), extra))
    for instance, seen in times.items():
        holes = [b - a for a, b in zip(seen, seen[1:], strict=False) if b - a > 5]
        if holes:
            report["gaps"].append((instance, holes))
    return report


def settle_everything(stack: Stack, *, seconds: float = 120) -> int:
    """Wait for all closed runs to be settled; return how many are not, for their gaps."""

    def unsettled() -> int:
        return sum(not run["settled"] for run in runs(stack))

    with contextlib.suppress(TimeoutError):
        wait_for("settlement", lambda: unsettled() == 0 or None, seconds=seconds, every=1)
    return unsettled()
