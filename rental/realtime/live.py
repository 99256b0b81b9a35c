"""The WebSocket of a page: ``ws/t/<tenant>``. An ASGI application behind sessions and Origin."""

import asyncio
import contextlib
from typing import Any
from uuid import UUID

import msgspec
import structlog
from asgiref.typing import ASGIReceiveCallable, ASGISendCallable

from rental.realtime.hub import Hub, Refused, Socket, hub_here
from rental.realtime.outbox import CloseCode
from rental.realtime.standing import Visitor
from rental.records.ids import MalformedId, from_text

LONGEST_MESSAGE = 32_768  # characters; a page of 200 rows says 6,400
MOST_ROWS, MOST_CHARTS = 500, 20
GATHER = 0.03  # s in which changes of one transaction's wake become one message
STUCK = 20.0  # s for one send, after which the reader is taken for gone

log = structlog.get_logger()


class Watch(msgspec.Struct, tag_field="k", tag="watch"):
    """What a page shows: rows by id, and whose samples it draws."""

    ids: list[str] = []
    charts: list[str] = []


_decoder = msgspec.json.Decoder(Watch)


class Leave(Exception):
    """The socket is to be closed with this code."""

    def __init__(self, code: CloseCode) -> None:
        super().__init__(code.name)
        self.code = code


async def live(scope: Any, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """
    Serve one socket.

    It is accepted before anybody is asked who it is: a browser shows its page the code of a close,
    and hides why a handshake was refused. Until then it is told nothing.
    """
    await receive()
    await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
    hub = hub_here()
    try:
        socket = await hub.admit(_visitor(scope))
    except (Refused, Leave) as refused:
        await _close(send, refused.code)
        return
    try:
        await _serve(hub, socket, receive, send)
    finally:
        hub.leave(socket)


async def nowhere(scope: Any, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Refuse a socket at any other address: without a route Channels raises for each."""
    await receive()
    await send({"type": "websocket.close", "code": int(CloseCode.NOT_FOUND), "reason": None})


def _visitor(scope: Any) -> Visitor:
    """:raises Leave: if nobody is signed in"""
    user, session = scope["user"], scope["session"]
    if not user.is_authenticated or not session.session_key:
        raise Leave(CloseCode.SIGNED_OUT)
    return Visitor(session.session_key, user.pk, scope["url_route"]["kwargs"]["tenant"])


async def _serve(
    hub: Hub, socket: Socket, receive: ASGIReceiveCallable, send: ASGISendCallable
) -> None:
    """Read and write until one of the two ends."""
    reader = asyncio.create_task(_read(hub, socket, receive))
    writer = asyncio.create_task(_write(socket, send))
    try:
        await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (reader, writer):
            task.cancel()
        await asyncio.gather(reader, writer, return_exceptions=True)


async def _read(hub: Hub, socket: Socket, receive: ASGIReceiveCallable) -> None:
    """Take what the page says until it goes. What is no message of ours is ignored."""
    while True:
        event = await receive()
        if event["type"] != "websocket.receive":
            return
        text = event.get("text") or ""
        if len(text) > LONGEST_MESSAGE:
            socket.outbox.close(CloseCode.TOO_BIG)
            await asyncio.Event().wait()  # until the writer has said so
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            asked = _decoder.decode(text)
            hub.watch(socket, _ids(asked.ids[:MOST_ROWS]), _ids(asked.charts[:MOST_CHARTS]))


async def _write(socket: Socket, send: ASGISendCallable) -> None:
    """Send what waits. A page that reads slowly gets less and newer; one that stopped is left."""
    outbox = socket.outbox
    # A send to a page that has gone raises what the server likes; the reader hears of it too.
    with contextlib.suppress(OSError, RuntimeError, TimeoutError):
        while True:
            await outbox.has_some.wait()
            await asyncio.sleep(GATHER)
            if outbox.goodbye is not None:
                return await _close(send, outbox.goodbye)
            for text in outbox.take():
                async with asyncio.timeout(STUCK):
                    await send({"type": "websocket.send", "text": text, "bytes": None})


async def _close(send: ASGISendCallable, code: CloseCode) -> None:
    # The page may have gone meanwhile.
    with contextlib.suppress(OSError, RuntimeError, TimeoutError):
        async with asyncio.timeout(STUCK):
            await send({"type": "websocket.close", "code": int(code), "reason": None})


def _ids(texts: list[str]) -> frozenset[UUID]:
    found = set()
    for text in texts:
        with contextlib.suppress(MalformedId):
            found.add(from_text("ins", text))
    return frozenset(found)
