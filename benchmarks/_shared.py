"""What the benchmarks share: a scratch database, worker processes, a table and one JSON line."""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from typing import Any
from urllib.parse import urlsplit, urlunsplit

# Under the scheduler's worst wait, and long enough that a hung worker is noticed.
PATIENCE = 600  # s


def setup_django(url: str | None = None) -> None:
    """
    Set Django up, on another database than DATABASE_URL's if ``url`` is given. Without either, on
    a server of our own that commits to the disk.
    """
    if url is not None:
        os.environ["DATABASE_URL"] = url
    elif "DATABASE_URL" not in os.environ:
        from config.embedded.throwaway import start_throwaway

        start_throwaway(durable=True)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


@contextmanager
def scratch_database(name: str) -> Iterator[str]:
    """
    Make a migrated database beside the one of DATABASE_URL, on the same server with its own
    settings for durability, and drop it afterwards. Yields its URL.
    """
    setup_django()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    url = os.environ["DATABASE_URL"]
    scratch = f"{connection.settings_dict['NAME']}_{name}"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{scratch}" WITH (FORCE)')
        cursor.execute(f'CREATE DATABASE "{scratch}"')
    connection.close()
    first = settings.DATABASES["default"]["NAME"]
    settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = scratch
    try:
        call_command("migrate", verbosity=0)
        yield urlunsplit(urlsplit(url)._replace(path=f"/{scratch}"))
    finally:
        connection.close()
        settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = first
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{scratch}" WITH (FORCE)')
        connection.close()


def _begin(
    url: str,
    work: Callable[..., Any],
    index: int,
    count: int,
    barrier: Barrier,
    answers: Any,
    options: Mapping[str, Any],
) -> None:
    setup_django(url)
    answers.put((index, work(index=index, count=count, barrier=barrier, **options)))


def in_processes(
    url: str, work: Callable[..., Any], *, count: int, **options: Any
) -> tuple[list[Any], float]:
    """
    Run ``work(index, count, barrier, **options)`` in fresh processes. Each calls
    ``barrier.wait()`` when it is ready and once more when its measured part is done. Return the
    answers and the seconds between.
    """
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(count + 1), context.Queue()
    workers = [
        context.Process(target=_begin, args=(url, work, i, count, barrier, answers, options))
        for i in range(count)
    ]
    for worker in workers:
        worker.start()
    barrier.wait(PATIENCE)
    start = time.perf_counter()
    barrier.wait(PATIENCE)
    seconds = time.perf_counter() - start
    results = dict(answers.get(timeout=PATIENCE) for _ in workers)
    for worker in workers:
        worker.join(PATIENCE)
    return [results[i] for i in range(count)], seconds


def server_facts() -> dict[str, Any]:
    """Return what a figure depends on: the machine, its load, and whether commits are durable."""
    from django.db import connection

    facts: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    with connection.cursor() as cursor:
        for name in ("server_version", "fsync", "synchronous_commit", "shared_buffers"):
            cursor.execute(f"SHOW {name}")
            facts[name] = cursor.fetchone()[0]
    return facts


def spin_ms() -> float:
    """
    Return the milliseconds of CPU that a fixed piece of Python takes here and now. Shared machines
    double it from one minute to the next: results compare only where it is alike.
    """
    began = time.thread_time()
    words: dict[int, str] = {}
    for number in range(300_000):
        words[number % 1_000] = f"{number:x}".upper()
    return 1_000 * (time.thread_time() - began)


def cpu_seconds() -> tuple[float, float]:
    """
    Return CPU seconds used so far by this process and by its database backend (NaN when that
    runs elsewhere): figures that a busy machine changes less than the clock.
    """
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        backend = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        backend = float("nan")
    return time.process_time(), backend


def print_table(title: str, rows: Sequence[tuple[str, object]]) -> None:
    width = max(len(name) for name, _ in rows)
    lines = [title, *(f"  {name:<{width}}  {value}" for name, value in rows)]
    sys.stdout.write("\n".join(lines) + "\n")


def print_json(figures: Mapping[str, Any]) -> None:
    """The last line of a benchmark, for machines."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()
