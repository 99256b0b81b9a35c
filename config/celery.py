"""
Celery: hints and the beat. PostgreSQL holds the truth, so everything here may be lost.

Every entry of the beat names a pass that is safe to repeat, and expires when the next one is
due: a worker that was away finds one of each and not an hour of them.
Source: DESIGN §3.1; the settings answer the traps listed in docs/dependencies.md#celery.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from celery.schedules import crontab
from celery.signals import (
    after_task_publish,
    beat_init,
    setup_logging,
    task_postrun,
    worker_process_init,
    worker_ready,
)
from kombu import Connection

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings  # noqa: E402

# Longest wait between two tries to reach the broker, in seconds. Kombu's own grows to 30, which
# is longer than "all is level within 15 s of its return" allows.
LONGEST_PAUSE = 2
HOUR = 3600  # seconds


@dataclass(frozen=True)
class Nightly:
    """At a time of day, UTC."""

    hour: int
    minute: int


@dataclass(frozen=True)
class Hourly:
    minute: int


# name of the task -> seconds between two runs, or a place in the hour or the day
BEAT: dict[str, int | Hourly | Nightly] = {
    "instances.place": 2,
    "instances.sync": 1,
    "instances.deadlines": 5,
    "instances.compare": 300,
    "instances.watch": 1,
    "instances.drain": 5,
    "scheduler.recount": Nightly(19, 43),
    "billing.close_exhausted": 5,
    "billing.settle_closed": 30,
    "billing.settle": Hourly(7),  # off the full hour, when everybody else's cron runs
    "billing.audit": Nightly(19, 23),  # 03:23 in Shanghai
    "records.relay_outbox": 10,
    "records.housekeeping": Nightly(20, 11),
    "tenants.housekeeping": Nightly(20, 13),
    "catalog.forget_quotes": Nightly(20, 17),
    "scheduler.housekeeping": Nightly(20, 23),
    "instances.housekeeping": Nightly(20, 29),
}


class PatientConnection(Connection):
    """Worker and beat look for their broker every two seconds, however long it was away."""

    def _ensure_connection(  # type: ignore[override]  # the intervals are ours to set
        self, errback: Any = None, max_retries: Any = None, **kwargs: Any
    ) -> Any:
        if errback is not None:  # who waits wants to hear of it; a publisher does not wait
            kwargs |= {"interval_start": 1, "interval_step": 1, "interval_max": LONGEST_PAUSE}
        return super()._ensure_connection(errback, max_retries, **kwargs)


class PatientAMQP(AMQP):
    Connection = PatientConnection
    BrokerConnection = PatientConnection


def entry(name: str, when: int | Hourly | Nightly) -> dict[str, Any]:
    """Return one entry of the beat: what is published, when, and after how long it is stale."""
    schedule: timedelta | crontab
    match when:
        case Hourly(minute):
            schedule, expires = crontab(minute=minute), HOUR
        case Nightly(hour, minute):
            schedule, expires = crontab(hour=hour, minute=minute), 24 * HOUR
        case seconds:
            schedule, expires = timedelta(seconds=seconds), seconds
    return {"task": name, "schedule": schedule, "options": {"expires": expires}}


app = Celery("tessera", amqp=PatientAMQP)
app.conf.update(
    broker_url=settings.REDIS_URL,
    task_ignore_result=True,
    result_backend=None,
    task_serializer="json",
    accept_content=["json"],
    timezone="UTC",
    enable_utc=True,
    task_default_queue="slow",
    task_create_missing_queues=True,
    task_routes={"instances.*": {"queue": "drive"}, "scheduler.*": {"queue": "drive"}},
    beat_schedule={name: entry(name, when) for name, when in BEAT.items()},
    # A pass runs again when its worker died, and never twice for a mere reconnect.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    worker_soft_shutdown_timeout=10.0,
    broker_connection_retry=True,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_connection_timeout=2,
    # A hint is published quickly or not at all: a request waits for it.
    task_publish_retry=False,
    broker_transport_options={
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
        "visibility_timeout": 3600,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": 1,
        "socket_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry_on_timeout": False,
    },
)
app.autodiscover_tasks(
    ["rental.records", "rental.tenants", "billing", "scheduler", "rental.catalog",
     "rental.instances", "rental"]
)  # fmt: skip


@setup_logging.connect
def _keep_djangos_logging(**_kwargs: Any) -> None:
    """Celery would put its own handlers in place of config.logs."""
    import logging.config

    logging.config.dictConfig(settings.LOGGING)


@worker_process_init.connect
def _die_with_the_worker(**_kwargs: Any) -> None:
    """A prefork child whose parent was killed would wait forever on a pipe of its siblings."""
    import signal

    from config.embedded.children import die_with_parent

    die_with_parent(signal.SIGKILL)


@worker_ready.connect
@beat_init.connect
@task_postrun.connect
@after_task_publish.connect
def _show_life(**_kwargs: Any) -> None:
    """
    Touch ALIVE_FILE when something was done (worker: a task; beat: a publication).

    A worker can live and hear nothing after its broker was away; its supervisor sees the file
    grow old and starts it again. The beat publishes to every queue every few seconds.
    """
    if path := os.environ.get("ALIVE_FILE"):
        Path(path).touch()
