"""
What the web and the gateway process hold after a warm-up: ``python -m benchmarks.memory``.

Web: log-in pages, admin, and the API's lists with a key. Gateway: 40 agents with hello, pulses and
usage, all connected while it is measured.
"""

import argparse
import contextlib
import os
import tempfile
from datetime import timedelta
from pathlib import Path

from benchmarks._shared import print_json, print_table, server_facts
from benchmarks.stage import Server, memory_mib, own_database, serving

AIM = 150  # MiB each
ROUNDS = 30
PAGES = ("/accounts/login/", "/admin/login/", "/healthz")
LISTS = ("/v1/offers", "/v1/images", "/v1/instances", "/v1/charges", "/v1/balance", "/v1/api-keys")


def warm_web(server: Server, *, key: str) -> int:
    """Ask for every page ``ROUNDS`` times; return how many answers were 200."""
    return sum(
        server.get(path, Authorization=f"Bearer {key}")[0] == 200
        for path in [*PAGES, *LISTS] * ROUNDS
    )


def warm_gateway(server: Server, *, credentials: dict[str, str]) -> contextlib.ExitStack:
    """Connect an agent for each node and let it speak; return what keeps them connected."""
    import msgspec
    from websockets.sync.client import connect

    from agents import protocol

    links = contextlib.ExitStack()
    facts = protocol.Facts(cpu_milli=64_000, ram_mib=262_144, disk_mib=1_000_000)
    for node, credential in credentials.items():
        link = links.enter_context(
            connect(
                f"ws://127.0.0.1:{server.port}/agent/v1",
                additional_headers={"Authorization": f"Bearer {credential}"},
            )
        )
        hello = protocol.Hello(
            node=node, boot="b", seq=0, oldest_version=1, newest_version=1,
            control_epoch=0, node_version=0, facts=facts,
        )  # fmt: skip
        said = [hello]
        for seq in range(1, ROUNDS + 1):
            said.append(protocol.Pulse(node=node, boot="b", seq=seq))
            said.append(protocol.Usage(node=node, boot="b", seq=seq))
        for message in said:
            link.send(msgspec.json.encode(message).decode())
        while True:
            answer = msgspec.json.decode(link.recv(timeout=30), type=protocol.Down)
            if isinstance(answer, protocol.Ack) and answer.seq == ROUNDS:
                break
    return links


def prepare(agents: int) -> tuple[str, dict[str, str]]:
    """Make a tenant's API key and the agents' credentials by node id."""
    from rental.records.audit import Actor
    from rental.records.clock import database_now
    from rental.tenants import services
    from scheduler.models import Region, Zone
    from scheduler.services.enrolment import enrol, issue_token

    now = database_now()
    bench = Actor(kind="system", id="benchmarks")
    owner = services.create_user(email="owner@example.com", actor=bench, now=now)
    tenant = services.create_tenant(name="Bench", slug="bench", owner=owner, now=now)
    _, key = services.issue_api_key(
        tenant=tenant,
        name="bench",
        scopes=["*"],
        expires_at=None,
        created_by=owner,
        actor=bench,
        now=now,
    )
    region, _ = Region.objects.get_or_create(code="bench")
    zone, _ = Zone.objects.get_or_create(code="bench-1", defaults={"region": region})
    token = issue_token(
        zone=zone, uses=agents, expires_at=now + timedelta(hours=1), actor=bench, now=now
    )
    credentials = {}
    for number in range(agents):
        enrolled = enrol(
            token=token, agent_name=f"agent-{number}", nodes=[f"node-{number}"], now=now
        )
        credentials[str(enrolled.nodes[f"node-{number}"])] = enrolled.credential
    return key, credentials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=40)
    agents = parser.parse_args().agents

    with own_database("memory"), tempfile.TemporaryDirectory() as folder:
        key, credentials = prepare(agents)
        facts = server_facts()
        log = Path(folder) / "log"
        os.environ["DATABASE_POOL"] = "1"
        with (
            serving("web", path="/healthz", log=log) as web,
            serving("gateway", path="/healthz", log=log) as gateway,
        ):
            cold = {server: memory_mib(server.process.pid) for server in (web, gateway)}
            good = warm_web(web, key=key)
            with warm_gateway(gateway, credentials=credentials):
                warm = {server: memory_mib(server.process.pid) for server in (web, gateway)}

    rows: list[tuple[str, object]] = [
        ("pages answered 200", f"{good} of {ROUNDS * len([*PAGES, *LISTS])}")
    ]
    figures: dict[str, object] = {"benchmark": "memory", "aim_mib": AIM, "agents": agents, **facts}
    for name, server in (("web", web), ("gateway", gateway)):
        seen = warm[server]
        rows.append(
            (
                name,
                f"{seen['rss']:.0f} MiB resident (start {cold[server]['rss']:.0f}, "
                f"peak {seen['peak']:.0f}, its own {seen['own']:.0f})",
            )
        )
        figures[f"{name}_rss_mib"] = round(seen["rss"], 1)
        figures[f"{name}_own_mib"] = round(seen["own"], 1)
    print_table(f"Memory after warm-up; aim: below {AIM} MiB each", rows)
    print_json(figures)


if __name__ == "__main__":
    main()
