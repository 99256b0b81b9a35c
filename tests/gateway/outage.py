"""Taking PostgreSQL away from the gateways, and from nobody else."""

import contextlib

import psycopg
from django.db import connection


def another_connection(dbname=None):
    """A connection beside the test's own, to the test database unless said otherwise."""
    settings = connection.settings_dict
    return psycopg.connect(
        dbname=dbname or settings["NAME"],
        host=settings["HOST"],
        port=settings["PORT"] or None,
        user=settings["USER"],
        password=settings["PASSWORD"] or None,
        autocommit=True,
    )


@contextlib.contextmanager
def database_away():
    """Refuse new connections to the test database and end the gateways'; this test's own stays."""
    name = connection.settings_dict["NAME"]
    with another_connection("postgres") as operator:
        operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            operator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND application_name LIKE 'gateway-%%'",
                [name],
            )
            yield
        finally:
            operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
