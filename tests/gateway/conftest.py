"""A real gateway (uvicorn, own threads, real PostgreSQL) and a real WebSocket client."""

import contextlib
import threading

import msgspec
import pytest
import uvicorn
from websockets.sync.client import connect

from agents import protocol
from rental.gateway.asgi import GatewayApplication
from rental.gateway.process import Gateway
from tests.gateway.eventually import eventually

_decode = msgspec.json.Decoder(protocol.Down).decode
_encode = msgspec.json.Encoder().encode


class Agent:
    """The agent's end of one connection: sends structs, and takes what is awaited in any order."""

    def __init__(self, socket):
        self.socket = socket
        self.kept = []

    def send(self, message):
        self.socket.send(_encode(message).decode())

    def send_raw(self, text):
        self.socket.send(text)

    def take(self, kind, *, timeout=10, **wanted):
        """Return the next message of ``kind`` with these values; keep the others for later."""

        def fits(message):
            return isinstance(message, kind) and all(
                getattr(message, name) == value for name, value in wanted.items()
            )

        for index, message in enumerate(self.kept):
            if fits(message):
                return self.kept.pop(index)
        while True:
            message = _decode(self.socket.recv(timeout=timeout))
            if fits(message):
                return message
            self.kept.append(message)

    def say_hello(self, node, *, boot="boot-1", **changes):
        fields = {
            "node": str(node),
            "boot": boot,
            "seq": 1,
            "oldest_version": 1,
            "newest_version": 1,
            "control_epoch": 0,
            "node_version": 0,
            "facts": protocol.Facts(cpu_milli=64_000, ram_mib=262_144, disk_mib=1_000_000),
        }
        self.send(protocol.Hello(**{**fields, **changes}))

    def hello(self, node, **changes):
        self.say_hello(node, **changes)
        return self.take(protocol.Welcome, node=str(node))

    def close_code(self, timeout=10):
        """Read until the server closes; return the code."""
        with contextlib.suppress(Exception):
            while True:
                self.socket.recv(timeout=timeout)
        return self.socket.close_code


class Server:
    """One gateway listening on a free port of 127.0.0.1."""

    def __init__(self, database=None):
        self.gateway = Gateway(database)
        config = uvicorn.Config(
            GatewayApplication(self.gateway),
            host="127.0.0.1",
            port=0,
            log_level="warning",
            timeout_graceful_shutdown=5,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._open = contextlib.ExitStack()

    def start(self):
        self._thread.start()
        eventually(lambda: self._server.started)
        return self

    @property
    def address(self):
        host, port = self._server.servers[0].sockets[0].getsockname()
        return f"{host}:{port}"

    def connect(self, credential):
        headers = {"Authorization": f"Bearer {credential}"}
        socket = connect(f"ws://{self.address}/agent/v1", additional_headers=headers)
        return Agent(self._open.enter_context(socket))

    def ask_to_stop(self):
        """What SIGTERM does."""
        self._server.should_exit = True

    def stop(self):
        self.ask_to_stop()
        self._thread.join(timeout=20)
        assert not self._thread.is_alive()
        self._open.close()


@pytest.fixture
def start_gateway(transactional_db):
    """Start gateways; each takes replacements of its lanes' database settings."""
    with contextlib.ExitStack() as stack:

        def start(database=None):
            server = Server(database).start()
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
def server(start_gateway):
    return start_gateway()
