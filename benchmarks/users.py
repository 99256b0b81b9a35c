"""
People who use the console: they open a page, read it, think, and open the next one.

Each has a browser's habits: one kept connection for pages, one WebSocket a page (of
benchmarks.sockets), and what a page asks for by itself. Knows no Django, so that a process of its
own can be them: see benchmarks.console.
"""

import asyncio
import contextlib
import random
import re
import time
from dataclasses import dataclass, field
from urllib.parse import urlencode

from benchmarks.sockets import Page as LivePage

THINKS = 20.0  # s from one page to the next, on average; half to one and a half of it
PATIENCE = 20.0  # s; htmx gives up then, and so does the person
TYPES = 1.0  # s between two changes of the launch form

# Kind of page: how many of a hundred are of it, and its address below the tenant's.
KINDS = {
    "overview": (18, ""),
    "list": (22, "instances"),
    "detail: connect": (9, "instances/{id}"),
    "detail: charts": (8, "instances/{id}?tab=charts"),
    "detail: cost": (6, "instances/{id}?tab=cost"),
    "detail: events": (4, "instances/{id}?tab=events"),
    "detail: settings": (3, "instances/{id}?tab=settings"),
    "launch": (10, "launch"),
    "billing": (4, "billing"),
    "billing: transfers": (3, "billing/transfers"),
    "billing: charges": (3, "billing/charges"),
    "keys: SSH": (3, "keys"),
    "keys: API": (2, "keys/api"),
    "prices": (5, "/prices"),
}
TOKEN = re.compile(r'"X-CSRFToken": "(\w+)"')


@dataclass(frozen=True)
class Person:
    """``session``: the cookie's value. ``ids``: public ids of the tenant's instances."""

    slug: str
    session: str
    ids: tuple[str, ...]
    offer: str
    image: str


@dataclass(frozen=True)
class Sample:
    """
    One answer. ``kind``: of page, or what a page asked for. ``ms``: from the request's first byte
    (dialling included) to the answer's last. ``status``: 0 if there was none.
    """

    kind: str
    is_page: bool
    at: float
    ms: float
    status: int
    size: int


def address_of(kind: str, person: Person, instance_id: str) -> str:
    path = KINDS[kind][1]
    return path if path.startswith("/") else f"/t/{person.slug}/{path.format(id=instance_id)}"


