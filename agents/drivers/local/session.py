"""Shells and commands over SSH: one child in a session of its own, with a terminal if asked."""

import asyncio
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import termios
from collections.abc import Awaitable, Callable

import asyncssh

CHUNK = 65_536
MOTD = (
    b"Tessera local runtime (development): this instance is a process of the host.\r\n"
    b"It isolates nothing: processes, network and readable files of the machine are in sight.\r\n"
)

Process = asyncssh.SSHServerProcess[bytes]


def customer_shell() -> str:
    return shutil.which("bash", path="/bin:/usr/bin") or "/bin/sh"


class Sessions:
    """``shells``: pids of interactive shells, which ignore SIGTERM while they wait for a person."""

    def __init__(self, env: dict[str, str], cwd: str) -> None:
        self._env = env
        self._cwd = cwd
        self._shell = customer_shell()
        self.shells: set[int] = set()

    async def serve(self, process: Process) -> None:
        argv = [self._shell, "-c", process.command] if process.command else [self._shell, "-l"]
        try:
            if process.term_type is not None:
                await self._with_terminal(process, argv)
            else:
                await self._with_pipes(process, argv)
        except (OSError, asyncssh.Error) as error:
            with contextlib.suppress(OSError, asyncssh.Error):
                process.stderr.write(f"{error}\r\n".encode())
                process.exit(255)

    def _environment(self, process: Process) -> dict[str, str]:
        asked = {
            name.decode(errors="replace"): value.decode(errors="replace")
            for name, value in process.channel.get_environment_bytes().items()
            if name.startswith((b"LC_", b"LANG"))
        }
        return {**self._env, **asked}

    async def _with_pipes(self, process: Process, argv: list[str]) -> None:
        child = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self._cwd,
            env=self._environment(process),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
        if stdin is None or stdout is None or stderr is None:
            raise OSError("the command has no pipes")

        async def feed(data: bytes) -> None:
            stdin.write(data)
            await stdin.drain()

        async def inward() -> None:
            with contextlib.suppress(OSError):
                await _pump_in(process, feed, lambda n: _signal_group(child.pid, n))
            with contextlib.suppress(OSError):
                stdin.close()

        feeding = asyncio.ensure_future(inward())
        await asyncio.gather(
            _pump_out(stdout.read, process.stdout),
            _pump_out(stderr.read, process.stderr),
        )
        _exit(process, await child.wait())
        feeding.cancel()

    async def _with_terminal(self, process: Process, argv: list[str]) -> None:
        master, slave = pty.openpty()
        try:
            _resize(master, process.term_size)
            env = {**self._environment(process), "TERM": process.term_type or "dumb"}

            def take_terminal() -> None:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

            child = await asyncio.create_subprocess_exec(
                *argv,
                cwd=self._cwd,
                env=env,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
                preexec_fn=take_terminal,
            )
        finally:
            os.close(slave)
        self.shells.add(child.pid)
        os.set_blocking(master, False)
        if not process.command:
            process.stdout.write(MOTD)

        async def feed(data: bytes) -> None:
            while data:
                data = data[await _ready_write(master, data) :]

        def on_signal(number: signal.Signals) -> None:
            with contextlib.suppress(OSError):
                os.killpg(os.tcgetpgrp(master), number)

        feeding = asyncio.ensure_future(
            _pump_in(process, feed, on_signal, lambda size: _resize(master, size))
        )
        closing = asyncio.ensure_future(process.wait_closed())
        reading = asyncio.ensure_future(_pump_out(lambda n: _ready_read(master, n), process.stdout))
        waiting = asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({closing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                # What the child wrote last is still in the terminal; a grandchild may hold it open.
                await asyncio.wait({reading}, timeout=0.5)
        finally:
            for task in (feeding, reading, closing):
                task.cancel()
            await asyncio.wait({feeding, reading, closing})
            # The kernel hangs up on whoever still sits at the terminal.
            os.close(master)
        _exit(process, await waiting)
        self.shells.discard(child.pid)


async def _pump_in(
    process: Process,
    feed: Callable[[bytes], Awaitable[None]],
    on_signal: Callable[[signal.Signals], None],
    on_resize: Callable[[tuple[int, int, int, int]], None] | None = None,
) -> None:
    while True:
        try:
            data = await process.stdin.read(CHUNK)
        except asyncssh.TerminalSizeChanged as change:
            if on_resize is not None:
                on_resize(change.term_size)
            continue
        except asyncssh.SignalReceived as received:
            with contextlib.suppress(KeyError):
                on_signal(signal.Signals[f"SIG{received.signal}"])
            continue
        except asyncssh.BreakReceived:
            on_signal(signal.SIGINT)
            continue
        if not data:
            return
        await feed(data)


async def _pump_out(read: Callable[[int], Awaitable[bytes]], to: asyncssh.SSHWriter[bytes]) -> None:
    """Copy until the end; when the client has gone, read on, so that the child is not blocked."""
    gone = False
    while True:
        data = await read(CHUNK)
        if not data:
            return
        if not gone:
            try:
                to.write(data)
                await to.drain()
            except (OSError, asyncssh.Error):
                gone = True


async def _ready_read(handle: int, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(handle, size)
        except BlockingIOError:
            await _until(handle, loop.add_reader, loop.remove_reader)
        except OSError:  # EIO: nobody has the terminal open any more
            return b""


async def _ready_write(handle: int, data: bytes) -> int:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.write(handle, data)
        except BlockingIOError:
            await _until(handle, loop.add_writer, loop.remove_writer)


async def _until(
    handle: int, watch: Callable[..., object], unwatch: Callable[[int], object]
) -> None:
    ready = asyncio.Event()
    watch(handle, ready.set)
    try:
        await ready.wait()
    finally:
        unwatch(handle)


def _resize(handle: int, size: tuple[int, int, int, int]) -> None:
    columns, rows, width, height = size
    with contextlib.suppress(OSError):
        fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


def _exit(process: Process, code: int) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        if code < 0:
            process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
        else:
            process.exit(code)
