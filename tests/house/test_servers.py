"""The servers of the tests are there, and are not the developer's own."""

import pytest
import redis
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_a_postgresql_with_exclusion_on_ranges():
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int")
        version = cursor.fetchone()[0]
        cursor.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'btree_gist'")
        available = cursor.fetchone()[0]

    assert version >= 150000
    assert available == 1


def test_valkey_answers():
    assert redis.Redis.from_url(settings.REDIS_URL).ping()
