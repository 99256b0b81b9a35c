"""Connections of the event loop to PostgreSQL: apart from Django's, which would block it."""

from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections

# libpq notices a dead host within about 5 s instead of the kernel's 15 minutes.
_NOTICE_DEAD_HOSTS: dict[str, Any] = {
    "connect_timeout": 3,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
# What Django keeps among the options of libpq and libpq does not know.
_DJANGO_OWN = {"pool", "server_side_binding", "isolation_level", "assume_role"}


async def connect(name: str) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """
    Open a connection in autocommit; ``name`` is what pg_stat_activity shows.

    :raises psycopg.OperationalError: if the database is away
    """
    settings = connections.settings[DEFAULT_DB_ALIAS]
    options = {k: v for k, v in settings["OPTIONS"].items() if k not in _DJANGO_OWN}
    found = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
    }
    wanted = {key: value for key, value in found.items() if value}
    return await psycopg.AsyncConnection.connect(
        **(options | _NOTICE_DEAD_HOSTS | wanted), application_name=name, autocommit=True
    )
