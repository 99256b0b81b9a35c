"""The records' tasks, called as a worker calls them."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import connection, transaction

from rental.records import outbox, tasks
from rental.records.housekeeping import keep_house
from rental.records.models import IdempotencyKey, OutboxMessage, PeriodicRun
from rental.tenants import tasks as app_tasks

NOON = datetime(2041, 3, 2, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def test_housekeeping_makes_months_and_forgets_what_is_old():
    old = NOON - timedelta(days=8)
    IdempotencyKey.objects.create(
        tenant_id="00000000-0000-0000-0000-000000000001", key="k", request_hash="a", created_at=old
    )
    PeriodicRun.objects.create(name="a", slot=old)
    OutboxMessage.objects.create(
        topic="mail", key="m", payload={}, created_at=old, due_at=old, sent_at=old
    )

    for name, end in (("ended", NOON - timedelta(seconds=1)), ("open", NOON)):
        Session.objects.create(session_key=name, session_data="", expire_date=end)

    keep_house(now=NOON)
    keep_house(now=NOON)  # twice is once

    assert not IdempotencyKey.objects.exists()
    assert not PeriodicRun.objects.exists()
    assert not OutboxMessage.objects.exists()
    assert [session.pk for session in Session.objects.all()] == ["open"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('tenants_auditevent_2041_06') IS NOT NULL")
        assert cursor.fetchone() == (True,)


def test_the_tasks_have_stable_names_and_take_what_newer_senders_add():
    assert app_tasks.relay_outbox.name == "records.relay_outbox"
    assert app_tasks.keep_house.name == "records.housekeeping"
    with transaction.atomic():
        outbox.put(topic="mail", key="m", payload={}, now=NOON.replace(year=2020))

    tasks.relay_outbox(new_argument=1)
    tasks.keep_house(new_argument=1)

    assert OutboxMessage.objects.get().sent_at is not None
