"""
500 open pages and a web process that is restarted: ``python -m benchmarks.sockets``.

A real web process behind a listening socket that outlives it (as under ``manage.py up``), and
pages that behave as static/js/src/live.js does: they watch their rows, dial again with the same
jitter, and believe nobody but the server. Says what sockets cost, how soon a change is told, and
that after a restart, by SIGTERM and by SIGKILL, every page is back and knows the newest versions.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks._shared import print_json, print_table, server_facts
from benchmarks.stage import cpu_seconds_of, end, memory_mib, own_database

TENANTS = 50
ROWS = 30  # instances of each tenant, all on every page
FIRST, LONGEST, SHORTEST = 5.0, 30.0, 0.2  # s; static/js/src/live_parts.js
BACK_WITHIN = 60.0  # s after the server answers again

COPY = """
    INSERT INTO rental_instance
    SELECT (jsonb_populate_record(one, to_jsonb(one) || jsonb_build_object(
               'id', gen_random_uuid(), 'slug', left(gen_random_uuid()::text, 36),
               'name', 'bench', 'version', 1))).*
      FROM rental_instance one, generate_series(1, %s) WHERE one.id = %s"""


def make_world() -> list[tuple[str, str, list[str]]]:
    """Return for each tenant its slug, the session of its owner, and its instances' public ids."""
    from django.db import connection

    from rental.instances.models import Instance
    from rental.records.ids import to_text
    from tests.factories.rental import make_image, make_offer, make_rich_tenant, order
    from tests.factories.tenants import owner_of

    make_offer()
    make_image()
    world = []
    for _ in range(TENANTS):
        tenant = make_rich_tenant()
        (first,) = order(tenant)
        with connection.cursor() as cursor:
            cursor.execute(COPY, [ROWS - 1, first.pk])
        session = sign_in(owner_of(tenant))
        ids = Instance.objects.of(tenant.id).values_list("pk", flat=True)
        world.append((tenant.slug, session, [to_text("ins", pk) for pk in ids]))
    connection.close()
    return world


def sign_in(user: Any) -> str:
    """Return the session's cookie of somebody who has signed in."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return str(session.session_key)


class Page:
    """What live.js does, without a page: ``known`` are the versions that it was told."""

    def __init__(self, address: str, slug: str, session: str, ids: list[str]) -> None:
        self.address, self.slug, self.session, self.ids = address, slug, session, ids
        self.known: dict[str, int] = {}
        self.heard_at: dict[str, float] = {}
        self.is_open = False
        self.opened_at = 0.0
        self.dials = 0
        self.codes: Counter[int] = Counter()

    async def live(self) -> None:
        import websockets

        bound = FIRST
        while True:
            self.dials += 1
            with contextlib.suppress(OSError, websockets.WebSocketException, TimeoutError):
                async with (
                    websockets.connect(
                        f"ws://{self.address}/ws/t/{self.slug}",
                        origin=f"http://{self.address}",  # type: ignore[arg-type]
                        additional_headers={"Cookie": f"sessionid={self.session}"},
                        compression="deflate",
                        ping_interval=None,
                        open_timeout=60,
                    ) as dialled,
                    self._noting_the_end(dialled),
                ):
                    await dialled.send(json.dumps({"k": "watch", "ids": self.ids}))
                    async for text in dialled:
                        message = json.loads(text)
                        if not self.is_open:
                            bound, self.is_open, self.opened_at = FIRST, True, time.monotonic()
                        if message["k"] == "rows":
                            self.known |= message["v"]
                            self.heard_at |= dict.fromkeys(message["v"], time.monotonic())
            self.is_open = False
            await asyncio.sleep(random.uniform(SHORTEST, bound))
            bound = min(LONGEST, bound * 2)

    @contextlib.asynccontextmanager
    async def _noting_the_end(self, dialled: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.codes[int(dialled.close_code or 0)] += 1


class Web:
    """The web process (or several), begun again behind one listening socket."""

    def __init__(self, log: Path, count: int = 1) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.log = log
        self.count = count
        self.processes: list[subprocess.Popen[bytes]] = []

    async def start(self) -> float:
        """Start it; return the seconds until it answered."""
        began = time.monotonic()
        fd = self.socket.fileno()
        with self.log.open("ab") as output:
            self.processes = [
                subprocess.Popen(
                    [sys.executable, "-m", "config.serve", "web", "--fd", str(fd)],
                    env={**os.environ, "DATABASE_POOL": "1"},
                    pass_fds=(fd,),
                    stdout=output,
                    stderr=output,
                )
                for _ in range(self.count)
            ]
        await self._answers()
        return time.monotonic() - began

    async def _answers(self) -> None:
        host, port = self.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        await asyncio.wait_for(reader.read(20), 60)
        writer.close()

    @property
    def pid(self) -> int:
        return self.processes[0].pid

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    async def end(self, how: signal.Signals) -> None:
        for process in self.processes:
            process.send_signal(how)
        for process in self.processes:
            await asyncio.to_thread(process.wait, 30)


def change_everything() -> dict[str, int]:
    """Give every instance a new version; return them by public id."""
    from django.db import connection

    from rental.instances.models import Instance
    from rental.records.ids import to_text

    Instance.objects.update(name=uuid.uuid4().hex)
    found = {to_text("ins", pk): v for pk, v in Instance.objects.values_list("pk", "version")}
    connection.close()
    return found


async def until(condition: Any, patience: float, what: str) -> float:
    """Wait; return how long it took. Ends the benchmark if it never comes true."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > patience:
            raise SystemExit(f"not within {patience} s: {what}")
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def knows(page: Page, newest: dict[str, int]) -> bool:
    return page.is_open and all(page.known.get(one) == newest[one] for one in page.ids)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


