"""
The first rental, with real processes and the real OpenSSH client: order a share, log in, stop,
and compare the bill with a clock inside the instance. Four rentals run side by side, three of them
under a partition of their node: in the middle, over the start, over the stop.
"""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from billing.core.rating import price_of_ticks
from tests.journeys.stack import (
    ORACLE,
    Api,
    NodeAgent,
    SshKey,
    Stack,
    micro,
    running_stack,
    state_dir,
    wait_for,
)

# One stack serves the whole file, so one process of xdist must run all of it.
pytestmark = pytest.mark.xdist_group("first-rental")

PARTITION = float(os.environ.get("JOURNEY_PARTITION_SECONDS", "60"))
DEPOSIT = 100_000_000  # 100 CNY, micro
SCENES = {
    "plain": ("A100", 81920, "a100-80g-1t"),
    "middle": ("RTX 4090", 24576, "rtx4090-24g-1t"),
    "start": ("H100", 81920, "h100-80g-1t"),
    "stop": ("V100", 32768, "v100-32g-5t"),
}


@dataclass
class Rental:
    """What one scene leaves behind for the tests to read."""

    api: Api
    agent: NodeAgent
    ssh: SshKey
    offer: str
    before: int
    id: str = ""
    listing: str = ""
    endpoint: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def stack():
    with running_stack(state_dir("journey")) as stack:
        yield stack


@pytest.fixture(scope="module")
def world(stack: Stack) -> dict[str, Any]:
    return stack.world(
        tenants=dict.fromkeys([*SCENES, "stranger", "unlucky"], DEPOSIT), tokens=len(SCENES)
    )


@pytest.fixture(scope="module")
def rentals(stack: Stack, world: dict[str, Any], tmp_path_factory: pytest.TempPathFactory):
    keys = tmp_path_factory.mktemp("keys")
    with ThreadPoolExecutor(len(SCENES)) as pool:
        waiting: dict[str, Future[Rental]] = {}
        for (scene, (model, memory, offer)), token in zip(
            SCENES.items(), world["tokens"], strict=True
        ):
            gpu = {"uuid": f"GPU-{scene}", "index": 0, "model": model, "memory_mib": memory}
            agent = stack.add_agent(f"node-{scene}", token, [gpu])
            api = stack.api(world["tenants"][scene]["key"])
            ssh = SshKey.make(keys, scene)
            rental = Rental(api, agent, ssh, offer, micro(api.get("/v1/balance")["posted"]))
            waiting[scene] = pool.submit(globals()[f"play_{scene}"], stack, rental)
        return {scene: future.result() for scene, future in waiting.items()}


def order(rental: Rental) -> None:
    wait_for("a node to be known", lambda: rental.api.get("/v1/offers", limit=100)["data"] or None)
    made = rental.api.order(
        offer=rental.offer,
        image="ubuntu-22.04",
        ssh_key_ids=[rental.api.add_ssh_key(rental.ssh.public)],
        command=["/bin/bash", "-c", ORACLE],
    )
    rental.id = made["id"]


def reach(rental: Rental, *, seconds: float = 60) -> None:
    seen = rental.api.wait_state(rental.id, "running", seconds=seconds)
    rental.endpoint = next(end for end in seen["endpoints"] if end["kind"] == "ssh")


def log_in(rental: Rental) -> None:
    done = wait_for(
        "ssh to answer",
        lambda: (
            answer if (answer := rental.ssh.run(rental.endpoint, LOGIN)).returncode == 0 else None
        ),
        seconds=20,
    )
    rental.listing = done.stdout


LOGIN = 'id -u; cd "$TESSERA_WORKSPACE" && ls && cat oracle | wc -l'


def stop(rental: Rental) -> None:
    rental.api.post(f"/v1/instances/{rental.id}/stop")


def play_plain(stack: Stack, rental: Rental) -> Rental:
    order(rental)
    reach(rental)
    log_in(rental)
    time.sleep(7)  # more than one tick of life; the bill is compared with what really passed
    stop(rental)
    rental.api.wait_state(rental.id, "stopped")
    return rental


def play_middle(stack: Stack, rental: Rental) -> Rental:
    order(rental)
    reach(rental)
    log_in(rental)
    rental.agent.relay.cut()
    time.sleep(PARTITION)
    rental.agent.relay.heal()
    wait_for(
        "the node to be reachable again",
        lambda: rental.api.instance(rental.id)["health"] == "ok" or None,
    )
    log_in(rental)
    stop(rental)
    rental.api.wait_state(rental.id, "stopped")
    return rental


def play_start(stack: Stack, rental: Rental) -> Rental:
    rental.agent.relay.cut_upward()
    order(rental)
    time.sleep(PARTITION)
    rental.agent.relay.heal()
    reach(rental)
    log_in(rental)
    stop(rental)
    rental.api.wait_state(rental.id, "stopped")
    return rental


def play_stop(stack: Stack, rental: Rental) -> Rental:
    order(rental)
    reach(rental)
    log_in(rental)
    rental.agent.relay.cut()
    time.sleep(PARTITION / 2)
    stop(rental)
    time.sleep(PARTITION / 2)
    rental.agent.relay.heal()
    rental.api.wait_state(rental.id, "stopped")
    wait_for(
        "the node to confirm the wipe",
        lambda: (
            not stack.sql(
                "SELECT 1 FROM scheduler_allocation WHERE released_at IS NULL "
                "AND node_id = (SELECT id FROM scheduler_node WHERE name = %s)",
                rental.agent.name,
            )
            or None
        ),
    )
    return rental


