"""The gateway's connections to PostgreSQL, and PostgreSQL's clock while it cannot be asked."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import load_backend

from rental.records.clock import database_now

# libpq notices a dead host within about 5 s instead of the kernel's 15 minutes.
_NOTICE_DEAD_HOSTS = {
    "connect_timeout": 3,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}


def use_own_connection(name: str, overrides: Mapping[str, object]) -> None:
    """
    Give the calling thread a connection outside Django's pool, kept until it breaks.

    ``name`` is what pg_stat_activity shows.

    A pool would let one path starve another, and after an outage its reconnect back-off (minutes)
    would decide when usage flows again. ``overrides`` replaces entries of the settings (tests).
    """
    settings = {**connections.settings[DEFAULT_DB_ALIAS], **overrides}
    options = {key: value for key, value in settings["OPTIONS"].items() if key != "pool"}
    settings["OPTIONS"] = options | _NOTICE_DEAD_HOSTS | {"application_name": name}
    wrapper = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, DEFAULT_DB_ALIAS)
    connections[DEFAULT_DB_ALIAS] = wrapper


class DatabaseClock:
    """
    PostgreSQL's clock, carried on by CLOCK_BOOTTIME between two questions.

    When a frame came decides how many of its ticks count, and the closing of a run is a time of
    PostgreSQL: two hosts' clocks must not meet in one bill. The door asks before it lets an agent
    in, and a lane asks every second after that.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        seconds = self._offset + time.clock_gettime(time.CLOCK_BOOTTIME)
        return datetime.fromtimestamp(seconds, UTC)

    def ask(self) -> None:
        """Ask PostgreSQL, on the calling thread's connection; right to half a round trip."""
        asked = time.clock_gettime(time.CLOCK_BOOTTIME)
        answer = database_now()
        answered = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._offset = answer.timestamp() - (asked + answered) / 2
