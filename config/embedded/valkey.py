"""One Valkey on 127.0.0.1 behind a password. It carries hints only; it may lose everything."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from config.embedded.binaries import find_valkey
from config.embedded.places import Places


@dataclass(frozen=True)
class Valkey:
    places: Places
    password: str
    port: int
    program: Path

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @property
    def data(self) -> Path:
        return self.places.shared / "valkey"

    def make(self) -> None:
        """Write the configuration: a password on the command line would show in every `ps`."""
        self.places.own(self.data)
        lines = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "requirepass": self.password,
            "dir": str(self.data),
            "save": '""',
            "appendonly": "no",  # hints: sweeps find the work again, so nothing is worth a disk
            "maxmemory-policy": "noeviction",  # an evicted key would break Celery's bindings
            "daemonize": "no",
            "loglevel": "warning",
        }
        path = self.data / "valkey.conf"
        path.touch(mode=0o600)
        path.write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
        if self.places.user is not None:
            os.chown(path, self.places.user.pw_uid, self.places.user.pw_gid)

    def command(self) -> list[str]:
        return [str(self.program), str(self.data / "valkey.conf")]

    def answers(self) -> bool:
        """Tell whether the server answers a PING behind its password."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as link:
                link.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:
                    part = link.recv(64)
                    if not part:
                        return False
                    answer += part
        except OSError:
            return False
        return b"+PONG" in answer


def open_valkey(places: Places, *, password: str, port: int) -> Valkey:
    return Valkey(places, password, port, find_valkey(places))


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now; a moment later somebody may have taken it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
