"""A real web process (uvicorn, real PostgreSQL and Valkey) and real WebSocket clients."""

import asyncio
import contextlib
import json
import socket
import threading
from urllib.parse import urlsplit, urlunsplit

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.test import Client
from websockets.sync.client import connect

from config.asgi import build_web
from rental.realtime.hub import hub_here
from tests.gateway.eventually import eventually

BACKEND = "django.contrib.auth.backends.ModelBackend"


class Page:
    """The browser's end of one socket."""

    def __init__(self, socket):
        self.socket = socket
        self.heard = []

    def watch(self, *ids, charts=()):
        self.say({"k": "watch", "ids": list(ids), "charts": list(charts)})

    def say(self, message):
        self.socket.send(message if isinstance(message, str) else json.dumps(message))

    def take(self, kind, *, timeout=10, **wanted):
        """Return the next message of ``kind`` with these members; keep what came before."""
        while True:
            message = json.loads(self.socket.recv(timeout=timeout))
            self.heard.append(message)
            if message["k"] == kind and all(message[name] == v for name, v in wanted.items()):
                return message

    def version_of(self, instance_id, *, timeout=10):
        while True:
            versions = self.take("rows", timeout=timeout)["v"]
            if instance_id in versions:
                return versions[instance_id]

    def hears_nothing_for(self, seconds, kind="rows"):
        """Read for a while; say whether no message of ``kind`` came. Only bounds what is absent."""
        with contextlib.suppress(TimeoutError):
            self.take(kind, timeout=seconds)
            return False
        return True

    def close_code(self, timeout=10):
        with contextlib.suppress(Exception):
            while True:
                self.socket.recv(timeout=timeout)
        return self.socket.close_code


class Relay:
    """A way to Valkey that can be cut: a port that passes bytes on while it is open."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_open = True
        self.ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if not self.is_open:
                near.close()
                continue
            far = socket.create_connection(self.target)
            self.ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass(source, sink):
        with contextlib.suppress(OSError), source, sink:
            while content := source.recv(65536):
                sink.sendall(content)

    def cut(self):
        self.is_open = False
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.ends = []

    def mend(self):
        self.is_open = True


class Web:
    """One web process on 127.0.0.1, on a free port. ``hub``: once a socket was open."""

    def __init__(self, port=0):
        self.hub = None
        application = build_web()
        self.http = application.application_mapping["http"]

        async def remember_the_hub(scope, receive, send):
            self.loop, self.hub = asyncio.get_running_loop(), hub_here()
            await application(scope, receive, send)

        config = uvicorn.Config(
            remember_the_hub,
            host="127.0.0.1",
            port=port,
            lifespan="off",
            log_config=None,
            ws_max_size=4 * 2**20,
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

    def dial(self, slug, *, session="", origin=None, path=None):
        """Open a socket as a browser does; raises InvalidStatus if the handshake is refused."""
        dialled = connect(
            f"ws://{self.address}/{path or f'ws/t/{slug}'}",
            origin=origin or f"http://{self.address}",
            additional_headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"},
        )
        return Page(self._open.enter_context(dialled))

    def dial_and_never_read(self, slug, *, session):
        """Open a socket whose page has stopped; the kernel keeps 4 KiB for it."""
        wire = self._open.enter_context(socket.socket())
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = self.address.split(":")
        wire.connect((host, int(port)))
        lines = [
            f"GET /ws/t/{slug} HTTP/1.1",
            f"Host: {self.address}",
            f"Origin: http://{self.address}",
            f"Cookie: {settings.SESSION_COOKIE_NAME}={session}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        wire.sendall("\r\n".join([*lines, "", ""]).encode())
        assert wire.recv(12) == b"HTTP/1.1 101"

    def run(self, coroutine):
        """Run it in the server's event loop; return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def restart(self):
        """End the process as SIGTERM does, and begin another one on its port."""
        port = int(self.address.split(":")[1])
        self.stop()
        self.__init__(port)
        self.start()

    def stop(self):
        self._open.close()
        if self.hub is not None:
            self.run(self.hub.stop())
            self.run(sync_to_async(connections.close_all)())  # of the thread that reads sessions
        self._server.should_exit = True
        self._thread.join(timeout=20)
        assert not self._thread.is_alive()


def sign_in(user):
    """Return the key of a session of the user, as his cookie has it."""
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def web(transactional_db, monkeypatch):
    # Threads of the server that outlive a test keep no connection to its database.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    server = Web().start()
    yield server
    server.stop()


@pytest.fixture
def relay(settings):
    parts = urlsplit(settings.REDIS_URL)
    way = Relay((parts.hostname, parts.port))
    login = f"{parts.username or ''}:{parts.password}@" if parts.password else ""
    settings.REDIS_URL = urlunsplit(parts._replace(netloc=f"{login}127.0.0.1:{way.port}"))
    yield way
    way.listener.close()
    way.cut()
