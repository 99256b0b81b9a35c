"""PostgreSQL and Valkey for one test session: fast, unsafe, gone with who asked for them."""

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from config.embedded.children import start
from config.embedded.places import choose
from config.embedded.postgres import SUPERUSER, Passwords, open_cluster
from config.embedded.valkey import free_port, open_valkey

PREFIX = "tessera-test-"
PATIENCE = 30.0  # seconds; a busy two-core machine needs three


def start_throwaway(*, durable: bool = False) -> None:
    """
    Start both servers and put DATABASE_URL and REDIS_URL (where unset) into the environment.

    :param durable: commit to the disk as the product does, for benchmarks
    They end with this process: by atexit, or by the kernel when it is killed.
    """
    _remove_leftovers()
    root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir="/tmp"))
    root.chmod(0o711)
    places = choose(root)
    log = (root / "servers.log").open("ab")
    children: list[tuple[subprocess.Popen[bytes], signal.Signals]] = []

    @atexit.register
    def end() -> None:
        for child, at_once in children:
            child.send_signal(at_once)
        for child, _ in children:
            child.wait(10)
        shutil.rmtree(root, ignore_errors=True)

    if "DATABASE_URL" not in os.environ:
        passwords = Passwords(*(secrets.token_hex(16) for _ in range(4)))
        cluster = open_cluster(places, passwords, throwaway=not durable)
        cluster.make()
        # SIGQUIT: leave at once, write nothing.
        server = start(cluster.command(), log, places.as_user(), signal.SIGQUIT)
        children.append((server, signal.SIGQUIT))
        _wait(cluster.answers, root / "servers.log")
        # Tests create databases and extensions and change roles: they need the superuser.
        os.environ["DATABASE_URL"] = cluster.url(SUPERUSER, database="postgres")
    if "REDIS_URL" not in os.environ:
        valkey = open_valkey(places, password=secrets.token_hex(16), port=free_port())
        valkey.make()
        server = start(valkey.command(), log, places.as_user(), signal.SIGKILL)
        children.append((server, signal.SIGKILL))
        _wait(valkey.answers, root / "servers.log")
        os.environ["REDIS_URL"] = valkey.url


def _wait(ready: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"a test server did not start:\n{log.read_text()}")
        time.sleep(0.05)


def _remove_leftovers() -> None:
    """Remove the folders of sessions that were killed; the kernel has ended their servers."""
    for folder in Path("/tmp").glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)