@dataclass
class Browser:
    """HTTP of one person: a connection that is kept, and his cookies."""

    host: str
    port: int
    cookies: dict[str, str]
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, form: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return status and body. A kept connection that has ended meanwhile is dialled anew."""
        is_new = self.streams is None or self.streams[0].at_eof()
        try:
            return await self._ask(method, path, form, dial=is_new)
        except (asyncio.IncompleteReadError, ConnectionError):
            if is_new:
                raise
            return await self._ask(method, path, form, dial=True)

    async def _ask(
        self, method: str, path: str, form: dict[str, str] | None, *, dial: bool
    ) -> tuple[int, bytes]:
        if dial:
            self.close()
            self.streams = await asyncio.open_connection(self.host, self.port)
        assert self.streams is not None
        reader, writer = self.streams
        writer.write(self._request(method, path, form))
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        length = 0
        for line in head[1:]:
            name, _, value = line.partition(": ")
            if name.lower() == "content-length":
                length = int(value)
            elif name.lower() == "set-cookie":
                name, _, value = value.partition(";")[0].partition("=")
                self.cookies[name] = value
        return int(head[0].split()[1]), await reader.readexactly(length)

    def _request(self, method: str, path: str, form: dict[str, str] | None) -> bytes:
        body = b"" if form is None else urlencode(form).encode()
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            f"Cookie: {cookies}",
            "Accept: text/html",
            "Accept-Encoding: gzip, deflate, br, zstd",
        ]
        if form is not None:
            lines += [
                "HX-Request: true",
                f"X-CSRFToken: {form['csrfmiddlewaretoken']}",
                "Content-Type: application/x-www-form-urlencoded",
                f"Content-Length: {len(body)}",
            ]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


@dataclass
class User:
    """A person at work. ``samples``: what he waited for. ``dials``: of his WebSockets."""

    person: Person
    address: str
    chance: random.Random
    thinks: float
    samples: list[Sample] = field(default_factory=list)
    sockets: list[LivePage] = field(default_factory=list)

    def __post_init__(self) -> None:
        host, port = self.address.split(":")
        self.browser = Browser(host, int(port), {"sessionid": self.person.session})

    async def work(self, until: float) -> None:
        await asyncio.sleep(self.chance.uniform(0, self.thinks))  # nobody begins with the others
        kinds, weights = list(KINDS), [weight for weight, _path in KINDS.values()]
        live: asyncio.Task[None] | None = None
        try:
            while (began := time.monotonic()) < until:
                kind = self.chance.choices(kinds, weights)[0]
                instance_id = self.chance.choice(self.person.ids)
                if live is not None:  # as a browser does when a page is left
                    live.cancel()
                body = await self._timed(kind, "GET", address_of(kind, self.person, instance_id))
                live = None if kind == "prices" else self._listen(kind, instance_id)
                await self._follow_up(kind, instance_id, body)
                next_at = began + self.thinks * self.chance.uniform(0.5, 1.5)
                await asyncio.sleep(max(0.0, next_at - time.monotonic()))
        finally:
            if live is not None:
                live.cancel()
            self.browser.close()

    def _listen(self, kind: str, instance_id: str) -> asyncio.Task[None]:
        shown = {"list": list(self.person.ids)}.get(kind, [])
        shown = [instance_id] if kind.startswith("detail") else shown
        page = LivePage(self.address, self.person.slug, self.person.session, shown)
        self.sockets.append(page)
        return asyncio.create_task(page.live())

    async def _follow_up(self, kind: str, instance_id: str, body: str) -> None:
        """What the scripts of a page ask for while somebody looks at it."""
        home = f"/t/{self.person.slug}/"
        if kind == "detail: charts":
            await self._timed("samples", "GET", f"{home}instances/{instance_id}/samples?minutes=60")
        if kind == "launch" and (token := TOKEN.search(body)):
            form = {"csrfmiddlewaretoken": token[1], "offer": self.person.offer}
            form |= {"image": self.person.image, "stop": "never"}
            for count in range(1, self.chance.randint(2, 4)):
                await asyncio.sleep(TYPES)
                fields = form | {"count": str(count)}
                await self._timed("estimate", "POST", f"{home}launch/estimate", fields)

    async def _timed(
        self, kind: str, method: str, path: str, form: dict[str, str] | None = None
    ) -> str:
        began, status, body = time.monotonic(), 0, b""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                status, body = await self.browser.ask(method, path, form)
        if status == 0:
            self.browser.close()
        ms = 1000 * (time.monotonic() - began)
        self.samples.append(Sample(kind, kind in KINDS, began, ms, status, len(body)))
        return body.decode()


@dataclass(frozen=True)
class Work:
    """What they did between two moments. ``cpu``: of the process that was all of them, cores."""

    samples: list[Sample]
    dials: int
    were_open: int
    close_codes: dict[int, int]
    cpu: float


def use_console(
    people: list[Person], address: str, begin: float, until: float, thinks: float
) -> Work:
    """Be these people until a moment of the monotonic clock; tell of what began after ``begin``."""
    return asyncio.run(_use_console(people, address, begin, until, thinks))


async def _use_console(
    people: list[Person], address: str, begin: float, until: float, thinks: float
) -> Work:
    users = [User(one, address, random.Random(n), thinks) for n, one in enumerate(people)]
    tasks = [asyncio.create_task(user.work(until)) for user in users]
    await asyncio.sleep(begin - time.monotonic())
    cpu = time.process_time()
    await asyncio.sleep(until - time.monotonic() - 0.5)
    were_open = sum(any(page.is_open for page in user.sockets[-1:]) for user in users)
    await asyncio.sleep(until - time.monotonic())
    cpu = (time.process_time() - cpu) / (until - begin)
    await asyncio.gather(*tasks)
    sockets = [page for user in users for page in user.sockets]
    codes: dict[int, int] = {}
    for page in sockets:
        for code, count in page.codes.items():
            codes[code] = codes.get(code, 0) + count
    return Work(
        samples=[one for user in users for one in user.samples if begin <= one.at < until],
        dials=sum(page.dials for page in sockets),
        were_open=were_open,
        close_codes=codes,
        cpu=cpu,
    )
