"""The hub: what all sockets of one web process share. It lives in their event loop."""

import asyncio
import uuid
import weakref
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field

import structlog

from rental.instances.samples.points import Point
from rental.realtime.asking import Asker, DatabaseAway, Row
from rental.realtime.backoff import Backoff
from rental.realtime.feeds import follow_rows, follow_samples
from rental.realtime.outbox import CloseCode, Outbox, What
from rental.realtime.standing import Standing, Visitor

CHECK_EVERY = 3.0  # s between two looks at who may still be here
BEAT_EVERY = 20.0  # s; a page that hears nothing for longer than two of them dials again
GATHER = 0.05  # s that a question for versions waits for others
CANCEL_AGAIN = 0.5  # s
LINGER = 30.0  # s that the hub goes on without a socket: a click closes one and opens the next
MOST_A_USER = 30
MOST_HERE = 2_000

log = structlog.get_logger()


class Refused(Exception):
    """This visitor gets no socket."""

    def __init__(self, code: CloseCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(eq=False)
class Socket:
    """One open page. ``rows``: what it shows; ``charts``: of which it draws samples."""

    visitor: Visitor
    standing: Standing
    tenant_id: uuid.UUID
    outbox: Outbox = field(default_factory=Outbox)
    rows: frozenset[uuid.UUID] = frozenset()
    charts: frozenset[uuid.UUID] = frozenset()


class Hub:
    """
    Tells sockets what changed, and ends those whose people may not be here any more.

    Nothing is asked once a socket: one LISTEN, one subscription, one question every three seconds.
    A socket joins before its versions are read, and versions are read again after each hole in the
    LISTEN, so that no change falls between.
    """

    def __init__(self) -> None:
        self.sockets: set[Socket] = set()
        self._by_tenant: defaultdict[uuid.UUID, set[Socket]] = defaultdict(set)
        self._by_chart: defaultdict[uuid.UUID, set[Socket]] = defaultdict(set)
        self._per_user: Counter[uuid.UUID] = Counter()
        self._is_up: dict[What, bool] = {"rows": False, "samples": False}
        self._asker = Asker()
        self._curious: set[Socket] = set()
        self._question = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._idle: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None

    # --- sockets come and go

    async def admit(self, visitor: Visitor) -> Socket:
        """
        Let a visitor in.

        :raises Refused: if he may not, or there are too many, or PostgreSQL cannot be asked
        """
        if len(self.sockets) >= MOST_HERE or self._per_user[visitor.user_id] >= MOST_A_USER:
            raise Refused(CloseCode.TOO_MANY)
        try:
            standing = (await self._asker.standings([visitor]))[visitor]
        except DatabaseAway as error:
            raise Refused(CloseCode.TRY_AGAIN) from error
        if objection := standing.objection():
            raise Refused(objection)
        assert standing.tenant_id is not None
        return self._join(Socket(visitor, standing, standing.tenant_id))

    def _join(self, socket: Socket) -> Socket:
        self._start()
        self.sockets.add(socket)
        self._by_tenant[socket.tenant_id].add(socket)
        self._per_user[socket.visitor.user_id] += 1
        for what, is_up in self._is_up.items():
            socket.outbox.put_delayed(what, not is_up)
        return socket

    def leave(self, socket: Socket) -> None:
        if socket not in self.sockets:
            return
        self.sockets.discard(socket)
        self._curious.discard(socket)
        self._forget_charts(socket)
        self._by_tenant[socket.tenant_id].discard(socket)
        if not self._by_tenant[socket.tenant_id]:
            del self._by_tenant[socket.tenant_id]
        self._per_user[socket.visitor.user_id] -= 1
        if not self._per_user[socket.visitor.user_id]:
            del self._per_user[socket.visitor.user_id]
        if not self.sockets:
            self._idle = asyncio.get_running_loop().call_later(LINGER, self._stop_if_idle)

    def watch(
        self, socket: Socket, rows: frozenset[uuid.UUID], charts: frozenset[uuid.UUID]
    ) -> None:
        """Say what a page shows. It is told the versions of all of it; what is foreign is not."""
        self._forget_charts(socket)
        socket.rows, socket.charts = rows | charts, charts
        if socket.rows:
            self._curious.add(socket)
            self._question.set()

    def _forget_charts(self, socket: Socket) -> None:
        for instance_id in socket.charts:
            watchers = self._by_chart.get(instance_id)
            if watchers is not None:
                watchers.discard(socket)
                if not watchers:
                    del self._by_chart[instance_id]

    # --- news

    def tell_row(self, tenant_id: uuid.UUID, instance_id: uuid.UUID, version: int) -> None:
        for socket in self._by_tenant.get(tenant_id, ()):
            socket.outbox.put_row(instance_id, version)

    def tell_points(self, points: Iterable[tuple[uuid.UUID, Point]]) -> None:
        for instance_id, point in points:
            for socket in self._by_chart.get(instance_id, ()):
                socket.outbox.put_point(instance_id, point)

    def tell_rows_state(self, is_up: bool) -> None:
        self._tell_state("rows", is_up)
        if is_up:  # whatever changed meanwhile was told to nobody
            self._curious |= self.sockets
            self._question.set()

    def tell_samples_state(self, is_up: bool) -> None:
        self._tell_state("samples", is_up)

    def _tell_state(self, what: What, is_up: bool) -> None:
        if self._is_up[what] == is_up:
            return
        self._is_up[what] = is_up
        for socket in self.sockets:
            socket.outbox.put_delayed(what, not is_up)

    # --- the hub's own work

    def _start(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._tasks:
            return
        work: dict[str, Callable[[], Awaitable[None]]] = {
            "rows": lambda: follow_rows(self.tell_row, self.tell_rows_state),
            "samples": lambda: follow_samples(self.tell_points, self.tell_samples_state),
            "versions": self._answer_questions,
            "standings": self._check_standings,
            "beat": self._beat,
        }
        self._tasks = [
            asyncio.create_task(_keep_going(name, do), name=f"live-{name}")
            for name, do in work.items()
        ]

    def _stop_if_idle(self) -> None:
        if not self.sockets:
            self._stopping = asyncio.create_task(self.stop())

    async def stop(self) -> None:
        """End the hub's work; the next socket starts it again, even while this still waits."""
        tasks, self._tasks = self._tasks, []
        asker, self._asker = self._asker, Asker()
        self._is_up = {"rows": False, "samples": False}
        await end_tasks(tasks)
        await asker.close()

    async def _answer_questions(self) -> None:
        """Read the versions of what curious sockets show, for all of them at once."""
        pause = Backoff(0.2, 5.0)
        while True:
            await self._question.wait()
            await asyncio.sleep(GATHER)
            self._question.clear()
            curious, self._curious = self._curious & self.sockets, set()
            rows: set[Row] = {(one.tenant_id, row) for one in curious for row in one.rows}
            try:
                versions = await self._asker.versions(rows)
            except DatabaseAway:
                self._curious |= curious
                self._question.set()
                await asyncio.sleep(pause.next())
                continue
            pause.reset()
            for socket in curious:
                self._answer(socket, versions)

    def _answer(self, socket: Socket, versions: dict[Row, int]) -> None:
        if socket not in self.sockets:
            return
        for row in socket.rows:
            version = versions.get((socket.tenant_id, row))
            if version is not None:
                socket.outbox.put_row(row, version)
        for chart in socket.charts:
            if (socket.tenant_id, chart) in versions:  # else it is nobody's, or a stranger's
                self._by_chart[chart].add(socket)

    async def _check_standings(self) -> None:
        """
        Close the sockets of people who signed out, were removed, locked, or changed in role.

        While PostgreSQL is away nobody can be asked after; the first answer closes what it must.
        """
        while True:
            await asyncio.sleep(CHECK_EVERY)
            present = list(self.sockets)
            if not present:
                continue
            try:
                standings = await self._asker.standings([one.visitor for one in present])
            except DatabaseAway as error:
                log.warning("live.standings_unknown", error=str(error))
                continue
            for socket in present:
                if objection := standings[socket.visitor].objection_since(socket.standing):
                    socket.outbox.close(objection)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY)
            for socket in self.sockets:
                socket.outbox.put_beat()


async def _keep_going(name: str, do: Callable[[], Awaitable[None]]) -> None:
    """The edge of the hub's loops: whatever goes wrong in one, it begins again."""
    while True:
        try:
            await do()
        except Exception:
            log.exception("live.loop_failed", loop=name)
        await asyncio.sleep(1.0)


async def end_tasks(tasks: Collection[asyncio.Task[None]]) -> None:
    """
    Cancel until all of them have ended. Once is not enough: Python 3.11's ``wait_for``, in which
    psycopg waits, forgets a cancellation that comes together with what it waited for.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _ended, left = await asyncio.wait(left, timeout=CANCEL_AGAIN)


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = weakref.WeakKeyDictionary()


def hub_here() -> Hub:
    """Return the hub of the running event loop; a web process has one."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
