"""
How fast the API answers: ``python -m benchmarks.api``.

A real web process (uvicorn, as production runs it), a client process with four connections that
are kept alive, real PostgreSQL and Valkey, rate limits on but wide. Servers: those of DATABASE_URL
and REDIS_URL in a database of its own, or throwaway ones. Prints a table and, last, one JSON line.
Aims (issue 2): list >= 150 requests/s with p50 < 20 ms.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from config.embedded.valkey import free_port

CONNECTIONS = 4
INSTANCES = 10
BENCH_DATABASE = "tessera_bench_api"


@dataclass(frozen=True)
class Result:
    """Latencies in milliseconds."""

    name: str
    requests: int
    per_second: float
    p50: float
    p99: float
    cpu: float  # of the web process, a request; tells when the machine was busy with others


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.api", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each of the two")
    parser.add_argument("--profile", action="store_true", help="profile the list in this process")
    chosen = parser.parse_args()

    prepare_servers()
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "SECRET_KEY": "bench",
        "HINTS_ENABLED": "0",
        "RATE_LIMIT_REQUESTS": "100000000",
        "LOG_LEVEL": "WARNING",
    }
    import django

    django.setup()
    key = seed()
    if chosen.profile:
        profile(key)
        return
    from django.db import connections

    connections.close_all()
    port = free_port()
    with open(os.devnull, "wb") as nowhere:
        web = subprocess.Popen(
            [sys.executable, "-m", "config.serve", "web", "--port", str(port)],
            env={**os.environ, "DATABASE_POOL": "1"},
            stdout=nowhere,
        )
    try:
        wait_for(port)
        results = [
            measure("list of 10", web.pid, port, key, chosen.seconds, list_instances),
            measure("create", web.pid, port, key, chosen.seconds, create_instance),
        ]
        memory = resident_mib(web.pid)
    finally:
        web.terminate()
        web.wait(20)
    report(results, memory)


def prepare_servers() -> None:
    """Take the given servers, with a database of our own that is made anew, or start some."""
    if "DATABASE_URL" not in os.environ or "REDIS_URL" not in os.environ:
        from config.embedded.throwaway import start_throwaway

        start_throwaway(durable=True)
    import psycopg

    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {BENCH_DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {BENCH_DATABASE}")
    os.environ["DATABASE_URL"] = urlunsplit(urlsplit(url)._replace(path=f"/{BENCH_DATABASE}"))


def seed() -> str:
    """Migrate, put one offer on sale, order ten instances; return an API key."""
    from django.core.management import call_command

    from rental.instances.services import create_instances
    from rental.records.clock import database_now
    from tests.api.conftest import give_money, put_on_sale
    from tests.factories.tenants import OPERATOR, make_api_key, make_tenant

    call_command("migrate", verbosity=0)
    offer, image, _price = put_on_sale()
    tenant = make_tenant()
    give_money(tenant, 10**15)
    create_instances(
        tenant_id=tenant.id,
        project_id=None,
        offer_code=offer.code,
        market="on_demand",
        image_code=image.code,
        count=INSTANCES,
        name=None,
        ssh_key_ids=[],
        command=[],
        env={},
        quote_id=None,
        max_hourly_price=None,
        actor=OPERATOR,
        now=database_now(),
    )
    return make_api_key(tenant)[1]


def list_instances(client: http.client.HTTPConnection, headers: dict[str, str]) -> int:
    client.request("GET", "/v1/instances?limit=10", headers=headers)
    return drain(client)


def create_instance(client: http.client.HTTPConnection, headers: dict[str, str]) -> int:
    body = json.dumps({"offer": "rtx4090-share1", "image": "pytorch-2.4"})
    client.request(
        "POST",
        "/v1/instances",
        body,
        {**headers, "Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex},
    )
    return drain(client)


def drain(client: http.client.HTTPConnection) -> int:
    response = client.getresponse()
    response.read()
    return response.status


Send = Callable[[http.client.HTTPConnection, dict[str, str]], int]


def measure(name: str, pid: int, port: int, key: str, seconds: float, send: Send) -> Result:
    headers = {"Authorization": f"Bearer {key}"}
    taken: list[float] = []

    def run(until: float, into: list[float]) -> None:
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.connect()
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (begin := time.perf_counter()) < until:
            status = send(client, headers)
            if status >= 300:
                raise SystemExit(f"{name}: {status}")
            into.append((time.perf_counter() - begin) * 1000)
        client.close()

    for length, into in ((1.0, []), (seconds, taken)):  # the first warms up
        begun, worked = time.perf_counter(), cpu_seconds(pid)
        threads = [
            threading.Thread(target=run, args=(begun + length, into)) for _ in range(CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent, worked = time.perf_counter() - begun, cpu_seconds(pid) - worked
    cuts = statistics.quantiles(taken, n=100)
    return Result(
        name, len(taken), len(taken) / spent, cuts[49], cuts[98], worked * 1000 / len(taken)
    )


def report(results: list[Result], memory: float) -> None:
    print(f"{'':<12}{'requests':>10}{'per second':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms':>9}")  # noqa: T201
    for one in results:
        print(  # noqa: T201
            f"{one.name:<12}{one.requests:>10}{one.per_second:>12.1f}{one.p50:>9.1f}{one.p99:>9.1f}{one.cpu:>9.2f}"
        )
    print(f"web process: {memory:.0f} MiB resident")  # noqa: T201
    figures = {
        one.name: {
            "per_second": round(one.per_second, 1),
            "p50_ms": round(one.p50, 2),
            "p99_ms": round(one.p99, 2),
            "cpu_ms": round(one.cpu, 2),
        }
        for one in results
    }
    print(  # noqa: T201
        json.dumps(
            {"benchmark": "api", "connections": CONNECTIONS, "web_mib": round(memory), **figures}
        )
    )


def profile(key: str) -> None:
    """Where the time of a list goes, function by function, without a server between."""
    import cProfile
    import pstats

    from django.test import Client

    client = Client(headers={"authorization": f"Bearer {key}", "host": "127.0.0.1"})
    for _ in range(20):
        client.get("/v1/instances?limit=10")
    begin = time.process_time()
    for _ in range(200):
        client.get("/v1/instances?limit=10")
    print(f"{(time.process_time() - begin) * 5:.2f} ms of our CPU a request")  # noqa: T201
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(200):
        client.get("/v1/instances?limit=10")
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


def wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            client.request("GET", "/v1/openapi.json")
            if drain(client) == 200:
                return
        except OSError:
            pass
        if time.monotonic() > end:
            raise SystemExit("the web process did not start")
        time.sleep(0.1)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    with open(f"/proc/{pid}/status") as lines:
        line = next(line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
