"""Keep processes alive: start, wait until ready, restart with back-off, end in order."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config.embedded.children import start

BEAT = 0.1  # seconds between two looks
FIRST_PAUSE, LONGEST_PAUSE = 0.3, 15.0  # back-off between restarts
STEADY = 30.0  # a process that lived this long was healthy: its back-off starts again
PROBE_EVERY = 5.0
TOO_MANY_DEATHS = 4  # before its first readiness: it will not come up by trying
LOG_LIMIT = 20 * 2**20  # a longer log is set aside at the next start of its process


def always() -> bool:
    return True


@dataclass(frozen=True)
class Process:
    """
    One row of the table of processes.

    :param ready: asked until it says yes; what needs this process starts then
    :param healthy: asked every few seconds afterwards; a process that says no for ``sick_seconds``
        without a break lives but does nothing, and is killed to be started again
    :param prepare: what must be true before a start (no leftovers of the last life); asked again
        until it is
    :param dies_by: how the kernel ends it when the supervisor is killed
    """

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    as_user: Mapping[str, Any] = field(default_factory=dict)
    cwd: str = "/"
    pass_fds: Sequence[int] = ()
    ready: Callable[[], bool] = always
    ready_seconds: float = 60.0
    healthy: Callable[[], bool] = always
    sick_seconds: float = 60.0
    prepare: Callable[[], bool] = always
    stop_with: signal.Signals = signal.SIGTERM
    stop_seconds: float = 15.0
    dies_by: signal.Signals = signal.SIGTERM


class StartFailed(Exception):
    """Something did not come up; the message ends with the last lines of its log."""


class Stopped(Exception):
    """Somebody asked for the end while we were still starting."""


class Child:
    """A process of the table and its lives."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self.log = log
        self.popen: subprocess.Popen[bytes] | None = None
        self.is_ready = False
        self.was_ready = False
        self.deaths = 0
        self.restarts = 0
        self._pause = FIRST_PAUSE
        self._start_at = 0.0
        self._started = 0.0
        self._probed = 0.0
        self._well_at = 0.0

    @property
    def pid(self) -> int | None:
        return None if self.popen is None else self.popen.pid

    def look(self, now: float) -> str | None:
        """Do what is due. Returns a line for the operator when something changed."""
        if self.popen is None:
            self.try_to_start(now)
            return None
        if (code := self.popen.poll()) is not None:
            return self._bury(code, now)
        if not self.is_ready:
            return self._check_ready(now)
        return self._check_health(now)

    def try_to_start(self, now: float) -> None:
        if now < self._start_at or not self.process.prepare():
            return
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.old"))
        process = self.process
        with self.log.open("ab") as log:
            self.popen = start(
                process.command,
                log,
                process.as_user,
                process.dies_by,
                env=process.env,
                cwd=process.cwd,
                pass_fds=process.pass_fds,
            )
        self.is_ready = False
        self._started = self._well_at = now

    def _bury(self, code: int, now: float) -> str:
        self.kill_group()  # children of a dead worker
        lived = now - self._started
        self.popen = None
        self.is_ready = False
        self.deaths += 1
        self.restarts += 1
        if lived > STEADY:
            self._pause = FIRST_PAUSE
        self._start_at = now + self._pause
        line = f"{self.process.name} ended ({_words(code)}) after {lived:.0f} s; starting it again"
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return line

    def _check_ready(self, now: float) -> str | None:
        if self.process.ready():
            self.is_ready = True
            again = self.was_ready
            self.was_ready = True
            self._well_at = now
            return f"{self.process.name} is back" if again else None
        if now - self._started > self.process.ready_seconds:
            self.kill_group()
            return f"{self.process.name} was not ready in {self.process.ready_seconds:.0f} s"
        return None

    def _check_health(self, now: float) -> str | None:
        if now - self._probed < PROBE_EVERY:
            return None
        self._probed = now
        if self.process.healthy():
            self._well_at = now
        elif now - self._well_at > self.process.sick_seconds:
            self.kill_group()
            return f"{self.process.name} lives but does not answer; killed"
        return None

    def kill_group(self) -> None:
        """End the process and all that it left in its group, at once."""
        if self.popen is None:
            return
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    def ask_to_stop(self) -> None:
        if self.popen is not None and self.popen.poll() is None:
            self.popen.send_signal(self.process.stop_with)

    def tail(self, lines: int = 15) -> str:
        if not self.log.exists():
            return "(no output)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Supervisor:
    """
    Owns the children. Single-threaded: every change happens in ``look``.

    :param report: takes lines for the operator
    :param changed: called after each change of pids, so that state.json is never stale for long
    """

    def __init__(
        self, logs: Path, report: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self.children: list[Child] = []
        self._logs = logs
        self._report = report
        self._changed = changed
        self._pids: dict[str, int] = {}
        self._asked_to_stop = 0
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._asked_to_stop += 1
        if self._asked_to_stop > 1:  # he does not want to wait for an orderly end
            for child in self.children:
                child.kill_group()

    @property
    def stopping(self) -> bool:
        return self._asked_to_stop > 0

    def pids(self) -> dict[str, int]:
        return {c.process.name: c.pid for c in self.children if c.pid is not None}

    def restarts(self) -> dict[str, int]:
        return {c.process.name: c.restarts for c in self.children}

    def add(self, *processes: Process) -> None:
        for process in processes:
            self.children.append(Child(process, self._logs / f"{process.name}.log"))

    def look(self) -> None:
        """One round over all children."""
        now = time.monotonic()
        for child in self.children:
            line = child.look(now)
            if line is not None:
                self._report(line)
        if self.pids() != self._pids:
            self._pids = self.pids()
            self._changed()

    def wait_ready(self, *names: str) -> None:
        """
        Look after everything until the named children are ready.

        :raises StartFailed: if one of them dies again and again
        :raises Stopped: if a signal asked for the end
        """
        wanted = [child for child in self.children if child.process.name in names]
        while not all(child.is_ready for child in wanted):
            self.look()
            for child in wanted:
                if child.deaths >= TOO_MANY_DEATHS and not child.was_ready:
                    raise StartFailed(f"{child.process.name} does not start:\n{child.tail()}")
            self.pause()

    def run_once(self, process: Process) -> None:
        """
        Run a process that does its work and ends, looking after the others meanwhile.

        :raises StartFailed: if it ends badly
        :raises Stopped: if a signal asked for the end
        """
        task = Child(process, self._logs / f"{process.name}.log")
        task.try_to_start(time.monotonic())
        assert task.popen is not None
        try:
            while (code := task.popen.poll()) is None:
                self.look()
                self.pause()
        except BaseException:
            task.kill_group()
            raise
        if code != 0:
            raise StartFailed(f"{process.name} failed ({_words(code)}):\n{task.tail(25)}")

    def pause(self) -> None:
        if self.stopping:
            raise Stopped
        time.sleep(BEAT)

    def run(self) -> None:
        """Look after the children until somebody asks for the end."""
        while not self.stopping:
            self.look()
            time.sleep(BEAT)

    def stop(self, *names: str) -> None:
        """End the named children together; kill what takes longer than its time."""
        chosen = [child for child in self.children if child.process.name in names]
        for child in chosen:
            child.ask_to_stop()
        begun = time.monotonic()
        for child in chosen:
            if child.popen is None:
                continue
            left = child.process.stop_seconds - (time.monotonic() - begun)
            try:
                child.popen.wait(max(0.1, left))
            except subprocess.TimeoutExpired:
                self._report(f"{child.process.name} did not end in time; killed")
            child.kill_group()
            child.popen.wait()
        self.children = [child for child in self.children if child not in chosen]
        self._changed()


def _words(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