def bill(stack: Stack, rental: Rental) -> dict[str, Any]:
    """The run and its charges, once nothing more can come."""
    query = """
        SELECT r.started_at, r.closed_at, r.closed_at_tick,
               coalesce(sum(upper(c.units) - lower(c.units)), 0), coalesce(sum(c.amount), 0),
               r.settled, max(p.price)
        FROM billing_run r
        LEFT JOIN billing_charge c ON c.run_id = r.id AND c.component = 'compute'
        LEFT JOIN billing_priceversion p ON p.id = c.price_version_id
        WHERE r.tenant_id = (SELECT id FROM tenants_tenant WHERE slug = %s)
        GROUP BY r.id
    """
    names = ("started_at", "closed_at", "closed_at_tick", "ticks", "amount", "settled", "price")

    def look() -> dict[str, Any] | None:
        rows = stack.sql(query, rental.agent.name.removeprefix("node-"))
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return found[0] if len(found) == 1 and found[0]["settled"] else None

    return wait_for("the run to be settled", look, seconds=90, every=0.5)


def ticks_of(started_at: datetime, closed_at: datetime) -> int:
    micros = round((closed_at - started_at).total_seconds() * 1_000_000)
    return -(-micros // 6_000_000)


@pytest.mark.parametrize("scene", SCENES)
def test_the_bill_is_exact(stack: Stack, rentals: dict[str, Rental], scene: str):
    # given a rental that was ordered, used and stopped
    rental = rentals[scene]

    # when it is settled
    found = bill(stack, rental)

    # then every started tick up to the accepted stop is charged, once, at the price shown
    expected = ticks_of(found["started_at"], found["closed_at"])
    assert found["ticks"] == expected == found["closed_at_tick"]
    assert found["amount"] == price_of_ticks(expected, price=found["price"], share=1)
    after = micro(rental.api.get("/v1/balance")["posted"])
    assert rental.before - after == found["amount"]


@pytest.mark.parametrize("scene", SCENES)
def test_the_bill_agrees_with_a_clock_inside(stack: Stack, rentals: dict[str, Rental], scene: str):
    # given what the instance itself wrote, each second and at SIGTERM
    rental = rentals[scene]
    (oracle,) = rental.agent.state_dir.rglob("oracle")
    lines = [line.split() for line in oracle.read_text().splitlines()]
    inside_from = float(lines[0][1])
    inside_until = float(lines[-1][1])
    assert [lines[0][0], lines[-1][0]] == ["start", "term"]

    # when it is compared with the rows
    found = bill(stack, rental)
    billed = (found["closed_at"] - found["started_at"]).total_seconds()

    # then both agree within 2 s; a stop over a cut link bills up to the stop, not to the SIGTERM
    if scene == "stop":
        inside_until = found["closed_at"].timestamp()
        assert float(lines[-1][1]) > inside_until
    assert abs(billed - (inside_until - inside_from)) < 2


@pytest.mark.parametrize("scene", SCENES)
def test_the_customer_finds_the_workspace_and_is_not_root(rentals: dict[str, Rental], scene: str):
    uid, *names, lines = rentals[scene].listing.split("\n")[:-1]
    assert int(uid) != 0
    assert "oracle" in names
    assert int(lines) >= 1


def test_the_ledger_holds(stack: Stack, rentals: dict[str, Rental]):
    for rental in rentals.values():
        bill(stack, rental)
    audit = stack.manage("audit_ledger", check=False)
    assert audit.returncode == 0, audit.stdout


def test_a_start_that_fails_costs_nothing(
    stack: Stack, world: dict[str, Any], rentals: dict[str, Rental]
):
    # given a node with room, and an order whose program does not exist
    api = stack.api(world["tenants"]["unlucky"]["key"])
    made = api.order(
        offer=rentals["plain"].offer, image="ubuntu-22.04", command=["/no/such/program"]
    )

    # when it is started
    seen = api.wait_state(made["id"], "failed", seconds=30)

    # then it says why, never began to cost, and holds no money
    assert seen["state_reason"] == {"code": "start_failed", "detail": "exited_before_ready"}
    ((started_at, closed_at_tick),) = stack.sql(
        "SELECT started_at, closed_at_tick FROM billing_run r JOIN tenants_tenant t"
        " ON t.id = r.tenant_id WHERE t.slug = 'unlucky'"
    )
    assert (started_at, closed_at_tick) == (None, 0)
    balance = api.get("/v1/balance")
    assert (micro(balance["posted"]), micro(balance["held"])) == (DEPOSIT, 0)
    assert api.get("/v1/charges")["data"] == []


def test_a_stranger_neither_sees_nor_enters(
    stack: Stack, world: dict[str, Any], rentals: dict[str, Rental], tmp_path: Path
):
    # given a running instance of one tenant, and another tenant with a key of his own
    rental = rentals["plain"]
    rental.api.post(f"/v1/instances/{rental.id}/start")
    seen = rental.api.wait_state(rental.id, "running")
    stranger = stack.api(world["tenants"]["stranger"]["key"])
    his_key = SshKey.make(tmp_path, "stranger")
    stranger.add_ssh_key(his_key.public)

    # when he looks and knocks
    look = stranger.http.get(f"/v1/instances/{rental.id}")
    knock = stranger.http.post(
        f"/v1/instances/{rental.id}/stop", json={}, headers={"Idempotency-Key": "k"}
    )
    entry = his_key.run(seen["endpoints"][0], "id")

    # then he finds nothing, and nothing happened
    assert (look.status_code, knock.status_code) == (404, 404)
    assert entry.returncode == 255
    assert stranger.get("/v1/instances")["data"] == []
    assert rental.api.instance(rental.id)["state"] == "running"

    # and the disk was kept over stop and start
    again = rental.ssh.run(seen["endpoints"][0], 'cat "$TESSERA_WORKSPACE/oracle"')
    assert again.stdout.count("term") == 1
    stop(rental)
    rental.api.wait_state(rental.id, "stopped")
