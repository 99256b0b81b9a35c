"""The agent's WebSocket and its enrolment call: the only place that touches the network."""

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection, connect

from agents.loop import Connect, LinkLost

# A desired set of a full node is some 100 KiB; this is the bound that keeps a bad peer out.
FRAME_MAX = 16 * 2**20
OPEN_TIMEOUT_S = 10
PING_S = 10


class EnrolmentRefused(Exception):
    """The server did not take the token. In the server's words."""


class WebSocketLink:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, frame: bytes) -> None:
        try:
            await self._connection.send(frame.decode())
        except websockets.ConnectionClosed as error:
            raise LinkLost(str(error)) from error

    async def receive(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except websockets.ConnectionClosed as error:
            raise LinkLost(str(error)) from error

    async def close(self) -> None:
        await self._connection.close()


def websocket_to(url: str, credential: str) -> Connect:
    async def dial() -> WebSocketLink:
        try:
            connection = await connect(
                url,
                additional_headers={"Authorization": f"Bearer {credential}"},
                open_timeout=OPEN_TIMEOUT_S,
                ping_interval=PING_S,
                ping_timeout=PING_S,
                close_timeout=1,
                max_size=FRAME_MAX,
                # The gateway is reached directly: a proxy of the node's shell is not for us.
                proxy=None,
            )
        except (OSError, asyncio.TimeoutError, websockets.WebSocketException) as error:
            raise LinkLost(str(error) or type(error).__name__) from error
        return WebSocketLink(connection)

    return dial


def enrol(*, url: str, token: str, agent: str, nodes: list[str]) -> dict[str, Any]:
    """
    Trade an enrolment token for a credential.

    :param url: the gateway, ``http(s)://host:port``
    :raises EnrolmentRefused: in the server's words
    """
    request = urllib.request.Request(
        url.rstrip("/") + "/agent/v1/enrol",
        data=json.dumps({"token": token, "agent": agent, "nodes": nodes}).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
    )
    try:
        with opener.open(request, timeout=OPEN_TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        raise EnrolmentRefused(
            f"{error.code}: {error.read(2000).decode(errors='replace')}"
        ) from error
    except (OSError, ValueError) as error:
        raise EnrolmentRefused(str(error)) from error
    return answer
