"""
Sees what runs: asks the runtime with a deadline. A call that hangs makes its container "unknown"
and nothing else; the same call is waited for again, and after half a minute given up and made anew.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from agents.clock import Instant
from agents.drivers.base import Container, DriverError, Labels, NoSuchContainer, Runtime
from agents.reconcile import Sight

log = logging.getLogger("agents.lookout")

# A runtime that came back may never answer what it was asked before.
ASK_AGAIN_MS = 30_000


class Lookout:
    """
    ``sights`` by container id, as of the last look. ``is_blind``: the runtime did not even list its
    containers, so none may be taken for missing.
    """

    def __init__(self, runtime: Runtime, *, deadline_s: float) -> None:
        self._runtime = runtime
        self._deadline_s = deadline_s
        self._asked: dict[str, asyncio.Task[Container]] = {}
        self._asked_ms: dict[str, int] = {}
        self.containers: dict[str, Container] = {}
        self.sights: dict[str, Sight] = {}
        self.is_blind = True

    async def look(
        self,
        *,
        now: Instant,
        ending: dict[str, int],
        starting: Iterable[Labels],
        remember: Callable[[str], Labels],
    ) -> None:
        """
        :param ending: since when (BOOTTIME ms) containers have been asked to end
        :param starting: what is being started and may not be listed yet
        :param remember: what is known of a container that is listed and was never read
        """
        names = await self._list()
        if names is None:
            self.is_blind = True
            self.sights = {n: replace(s, state="unknown") for n, s in self.sights.items()}
            return
        self.is_blind = False
        gone, unread = await self._inspect(names, now)
        begun = {labels.container: labels for labels in starting}
        sights = {
            name: self._sight(name, now, ending, is_read=name not in unread)
            if name in self.containers
            else _seen(begun.get(name) or remember(name), "unknown")
            for name in names
            if name not in gone
        }
        for name, labels in begun.items():
            sights.setdefault(name, _seen(labels, "unknown"))
        self.sights = sights
        self.containers = {n: c for n, c in self.containers.items() if n in sights}

    def close(self) -> None:
        for task in self._asked.values():
            task.cancel()

    async def _list(self) -> Sequence[str] | None:
        try:
            return await asyncio.wait_for(self._runtime.list_containers(), self._deadline_s)
        except (DriverError, OSError, asyncio.TimeoutError) as error:
            log.warning("runtime.unreadable", extra={"error": repr(error)})
            return None

    async def _inspect(self, names: Sequence[str], now: Instant) -> tuple[set[str], set[str]]:
        """Return what was removed since it was listed, and what could not be read this time."""
        for name, task in list(self._asked.items()):
            if now.boot_ms - self._asked_ms[name] >= ASK_AGAIN_MS:
                task.cancel()
                del self._asked[name], self._asked_ms[name]
        for name in names:
            if name not in self._asked:
                self._asked[name] = asyncio.ensure_future(self._runtime.inspect(name))
                self._asked_ms[name] = now.boot_ms
        gone: set[str] = set()
        failed: set[str] = set()
        if not self._asked:
            return gone, failed
        done, _ = await asyncio.wait(self._asked.values(), timeout=self._deadline_s)
        for name, task in list(self._asked.items()):
            if task not in done:
                continue
            del self._asked[name], self._asked_ms[name]
            try:
                self.containers[name] = task.result()
            except NoSuchContainer:
                gone.add(name)
                self.containers.pop(name, None)
            except (DriverError, OSError) as error:
                failed.add(name)
                log.warning("container.unreadable", extra={"id": name, "error": str(error)})
        return gone, failed | self._asked.keys()

    def _sight(self, name: str, now: Instant, ending: dict[str, int], *, is_read: bool) -> Sight:
        container = self.containers[name]
        sight = _seen(container.labels, container.state if is_read else "unknown")
        since = ending.get(name)
        return sight if since is None else replace(sight, ending_for_ms=now.boot_ms - since)


def _seen(labels: Labels, state: str) -> Sight:
    return Sight(
        container=labels.container,
        allocation=labels.allocation,
        instance=labels.instance,
        incarnation=labels.incarnation,
        run=labels.run,
        state=state,  # type: ignore[arg-type]
        spec_rev=labels.spec_rev,
        slices=labels.slices,
    )
