"""
One instance of the local runtime: its SSH server and the parent of its processes.

    python -m agents.drivers.local.instance FOLDER

Started by the agent with the folder of a container (``spec.json`` says what to run), in a session
of its own, so that it outlives the agent. As root it opens what root alone may open, then becomes
the instance's own uid for ever; everything is imported before, because afterwards it may not be
able to read the code (a checkout in a folder of mode 0700).

SIGTERM: told to everything inside, which has ``grace_s`` to end; then SIGKILL, then it exits.
"""

import asyncio
import concurrent.futures.thread
import contextlib
import ctypes
import encodings.idna
import encodings.latin_1
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

# asyncssh looks for security keys, smart cards and Kerberos at import. The server end needs none
# of them, and without fido2 each instance starts 0.2 s sooner and is 5 MiB smaller.
for absent in ("fido2", "smartcard", "gssapi", "pkcs11"):
    sys.modules.setdefault(absent, None)  # type: ignore[arg-type]

import asyncssh  # noqa: E402

from agents.clock import BOOT_ID  # noqa: E402
from agents.drivers.local import processes  # noqa: E402
from agents.drivers.local.passwords import is_password  # noqa: E402
from agents.drivers.local.session import Sessions  # noqa: E402
from agents.files import read_json, write_atomically, write_json  # noqa: E402

USER = "tessera"
POLL_S = 0.05
TRAFFIC_S = 1.0
# Wrong passwords that one connection may send, and what each of them waits.
TRIES = 3
WRONG_S = 1.0
PR_SET_NO_NEW_PRIVS = 38
# struct tcp_info (linux/tcp.h): tcpi_bytes_acked and tcpi_bytes_received, u64 each.
TCP_INFO_ACKED, TCP_INFO_RECEIVED = 120, 128

# Imported late by asyncio and by asyncssh, when root's files may be out of reach.
IMPORTED_EARLY = (concurrent.futures.thread, encodings.idna, encodings.latin_1)

log = logging.getLogger("instance")


class Traffic:
    """Bytes of all SSH connections as the kernel counts them, kept in a file that root made."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._ended = [0, 0]
        self._open: dict[Any, list[int]] = {}

    def opened(self, sock: Any) -> None:
        self._open[sock] = [0, 0]

    def closed(self, sock: Any) -> None:
        self._read(sock)
        out, into = self._open.pop(sock, [0, 0])
        self._ended[0] += out
        self._ended[1] += into
        self.write()

    def write(self) -> None:
        for sock in self._open:
            self._read(sock)
        out = self._ended[0] + sum(n[0] for n in self._open.values())
        into = self._ended[1] + sum(n[1] for n in self._open.values())
        # Of fixed width, so that a reader never finds half a number.
        os.pwrite(self._file, f"{out:020d} {into:020d}\n".encode(), 0)

    def _read(self, sock: Any) -> None:
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:
            return
        counted = self._open[sock]
        for place, offset in enumerate((TCP_INFO_ACKED, TCP_INFO_RECEIVED)):
            value = int.from_bytes(info[offset : offset + 8], sys.byteorder)
            counted[place] = max(counted[place], value)


class Door(asyncssh.SSHServer):
    """Lets in who holds one of the keys, or knows the password, that the files name now."""

    def __init__(self, folder: Path, traffic: Traffic) -> None:
        self._keys = folder / "authorized_keys"
        self._password = folder / "password"
        self._traffic = traffic
        self._sock: Any = None
        self._tries = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        # Kept, because the connection has forgotten it by the time it says that it is lost.
        self._sock = conn.get_extra_info("socket")
        self._traffic.opened(self._sock)

    def connection_lost(self, exc: Exception | None) -> None:
        self._traffic.closed(self._sock)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER and key.public_data in allowed_keys(self._keys)

    def password_auth_supported(self) -> bool:
        return self._tries < TRIES and bool(password_digest(self._password))

    async def validate_password(self, username: str, password: str) -> bool:
        digest = password_digest(self._password)
        # Counted before it is compared: a client may send the next without waiting.
        self._tries += 1
        if not digest or self._tries > TRIES:
            return False
        is_his = await asyncio.to_thread(is_password, password, digest)
        if is_his and username == USER:
            return True
        await asyncio.sleep(WRONG_S)
        return False

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> bool:
        return True


class Files(asyncssh.SFTPServer):
    def exit(self) -> None:
        """Say that all went well: OpenSSH's scp takes a session without a status as failed."""
        if self.channel.get_subsystem() == "sftp":
            self.channel.exit(0)


def allowed_keys(path: Path) -> set[bytes]:
    """Read at each log-in, so that a new spec_rev counts at once. A line that is no key is none."""
    found = set()
    for line in path.read_text().splitlines():
        with contextlib.suppress(asyncssh.KeyImportError, ValueError):
            found.add(asyncssh.import_public_key(line).public_data)
    return found


def password_digest(path: Path) -> str:
    """Read at each log-in, as the keys are. An agent of before passwords has written no file."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def host_key(path: Path) -> asyncssh.SSHKey:
    """The instance's own, kept with its system disk: the same after each start."""
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519")
        write_atomically(path, key.export_private_key())
    return asyncssh.read_private_key(path)


