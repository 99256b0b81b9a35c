"""
Sees what runs: asks the runtime with a deadline. A call that hangs makes its container "unknown"
and nothing else; it is not asked twice, the same call is waited for again.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.clock import Instant
from agents.drivers.base import Container, DriverError, Labels, NoSuchContainer, Runtime
from agents.reconcile import Sight

log = logging.getLogger("agents.lookout")


class Lookout:
    """
    ``sights`` by container id, as of the last look. ``is_blind``: the runtime did not even list its
    containers, so none may be taken for missing.
    """

    def __init__(self, runtime: Runtime, *, deadline_s: float) -> None:
        self._runtime = runtime
        self._deadline_s = deadline_s
        self._asked: dict[str, asyncio.Task[Container]] = {}
        self.containers: dict[str, Container] = {}
        self.sights: dict[str, Sight] = {}
        self.is_blind = True

    async def look(
        self, *, now: Instant, ending: dict[str, int], starting: Iterable[Labels]
    ) -> None:
        """
        :param ending: since when (BOOTTIME ms) containers have been asked to end
        :param starting: what is being started and may not be listed yet
        """
        names = await self._list()
        if names is None:
            self.is_blind = True
            self.sights = {n: replace(s, state="unknown") for n, s in self.sights.items()}
            return
        self.is_blind = False
        await self._inspect(names)
        sights = {n: self._sight(n, now, ending) for n in names if n in self.containers}
        for labels in starting:
            sights.setdefault(labels.container, _seen(labels, "unknown"))
        self.sights = sights
        self.containers = {n: c for n, c in self.containers.items() if n in sights}

    def close(self) -> None:
        for task in self._asked.values():
            task.cancel()

    async def _list(self) -> Sequence[str] | None:
        try:
            return await asyncio.wait_for(self._runtime.list_containers(), self._deadline_s)
        except (DriverError, asyncio.TimeoutError) as error:
            log.warning("runtime.unreadable", extra={"error": repr(error)})
            return None

    async def _inspect(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._asked:
                self._asked[name] = asyncio.ensure_future(self._runtime.inspect(name))
        if not self._asked:
            return
        done, _ = await asyncio.wait(self._asked.values(), timeout=self._deadline_s)
        for name, task in list(self._asked.items()):
            if task not in done:
                continue
            del self._asked[name]
            try:
                self.containers[name] = task.result()
            except NoSuchContainer:
                self.containers.pop(name, None)
            except DriverError as error:
                log.warning("container.unreadable", extra={"id": name, "error": str(error)})

    def _sight(self, name: str, now: Instant, ending: dict[str, int]) -> Sight:
        container = self.containers[name]
        sight = _seen(container.labels, "unknown" if name in self._asked else container.state)
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
