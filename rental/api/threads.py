"""The ASGI handler of the web process: Django's, with threads that live longer than a request."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, Semaphore
from typing import Any, Final

from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections

# Threads that compute at once: no more than there are connections, or they would wait for one until
# they fail. Slow callers are no work: bodies are read and answers are sent outside of a turn.
MOST_AT_WORK: Final = settings.WEB_CONNECTIONS
MOST_IDLE: Final = MOST_AT_WORK  # that wait for the next request; more are ended when they are free
# Two threads that compute hinder each other: after each of a page's 20 queries one waits for the
# other's interpreter lock (p95 of a busy room with 12 at once 521 ms, with one 244). So one goes
# alone, but whoever has held the floor for this long may wait for a lock or another's answer.
PATIENCE: Final = 1.0  # s


class Turns:
    """Lets one thread compute at a time, a few when the one is slow, and never more than those."""

    def __init__(self) -> None:
        self._places = Semaphore(MOST_AT_WORK)
        self._floor = Lock()

    def run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._places:
            is_alone = self._floor.acquire(timeout=PATIENCE)
            try:
                return call(*args, **kwargs)
            finally:
                close_old_connections()  # back to the pool before the answer is sent
                if is_alone:
                    self._floor.release()


class OneThread(ThreadPoolExecutor):
    """One thread that waits for its turn, and knows whether it is still at work."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(max_workers=1, thread_name_prefix="web")
        self._turns = turns
        self._last: Future[Any] | None = None

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._last = super().submit(self._turns.run, call, *args, **kwargs)
        return self._last

    @property
    def is_free(self) -> bool:
        return self._last is None or self._last.done()


class KeptThreads(ASGIHandler):
    """
    Django makes a thread for each request, and in it all that a connection needs, and throws both
    away: a fifth of the time of a list (measured). Here a request takes a thread that an earlier
    one left.

    Nothing of a request stays: its connection goes back to the pool when it has ended, and a
    thread serves one request at a time, as Django's own does. A thread whose caller went away in
    the middle of its work is not used again: the next request would wait for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[OneThread] = []
        self._turns = Turns()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"this application speaks HTTP, not {scope['type']}")
        thread = self._idle.pop() if self._idle else OneThread(self._turns)
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)
        finally:
            if thread.is_free and len(self._idle) < MOST_IDLE:
                self._idle.append(thread)
            else:
                thread.shutdown(wait=False)