async def measure(pages: list[Page], web: Web, seconds: float) -> dict[str, Any]:
    figures: dict[str, Any] = {"start_s": round(await web.start(), 2)}
    await asyncio.sleep(2)
    before = memory_mib(web.pid)

    tasks = [asyncio.create_task(page.live()) for page in pages]
    figures["all_open_s"] = round(await until(lambda: all(p.is_open for p in pages), 60, "open"), 2)
    newest = await asyncio.to_thread(change_everything)
    await until(lambda: all(knows(page, newest) for page in pages), 30, "first versions")
    await asyncio.sleep(5)
    after = memory_mib(web.pid)
    figures["rss_mib_empty"] = round(before["rss"], 1)
    figures["rss_mib_open"] = round(after["rss"], 1)
    figures["kib_a_socket"] = round(1024 * (after["own"] - before["own"]) / len(pages), 1)

    cpu, began = cpu_seconds_of(web.pid), time.monotonic()
    await asyncio.sleep(seconds)
    used = cpu_seconds_of(web.pid) - cpu
    figures["idle_cpu_percent"] = round(100 * used / (time.monotonic() - began), 1)

    figures |= await measure_news(pages, web)
    for how in (signal.SIGTERM, signal.SIGKILL):
        figures[f"restart_{how.name.lower()}"] = await measure_restart(pages, web, how)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return figures


async def measure_news(pages: list[Page], web: Web) -> dict[str, Any]:
    """Change one row of each tenant after the other: how long until all its pages were told."""
    from rental.instances.models import Instance
    from rental.records.ids import from_text

    def change(public_id: str) -> float:
        Instance.objects.filter(pk=from_text("ins", public_id)).update(name=uuid.uuid4().hex)
        return time.monotonic()

    by_tenant: dict[str, list[Page]] = {}
    for page in pages:
        by_tenant.setdefault(page.slug, []).append(page)
    cpu, began, late = cpu_seconds_of(web.pid), time.monotonic(), []
    for group in by_tenant.values():
        row = group[0].ids[0]
        asked = time.monotonic()
        changed = await asyncio.to_thread(change, row)
        await until(lambda: all(p.heard_at.get(row, 0) > asked for p in group), 10, "news")  # noqa: B023
        late += [1000 * (page.heard_at[row] - changed) for page in group]
    return {
        "news_ms_p50": round(percentile(late, 0.5), 1),
        "news_ms_p99": round(percentile(late, 0.99), 1),
        "news_cpu_percent": round(
            100 * (cpu_seconds_of(web.pid) - cpu) / (time.monotonic() - began), 1
        ),
    }


async def measure_restart(pages: list[Page], web: Web, how: signal.Signals) -> dict[str, Any]:
    """End the process, change every row while it is away, start it, and wait for every page."""
    dials = sum(page.dials for page in pages)
    for page in pages:
        page.codes.clear()
    ended = time.monotonic()
    await web.end(how)
    newest = await asyncio.to_thread(change_everything)
    started = await web.start()
    answers = time.monotonic()
    try:
        await until(lambda: all(knows(page, newest) for page in pages), BACK_WITHIN, "all back")
    except SystemExit as late:
        here = sum(page.is_open for page in pages)
        known = sum(knows(page, newest) for page in pages)
        raise SystemExit(f"{late}; {how.name}: {here} open, {known} know the newest") from late
    back = [page.opened_at - answers for page in pages]
    per_second = Counter(int(page.opened_at) for page in pages)
    lost = sum(not knows(page, newest) for page in pages)
    return {
        "away_s": round(answers - ended, 2),
        "start_s": round(started, 2),
        "half_back_s": round(percentile(back, 0.5), 2),
        "all_back_s": round(time.monotonic() - answers, 2),
        "most_in_a_second": max(per_second.values()),
        "dials": sum(page.dials for page in pages) - dials,
        "pages_that_missed_something": lost,
        "cpu_s": round(cpu_seconds_of(web.pid), 2),
        "close_codes": dict(sum((page.codes for page in pages), Counter())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sockets", description=__doc__)
    parser.add_argument("--sockets", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0, help="of watching idle sockets")
    chosen = parser.parse_args()

    with own_database("sockets"), tempfile.TemporaryDirectory() as folder:
        world = make_world()
        web = Web(Path(folder) / "web.log")
        pages = [Page(web.address, *world[number % len(world)]) for number in range(chosen.sockets)]
        try:
            figures = asyncio.run(measure(pages, web, chosen.seconds))
        except BaseException:
            sys.stderr.write((Path(folder) / "web.log").read_text()[-4000:])
            raise
        finally:
            if web.process is not None:
                end(web.process)
        rows = [(name, value) for name, value in figures.items()]
        print_table(f"{chosen.sockets} sockets, {TENANTS} tenants, {ROWS} rows a page", rows)
        print_json({"benchmark": "sockets", "sockets": chosen.sockets, **figures, **server_facts()})


if __name__ == "__main__":
    main()
