"""Taking PostgreSQL away from the gateways, and from nobody else."""

import contextlib

import psycopg
from django.db import connection


@contextlib.contextmanager
def database_away():
    """Refuse new connections to the test database and end the gateways'; this test's own stays."""
    settings = connection.settings_dict
    name = settings["NAME"]
    with psycopg.connect(
        dbname="postgres",
        host=settings["HOST"],
        port=settings["PORT"] or None,
        user=settings["USER"],
        password=settings["PASSWORD"] or None,
        autocommit=True,
    ) as operator:
        operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            end_connections(operator, name)
            yield
        finally:
            operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def end_connections(operator, name):
    operator.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = %s AND application_name LIKE 'gateway-%%'",
        [name],
    )
