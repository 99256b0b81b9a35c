"""What benchmarks of whole processes stand on: our servers on free ports, and what they cost."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks._shared import scratch_database
from config.embedded.throwaway import start_throwaway

HERTZ = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def own_database(name: str) -> Iterator[str]:
    """
    Yield the URL of a new, migrated database, also in the environment of processes started here.

    It lies beside the one of DATABASE_URL; without one, in a cluster of our own that commits to
    the disk.
    """
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    os.environ.setdefault("SECRET_KEY", "benchmarks-only")
    start_throwaway(durable=True)
    outer = os.environ["DATABASE_URL"]
    with scratch_database(name) as url:
        os.environ["DATABASE_URL"] = url
        try:
            yield url
        finally:
            os.environ["DATABASE_URL"] = outer


class Server:
    """One of our processes: ``python -m config.serve NAME`` on a free port of 127.0.0.1."""

    def __init__(self, name: str, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = start_python("-m", "config.serve", name, "--port", str(self.port), log=log)

    def wait_until_it_answers(self, path: str, *, patience: float = 60.0) -> None:
        """Wait for any HTTP answer, an error included."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.get(path)
                return
            time.sleep(0.05)
        raise SystemExit(f"no answer from {self.url}{path}")

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Return status and body."""
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, ""


@contextlib.contextmanager
def serving(name: str, *, path: str, log: Path) -> Iterator[Server]:
    server = Server(name, log)
    try:
        server.wait_until_it_answers(path)
        yield server
    finally:
        end(server.process)


def start_python(*arguments: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen([sys.executable, *arguments], stdout=output, stderr=output)


def end(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def memory_mib(pid: int) -> dict[str, float]:
    """Return what the kernel says of a process: resident now, its peak, and shared with nobody."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    return {
        "rss": int(status["VmRSS"].split()[0]) / 1024,
        "peak": int(status["VmHWM"].split()[0]) / 1024,
        "own": own / 1024,
    }


def cpu_seconds_of(pid: int) -> float:
    """Return the user and system time of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / HERTZ
