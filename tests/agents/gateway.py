"""A gateway in a few lines: takes what agents say, acks it, and sends what a test orders."""

import asyncio
import json
import threading

import msgspec
from websockets import ConnectionClosed
from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.http11 import Response

from agents.protocol import Ack, Desired, Hello, PulseAck, Up, Usage, Welcome
from agents.protocol import Pulse as PulseMessage

CREDENTIAL = "tsa_test"


class FakeGateway:
    """
    Runs in a thread of its own. ``said``: every message of every link, in order. ``cut`` is a
    partition: no link lives and none is made until ``mend``.
    """

    def __init__(self):
        self.said = []
        self.links = set()
        self.connections = 0
        self.desired = None
        self.epoch = 1
        self.port = None
        self.is_mute = False
        self._server = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._decoder = msgspec.json.Decoder(Up)
        self.mend()

    def close(self):
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self):
        if self._server is not None:
            server, self._server = self._server, None
            self._do(self._close(server))

    def mend(self):
        self._server = self._do(self._open())
        self.port = self._server.sockets[0].getsockname()[1]

    def order(self, desired: Desired):
        self.desired = desired
        self._do(self._tell())

    def heard(self, kind, match=lambda message: True):
        """The newest message of the kind that matches, or None."""
        for message in reversed(list(self.said)):
            if isinstance(message, kind) and match(message):
                return message
        return None

    def stretches(self, run):
        """What the server would have stored of a run: the maximum of each stretch."""
        rows = {}
        for message in list(self.said):
            for report in message.runs if isinstance(message, Usage) else ():
                for s in report.stretches if report.run == run else ():
                    rows[s.from_tick] = max(rows.get(s.from_tick, 0), s.until_tick)
        return rows

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _open(self):
        return await serve(self._serve, "127.0.0.1", self.port or 0, process_request=self._check)

    async def _close(self, server):
        server.close()
        for link in list(self.links):
            link.transport.abort()
        await server.wait_closed()

    def _check(self, connection, request):
        if request.headers.get("Authorization") != f"Bearer {CREDENTIAL}":
            return Response(403, "Forbidden", Headers(), b"")
        return None

    async def _tell(self):
        for link in self.links:
            await link.send(msgspec.json.encode(self.desired).decode())

    async def _serve(self, link):
        self.links.add(link)
        self.connections += 1
        try:
            async for frame in link:
                message = self._decoder.decode(frame)
                self.said.append(message)
                for answer in self._answers(message):
                    await link.send(msgspec.json.encode(answer).decode())
        except ConnectionClosed:
            pass  # agents are killed here
        finally:
            self.links.discard(link)

    def _answers(self, message):
        node = message.node
        if isinstance(message, Hello):
            yield Welcome(node=node, version=1, control_epoch=self.epoch, committed=0)
            if self.desired is not None:
                yield self.desired
        elif isinstance(message, PulseMessage) and not self.is_mute:
            yield PulseAck(node=node, seq=message.seq)
        elif isinstance(message, Usage):
            yield Ack(node=node, seq=message.seq)


def write_agent(folder, port, *, runtime, name="node-a"):
    """Write a configuration, a credential and two simulated cards; return the configuration."""
    folder.mkdir(mode=0o755, exist_ok=True)
    gpus = [{"uuid": f"GPU-{i}", "index": i, "model": "T4", "memory_mib": 16_384} for i in range(2)]
    (folder / "gpus.json").write_text(json.dumps({"gpus": gpus}))
    (folder / "credential").write_text(
        json.dumps({"credential": CREDENTIAL, "agent": "agt_1", "nodes": {name: "nod_1"}})
    )
    path = folder / "agent.json"
    path.write_text(
        json.dumps(
            {
                "server": {
                    "url": f"ws://127.0.0.1:{port}/agent/v1",
                    "credential_file": "credential",
                    "state_dir": "state",
                },
                "nodes": [{"name": name, "gpus_file": "gpus.json", "runtime": runtime}],
            }
        )
    )
    return path
