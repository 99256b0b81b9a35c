"""The outbox: put with the cause, delivered at least once, never twice at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from rental.records import outbox
from rental.records.models import OutboxMessage

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def put(key="m1", topic="mail", now=NOON):
    with transaction.atomic():
        outbox.put(topic=topic, key=key, payload={"to": "usr_1"}, now=now)


@pytest.mark.django_db
def test_a_message_is_sent_once():
    put()
    seen = []

    assert outbox.relay(now=NOON, consume=seen.append) == 1
    assert outbox.relay(now=NOON + timedelta(hours=2), consume=seen.append) == 0

    assert [(message.topic, message.key, message.payload) for message in seen] == [
        ("mail", "m1", {"to": "usr_1"})
    ]
    row = OutboxMessage.objects.get()
    assert (row.sent_at, row.attempts) == (NOON, 1)


@pytest.mark.django_db
def test_the_same_key_is_put_once_a_topic():
    put()
    put()
    put(topic="webhook")

    assert OutboxMessage.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_message_outside_of_a_transaction_is_a_bug():
    with pytest.raises(RuntimeError):
        outbox.put(topic="mail", key="m1", payload={}, now=NOON)
    assert not OutboxMessage.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_change_that_is_rolled_back_sends_nothing():
    with transaction.atomic():
        outbox.put(topic="mail", key="m1", payload={}, now=NOON)
        transaction.set_rollback(True)

    assert outbox.relay(now=NOON) == 0
    assert not OutboxMessage.objects.exists()


@pytest.mark.django_db
def test_a_bad_message_comes_again_after_its_retry_time_and_stops_no_other():
    put("bad", now=NOON - timedelta(seconds=1))
    put("good")

    def consume(message):
        if message.key == "bad":
            raise OSError("provider is away")

    assert outbox.relay(now=NOON, consume=consume) == 1

    bad = OutboxMessage.objects.get(key="bad")
    assert (bad.sent_at, bad.attempts, bad.due_at) == (None, 1, NOON + timedelta(minutes=1))
    assert outbox.relay(now=NOON + timedelta(seconds=59)) == 0
    assert outbox.relay(now=NOON + timedelta(seconds=60)) == 1


def test_retries_slow_down_to_one_an_hour():
    minutes = [outbox.retry_after(attempt) // timedelta(minutes=1) for attempt in range(1, 10)]

    assert minutes == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert outbox.retry_after(10**6) == timedelta(hours=1)


@pytest.mark.django_db(transaction=True)
def test_relays_at_once_send_each_message_once():
    for number in range(60):
        put(f"m{number}")
    start = threading.Barrier(4)
    sent = []

    def run(_number):
        try:
            start.wait()
            return outbox.relay(now=NOON, consume=lambda message: sent.append(message.key))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(run, range(4)))

    assert sum(counts) == 60
    assert sorted(sent) == sorted(f"m{number}" for number in range(60))


@pytest.mark.django_db
def test_sent_messages_are_forgotten_and_unsent_ones_never():
    put("sent", now=NOON - timedelta(days=30))
    outbox.relay(now=NOON - timedelta(days=7, seconds=1))
    put("unsent", now=NOON - timedelta(days=30))

    assert outbox.forget_before(NOON - outbox.KEEP) == 1
    assert OutboxMessage.objects.get().key == "unsent"
