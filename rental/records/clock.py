"""The database's clock: the one clock that passes deciding life, death or money go by."""

from datetime import datetime
from typing import cast

from django.db import connection


def database_now() -> datetime:
    """
    Return PostgreSQL's wall clock, aware, in UTC.

    ``clock_timestamp()`` and not ``now()``: the latter stands still within a transaction, and a
    pass that waited for a lock would decide by the time at which it began to wait.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cast(datetime, cursor.fetchone()[0])