def become(uid: int) -> None:
    """Give up root for good. The order matters: groups while we still may, the user last."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise SystemExit("the instance is still root; it does not start")


def limit(*, own_uid: bool) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = 65_536 if hard == resource.RLIM_INFINITY else min(65_536, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if own_uid:
        # Counted per uid: for a developer's own uid it would count his whole desktop.
        resource.setrlimit(resource.RLIMIT_NPROC, (4096, 4096))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise SystemExit("no_new_privs cannot be set; the instance does not start")


class Instance:
    """The life between the drop of rights and the exit."""

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.folder = folder
        self.spec = spec
        self.uid: int | None = spec["uid"]
        self.traffic = Traffic(folder / "traffic")
        self.exit_file = os.open(folder / "exit.json", os.O_WRONLY | os.O_CREAT, 0o600)
        self.ending = asyncio.Event()
        self.exit_code = 0
        self.sessions = Sessions(spec["env"], spec["cwd"])

    async def run(self, sock: socket.socket, key: asyncssh.SSHKey) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminated)
        loop.add_signal_handler(signal.SIGINT, self._terminated)
        server = await asyncssh.listen(
            sock=sock,
            server_factory=lambda: Door(self.folder, self.traffic),
            server_host_keys=[key],
            server_version="Tessera",
            process_factory=self.sessions.serve,
            sftp_factory=Files,
            allow_scp=True,
            encoding=None,
            line_editor=False,
            agent_forwarding=False,
            compression_algs=None,
        )
        command = asyncio.ensure_future(self._command()) if self.spec["command"] else None
        counting = asyncio.ensure_future(self._count())
        await self.ending.wait()
        server.close()
        await self._end_all()
        for task in (command, counting):
            if task is not None:
                task.cancel()
        self.traffic.write()
        os.pwrite(self.exit_file, json.dumps({"exit_code": self.exit_code}).encode(), 0)
        return self.exit_code

    def _terminated(self) -> None:
        if not self.ending.is_set():
            self.exit_code = 128 + signal.SIGTERM
            self.ending.set()

    async def _command(self) -> None:
        """The spec's command is the instance's main process: when it ends, the instance ends."""
        spec = self.spec
        with open(Path(spec["env"]["HOME"]) / "output.log", "ab") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *spec["command"],
                    cwd=spec["cwd"],
                    env=spec["env"],
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                output.write(f"{spec['command'][0]}: {error.strerror}\n".encode())
                code = 127
            else:
                code = await process.wait()
        if not self.ending.is_set():
            self.exit_code = code if code >= 0 else 128 - code
            self.ending.set()

    async def _count(self) -> None:
        while True:
            self.traffic.write()
            await asyncio.sleep(TRAFFIC_S)

    async def _end_all(self) -> None:
        """SIGTERM to all, SIGHUP to shells that only wait for a person, SIGKILL after the grace."""
        mark = self.spec["mark"]
        deadline = time.monotonic() + max(0.0, self.spec["grace_s"] - 1)
        told: set[int] = set()
        while True:
            left = list(processes.members(mark, self.uid))
            # Again for each newcomer: it may have been born while the others were told.
            for pid in set(left) - told:
                _signal(pid, signal.SIGTERM)
            told.update(left)
            if not left or time.monotonic() >= deadline:
                break
            for pid in self._idle_shells(left):
                _signal(pid, signal.SIGHUP)
            await asyncio.sleep(POLL_S)
        processes.end_members(mark, self.uid)

    def _idle_shells(self, left: list[int]) -> list[int]:
        return [
            pid
            for pid in left
            if pid in self.sessions.shells
            and not any(other != pid and processes.session_of(other) == pid for other in left)
        ]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def main(folder: Path) -> int:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(name)s: %(message)s")
    with contextlib.suppress(PermissionError):
        os.setsid()
    os.umask(0o077)
    spec = read_json(folder / "spec.json")
    if spec is None:
        raise SystemExit(f"{folder} holds no spec")
    key = host_key(Path(spec["host_key"]))
    # The driver reads where we listen from process.json, so the port is bound before it is written.
    sock = socket.socket()
    sock.bind((spec["listen"], 0))
    instance = Instance(folder, spec)
    pid = os.getpid()
    write_json(
        folder / "process.json",
        {
            "pid": pid,
            "started": processes.start_of(pid),
            "boot": BOOT_ID.read_text().strip(),
            "host": spec["listen"],
            "port": sock.getsockname()[1],
            "fingerprint": key.get_fingerprint(),
        },
    )
    os.chdir(spec["cwd"])
    # There is no passwd entry to ask.
    os.environ.update({name: spec["env"][name] for name in ("HOME", "USER", "LOGNAME")})
    limit(own_uid=spec["uid"] is not None)
    if spec["uid"] is not None:
        become(spec["uid"])
    elif os.getuid() == 0:
        raise SystemExit("an instance never runs as root")
    return asyncio.run(instance.run(sock, key))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
