"""
The agent's life: a loop for each node, which never waits for the network, and one that keeps a
link to the gateway and speaks for all of them. Losing the link touches no instance.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from agents.clock import Clock
from agents.node import Node
from agents.protocol import Down
from agents.report import Beat, Reporter
from agents.spool import SpoolError

log = logging.getLogger("agents.loop")

BACKOFF_FIRST_S = 0.5
BACKOFF_MOST_S = 10.0


class LinkLost(Exception):
    """The connection could not be made or is no more. In words."""


class Link(Protocol):
    """One connection. Every method raises LinkLost when it is over."""

    async def send(self, frame: bytes) -> None: ...

    async def receive(self) -> str | bytes: ...

    async def close(self) -> None: ...


Connect = Callable[[], Awaitable[Link]]


class Agent:
    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        connect: Connect,
        clock: Clock,
        ids: dict[str, str] | None = None,
        beat: Beat | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """:param ids: node ids by name, as enrolment gave them: what frames call the nodes"""
        self._nodes = nodes
        self._connect = connect
        self._clock = clock
        self._rng = rng or random.Random()
        known = ids or {}
        reporters = [
            Reporter(n, clock=clock, node_id=known.get(n.name, ""), beat=beat, rng=self._rng)
            for n in nodes
        ]
        self._reporters = {reporter.node_id: reporter for reporter in reporters}
        self._decoder = msgspec.json.Decoder(Down)
        self._say = asyncio.Event()
        for node in nodes:
            node.changed = self._say

    async def run(self) -> None:
        """Go on until cancelled; what runs on the nodes goes on afterwards."""
        tasks = [asyncio.ensure_future(self._live(node)) for node in self._nodes]
        tasks.append(asyncio.ensure_future(self._stay_linked()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for node in self._nodes:
                await node.close()

    async def _live(self, node: Node) -> None:
        while True:
            try:
                await node.step()
            except Exception:
                # The edge of a pass: whatever it was, the node's instances run on and are seen
                # again in a second.
                log.exception("pass.failed", extra={"node": node.name})
            await self._clock.wait(node.wake, node.pause_s())

    # --- the link

    async def _stay_linked(self) -> None:
        failures = 0
        while True:
            try:
                link = await self._connect()
            except LinkLost as error:
                log.warning("link.refused", extra={"why": str(error)})
            else:
                log.info("link.up")
                if await self._talk(link):
                    failures = 0
            # Full jitter: a gateway that comes back is not met by everybody at once.
            most = min(BACKOFF_MOST_S, BACKOFF_FIRST_S * 2**failures)
            failures = min(failures + 1, 10)
            await self._clock.wait(asyncio.Event(), self._rng.uniform(0, most))

    async def _talk(self, link: Link) -> bool:
        """Speak until the link is lost; return whether the server ever welcomed us on it."""
        for reporter in self._reporters.values():
            reporter.link_up()
        ears = asyncio.ensure_future(self._listen(link))
        mouth = asyncio.ensure_future(self._speak(link))
        try:
            done, _ = await asyncio.wait({ears, mouth}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is not None and not isinstance(error, LinkLost):
                    log.error("link.broke", exc_info=error)
                else:
                    log.warning("link.lost", extra={"why": str(error or "")})
            return any(reporter.is_welcome for reporter in self._reporters.values())
        finally:
            for task in (ears, mouth):
                task.cancel()
            await asyncio.gather(ears, mouth, return_exceptions=True)
            for reporter in self._reporters.values():
                reporter.link_down()
            with contextlib.suppress(LinkLost):
                await link.close()

    async def _listen(self, link: Link) -> None:
        while True:
            frame = await link.receive()
            try:
                message = self._decoder.decode(frame)
            except msgspec.DecodeError as error:
                log.warning("frame.not_understood", extra={"why": str(error)})
                continue
            reporter = self._reporters.get(message.node)
            if reporter is None:
                log.warning("frame.misdirected", extra={"names": message.node})
                continue
            try:
                reporter.receive(message)
            except SpoolError as error:
                log.error("answer.not_kept", extra={"why": str(error)})

    async def _speak(self, link: Link) -> None:
        reporters = list(self._reporters.values())
        while True:
            for reporter in reporters:
                for message in reporter.due():
                    await link.send(msgspec.json.encode(message))
                if reporter.is_deaf:
                    raise LinkLost("pulses are not answered")
            await self._clock.wait(self._say, min(r.next_s() for r in reporters))
