"""Hints to Celery: the only place that publishes a task. A lost hint costs seconds, no more."""

import time
from typing import Any, Final, Protocol

import structlog
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

log = structlog.get_logger()

# Seconds. A hint that nobody took within a minute is stale: the sweeps have been by since.
EXPIRES: Final = 60

# Seconds. After a lost hint this process sends none for a while: each try costs the caller some
# seconds of connecting, and a request that creates something must not pay that every time. The
# sweeps come by more often than this.
PAUSE: Final = 5.0

_quiet_until = 0.0  # time.monotonic(); the process's own memory of the broker, lost at restart


class Task(Protocol):
    @property
    def name(self) -> str: ...

    def apply_async(self, *args: Any, **options: Any) -> Any: ...


def hint(task: Task, **kwargs: Any) -> None:
    """
    Ask a worker to run ``task(**kwargs)`` soon, once the present transaction has committed.

    Only a hint: a sweep finds the work anyway. A broker that is away is logged and forgotten,
    and left alone for ``PAUSE``; the caller's commit stands. With ``HINTS_ENABLED`` off nothing
    is sent and nothing said (the black-hole test).
    """
    if not settings.HINTS_ENABLED:
        return

    def publish() -> None:
        global _quiet_until
        if time.monotonic() < _quiet_until:
            return
        try:
            task.apply_async(kwargs=kwargs, expires=EXPIRES, retry=False)
        except (OperationalError, OSError) as error:  # the broker is away; kombu wraps the rest
            _quiet_until = time.monotonic() + PAUSE
            log.warning("hint.lost", task=task.name, error=str(error))

    transaction.on_commit(publish, robust=True)
