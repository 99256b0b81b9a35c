"""The agents' WebSocket: lets agents in, sorts their frames into the lanes, answers them."""

import asyncio
import contextlib
import uuid
from typing import Any

import msgspec
import structlog
from channels.consumer import AsyncConsumer, get_handler_name
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer

from agents import protocol
from rental.gateway import metrics
from rental.gateway.door import DoorStuck, digest_of
from rental.gateway.facts import Fact
from rental.gateway.links import CloseCode, Goodbye, Link
from rental.gateway.process import Gateway
from rental.gateway.samples import SampleFrame
from rental.gateway.transit import add_age
from rental.gateway.usage import Frame
from scheduler.services.liveness import Pulse

LONGEST_FRAME = 4 * 2**20  # characters; a replay of 500 runs with 100 stretches each is 3 million
STRIKES = 3  # refused frames in a row: whoever sends them does not speak our language

log = structlog.get_logger()
_decoder = msgspec.json.Decoder(protocol.Up)


class BadFrame(Exception):
    """A frame that changes nothing; the link stays."""

    def __init__(self, code: str, detail: str, *, node: str = "") -> None:
        super().__init__(detail)
        self.code, self.detail, self.node = code, detail, node


class AgentConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels is untyped
    """
    One connection of one agent, which may speak for several nodes.

    Nothing here waits for PostgreSQL except the door: frames go to the lanes, and pulses are
    answered from memory. ``scope["gateway"]`` is the process's gateway.
    """

    link: Link | None = None
    writer: asyncio.Task[None] | None = None
    strikes = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Whatever ends the connection, an error of ours too, the link leaves with it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self.link is not None:
                self.link.is_closing = True
                self.gateway.links.leave(self.link)
            if self.writer is not None:
                self.writer.cancel()

    async def websocket_disconnect(self, message: dict[str, Any]) -> None:
        raise StopConsumer

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Without Channels' hop to a thread for each frame: the ORM is never used on this loop."""
        await getattr(self, get_handler_name(message))(message)

    @property
    def gateway(self) -> Gateway:
        gateway: Gateway = self.scope["gateway"]
        return gateway

    async def connect(self) -> None:
        credential = _bearer(self.scope["headers"])
        try:
            identity = await self.gateway.door.authenticate(credential) if credential else None
        except DoorStuck:
            metrics.TURNED_AWAY.labels("database_away").inc()
            await self._answer_503()
            return
        if identity is None:
            metrics.TURNED_AWAY.labels("credential").inc()
            await self.close()  # before accept: the server answers 403
            return
        self.link = Link(
            identity=identity,
            credential=digest_of(credential),
            loop=asyncio.get_running_loop(),
        )
        await self.accept()
        self.gateway.links.open(self.link)
        self.writer = asyncio.create_task(self._write(self.link))

    async def _answer_503(self) -> None:
        """Tell an agent that it may be right: 403 would tell it that its credential is not."""
        start = {"type": "websocket.http.response.start", "status": 503}
        await AsyncConsumer.send(self, {**start, "headers": [(b"retry-after", b"2")]})
        await AsyncConsumer.send(self, {"type": "websocket.http.response.body", "body": b""})

    async def _write(self, link: Link) -> None:
        """Send what waits in the outbox. A slow agent holds up this task and no other."""
        # A send to a peer that has gone raises what the server likes; disconnect follows.
        with contextlib.suppress(Exception):
            while True:
                item = await link.outbox.get()
                if isinstance(item, Goodbye):
                    await self.close(code=int(item.code), reason=item.reason)
                    return
                await self.send(text_data=item)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        link = self.link
        if link is None or link.is_closing:
            return
        try:
            self._take(link, _decode(text_data))
        except BadFrame as refused:
            self._refuse(link, refused)
        else:
            self.strikes = 0

    def _refuse(self, link: Link, refused: BadFrame) -> None:
        metrics.REFUSED.labels(refused.code).inc()
        log.warning(
            "gateway.frame_refused",
            agent=str(link.identity.agent_id),
            code=refused.code,
            detail=refused.detail,
        )
        link.send(protocol.Refused(node=refused.node, code=refused.code, detail=refused.detail))
        self.strikes += 1
        if refused.code == "too_big":
            link.close(CloseCode.TOO_BIG, refused.detail)
        elif refused.code == "version":
            link.close(CloseCode.VERSION, refused.detail)
        elif self.strikes >= STRIKES:
            link.close(CloseCode.NOT_UNDERSTOOD, f"{STRIKES} refused frames in a row")

    def _take(self, link: Link, message: protocol.Up) -> None:
        """Put one frame on its lane. :raises BadFrame: if it is not this link's to send"""
        metrics.FRAMES.labels(type(message).__name__.lower()).inc()
        node_id = link.identity.nodes.get(message.node)
        if node_id is None:
            raise BadFrame("foreign_node", "not a node of this agent", node=message.node)
        received_at = self.gateway.clock.now()
        held_up_ms = 0
        if isinstance(message, protocol.Hello | protocol.Pulse | protocol.Usage):
            held_up_ms = link.transit.held_up_ms(sent_ms=message.sent_ms, received_at=received_at)
        if isinstance(message, protocol.Hello):
            self._welcome(link, node_id, message)
            self.gateway.facts.put(Fact(link, node_id, message, received_at))
            return
        if not self.gateway.links.speaks_for(link, node_id):
            raise BadFrame("hello_first", "say hello for this node first", node=message.node)
        match message:
            case protocol.Pulse(node=node, boot=boot, seq=seq):
                self.gateway.pulses.put(
                    Pulse(node_id=node_id, boot_id=boot, seq=seq, received_at=received_at)
                )
                link.send(protocol.PulseAck(node=node, seq=seq))
            case protocol.Phase():
                self.gateway.facts.put(Fact(link, node_id, message, received_at))
            case protocol.Usage():
                usage = add_age(message, held_up_ms)
                self.gateway.usage.put(Frame(link, node_id, usage, received_at))
            case protocol.Samples():
                self.gateway.samples.put(SampleFrame(node_id, message, received_at))

    def _welcome(self, link: Link, node_id: uuid.UUID, hello: protocol.Hello) -> None:
        version = min(hello.newest_version, protocol.VERSION)
        if version < max(hello.oldest_version, protocol.OLDEST_VERSION):
            spoken = f"{protocol.OLDEST_VERSION} to {protocol.VERSION}"
            raise BadFrame("version", f"this gateway speaks {spoken}", node=hello.node)
        replaced = self.gateway.links.join(node_id, link)
        if replaced is not None:
            replaced.close(CloseCode.REPLACED, f"a newer connection speaks for {hello.node}")
            log.info("gateway.link_replaced", node=hello.node, agent=str(link.identity.agent_id))
        link.send(
            protocol.Welcome(
                node=hello.node,
                version=version,
                control_epoch=max(link.identity.control_epoch, self.gateway.orders.control_epoch),
                committed=0,
                server_time=self.gateway.clock.now().isoformat(),
            )
        )
        # Whatever was sent before, an agent that says hello may have lost it.
        link.sent.pop(node_id, None)
        self.gateway.orders.wake()


def _decode(text: str | None) -> protocol.Up:
    """Read one frame. :raises BadFrame: if it is none of ours"""
    if text is None:
        raise BadFrame("malformed", "frames are text")
    if len(text) > LONGEST_FRAME:
        raise BadFrame("too_big", f"a frame has at most {LONGEST_FRAME} characters")
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadFrame("malformed", str(error)) from error


def _bearer(headers: list[tuple[bytes, bytes]]) -> str:
    """Return the credential of the Authorization header; empty if there is none."""
    for name, value in headers:
        if name.lower() == b"authorization":
            scheme, _, credential = value.decode("latin-1").partition(" ")
            return credential.strip() if scheme.lower() == "bearer" else ""
    return ""
