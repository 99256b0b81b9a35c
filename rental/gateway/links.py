"""Open connections of agents: what waits to be sent on each, and which speaks for a node."""

import asyncio
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import msgspec

from agents import protocol
from rental.gateway import metrics
from rental.gateway.transit import Transit

# An agent that lets this many messages pile up has stopped reading.
OUTBOX_LIMIT = 2_000

_encoder = msgspec.json.Encoder()


class CloseCode(IntEnum):
    """Why the gateway ends a connection. The agent dials again after each, with back-off."""

    TOO_BIG = 1009
    RESTART = 1012
    TRY_AGAIN = 1013
    NOT_UNDERSTOOD = 4400
    REVOKED = 4403
    REPLACED = 4409
    VERSION = 4426


@dataclass(frozen=True, slots=True)
class Goodbye:
    code: CloseCode
    reason: str


@dataclass(frozen=True, slots=True)
class Identity:
    """
    An agent and its nodes: what frames call each, and its id. ``digest`` is the agent's proof
    when it came in: another one in the row means that this credential has ended.
    """

    agent_id: uuid.UUID
    digest: bytes
    nodes: Mapping[str, uuid.UUID]
    control_epoch: int


@dataclass(eq=False)
class Link:
    """
    One connection of one agent. ``credential`` is what the door calls it by, no secret.

    ``send`` and ``close`` may be called from any thread; what is sent keeps its order.
    """

    identity: Identity
    credential: str
    loop: asyncio.AbstractEventLoop
    outbox: asyncio.Queue[str | Goodbye] = field(default_factory=asyncio.Queue)
    # (control_epoch, node_version) of the last desired set sent for each node.
    sent: dict[uuid.UUID, tuple[int, int]] = field(default_factory=dict)
    is_closing: bool = False
    transit: Transit = field(default_factory=Transit)

    def send(self, message: protocol.Down) -> None:
        self._put(_encoder.encode(message).decode())

    def close(self, code: CloseCode, reason: str) -> None:
        self._put(Goodbye(code, reason))

    def _put(self, item: str | Goodbye) -> None:
        try:
            self.loop.call_soon_threadsafe(self._put_now, item)
        except RuntimeError:
            # The loop has ended: the process is going down, and the agent will hear 1012.
            self.is_closing = True

    def _put_now(self, item: str | Goodbye) -> None:
        if self.is_closing:
            return
        if self.outbox.qsize() >= OUTBOX_LIMIT:
            item = Goodbye(CloseCode.TRY_AGAIN, "messages pile up unread")
        self.is_closing = isinstance(item, Goodbye)
        self.outbox.put_nowait(item)


class Links:
    """Which link speaks for which node: the newest that said hello for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_node: dict[uuid.UUID, Link] = {}
        self._open: set[Link] = set()

    def open(self, link: Link) -> None:
        with self._lock:
            self._open.add(link)
            metrics.LINKS.set(len(self._open))

    def join(self, node_id: uuid.UUID, link: Link) -> Link | None:
        """Let ``link`` speak for the node; return the link that did until now, if another."""
        with self._lock:
            before = self._by_node.get(node_id)
            self._by_node[node_id] = link
            metrics.NODES.set(len(self._by_node))
        return before if before is not link else None

    def leave(self, link: Link) -> None:
        with self._lock:
            self._open.discard(link)
            for node_id in [n for n, owner in self._by_node.items() if owner is link]:
                del self._by_node[node_id]
            metrics.LINKS.set(len(self._open))
            metrics.NODES.set(len(self._by_node))

    def speaks_for(self, link: Link, node_id: uuid.UUID) -> bool:
        return self._by_node.get(node_id) is link

    def by_node(self) -> dict[uuid.UUID, Link]:
        """Return a copy, so that a thread may walk it."""
        with self._lock:
            return dict(self._by_node)

    def all_open(self) -> list[Link]:
        with self._lock:
            return list(self._open)
