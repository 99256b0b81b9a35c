"""What benchmarks stand on: a database of their own, our servers as processes, their cost."""

import contextlib
import json
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
from urllib.parse import urlsplit, urlunsplit

import psycopg

from config.embedded.throwaway import start_throwaway

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def own_database(name: str) -> Iterator[None]:
    """
    Point DATABASE_URL at a new, migrated database, dropped at the end.

    It lies in the cluster of DATABASE_URL, or in a throwaway one, which writes without fsync.
    """
    start_throwaway()
    outer = urlsplit(os.environ["DATABASE_URL"])
    maintenance = urlunsplit(outer._replace(path="/postgres"))
    database = f"bench_{name}_{os.getpid()}"
    with psycopg.connect(maintenance, autocommit=True) as operator:
        operator.execute(f'CREATE DATABASE "{database}"')
        os.environ["DATABASE_URL"] = urlunsplit(outer._replace(path=f"/{database}"))
        try:
            manage("migrate", "--verbosity", "0")
            yield
        finally:
            os.environ["DATABASE_URL"] = urlunsplit(outer)
            operator.execute(f'DROP DATABASE "{database}" WITH (FORCE)')


def manage(*arguments: str) -> None:
    """Run ``manage.py`` and fail with it."""
    subprocess.run([sys.executable, "manage.py", *arguments], check=True)


class Server:
    """One of our processes: ``python -m config.serve NAME`` on a free port of 127.0.0.1."""

    def __init__(self, name: str, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "config.serve", name, "--port", str(self.port)],
                stdout=output,
                stderr=output,
                env={**os.environ, "LOG_LEVEL": "WARNING"},
            )

    def wait_until_it_answers(self, path: str, *, patience: float = 30.0) -> None:
        """Wait for any HTTP answer, an error included."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self.url + path, timeout=2)
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"no answer from {self.url}{path}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


@contextlib.contextmanager
def serving(name: str, *, path: str, log: Path) -> Iterator[Server]:
    server = Server(name, log)
    try:
        server.wait_until_it_answers(path)
        yield server
    finally:
        server.stop()


def memory_mib(pid: int) -> dict[str, float]:
    """Return what the kernel says of a process: resident now, its peak, and shared with nobody."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))
    return {
        "rss": int(status["VmRSS"].split()[0]) / 1024,
        "peak": int(status["VmHWM"].split()[0]) / 1024,
        "own": own / 1024,
    }


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND


def print_result(title: str, rows: dict[str, object], **figures: object) -> None:
    """Print a table for people and, last, one JSON line for machines."""
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:<44} {value}")
    print(json.dumps(figures, sort_keys=True))
