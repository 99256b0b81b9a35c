"""One effect and one answer for each key, whatever arrives at once."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from rental.records import idempotency
from rental.records.idempotency import (
    Answer,
    IdempotencyInProgress,
    IdempotencyKey,
    IdempotencyKeyReused,
    answer_once,
)
from rental.records.models import OutboxMessage

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
TENANT = uuid.UUID(int=1)
STRANGER = uuid.UUID(int=2)


def ask(run, *, tenant_id=TENANT, key="k1", request_hash="a" * 64, now=NOON):
    return answer_once(tenant_id=tenant_id, key=key, request_hash=request_hash, now=now, run=run)


def make_effect(name="effect"):
    """A visible effect: one row."""
    OutboxMessage.objects.create(
        topic="test", key=f"{name}-{uuid.uuid4()}", payload={}, created_at=NOON, due_at=NOON
    )
    return Answer(201, {"id": "ins_1", "made": str(uuid.uuid4())})


def effects():
    return OutboxMessage.objects.count()


@pytest.mark.django_db
def test_a_copy_gets_the_stored_answer_and_has_no_effect():
    first = ask(make_effect)
    second = ask(make_effect)

    assert second == first
    assert (first.replayed, second.replayed) == (False, True)
    assert effects() == 1


@pytest.mark.django_db
def test_the_key_with_another_request_is_refused_and_has_no_effect():
    first = ask(make_effect)

    with pytest.raises(IdempotencyKeyReused) as refusal:
        ask(make_effect, request_hash="b" * 64)

    assert refusal.value.key == "k1"
    assert effects() == 1
    assert ask(make_effect) == first


@pytest.mark.django_db
def test_the_same_key_of_another_tenant_is_another_key():
    ask(make_effect)
    ask(make_effect, tenant_id=STRANGER)

    assert effects() == 2
    assert IdempotencyKey.objects.of(TENANT).count() == 1
    assert IdempotencyKey.objects.of(STRANGER).count() == 1


@pytest.mark.django_db
def test_a_failure_stores_nothing_and_the_key_can_be_used_again():
    def fail():
        make_effect()
        raise RuntimeError("no capacity")

    with pytest.raises(RuntimeError, match="no capacity"):
        ask(fail)

    assert effects() == 0
    assert not IdempotencyKey.objects.exists()
    assert ask(make_effect).status == 201
    assert effects() == 1


@pytest.mark.django_db
def test_a_secret_is_answered_once_and_not_stored():
    first = ask(lambda: Answer(201, {"secret": "s"}, kept={"secret": None}))
    second = ask(make_effect)

    assert first.body == {"secret": "s"}
    assert second.body == {"secret": None}
    assert IdempotencyKey.objects.get().body == {"secret": None}


@pytest.mark.django_db
def test_the_effect_keeps_the_lock_timeout_that_it_had():
    def limit():
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            return Answer(200, cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '1234ms'")

    assert ask(limit).body == "1234ms"


@pytest.mark.django_db
def test_old_keys_are_forgotten_and_young_ones_kept():
    ask(make_effect, key="old", now=NOON - timedelta(days=7, seconds=1))
    ask(make_effect, key="young", now=NOON - timedelta(days=7))

    assert idempotency.forget_before(NOON - idempotency.KEEP) == 1
    assert IdempotencyKey.objects.get().key == "young"


@pytest.mark.django_db(transaction=True)
def test_64_copies_at_once_have_one_effect_and_equal_answers():
    copies = 64
    start = threading.Barrier(copies)

    def copy(_number):
        try:
            start.wait()
            return ask(make_effect)
        finally:
            connection.close()

    with ThreadPoolExecutor(copies) as pool:
        answers = list(pool.map(copy, range(copies)))

    assert effects() == 1
    assert answers == [answers[0]] * copies
    assert sum(not answer.replayed for answer in answers) == 1
    assert IdempotencyKey.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_when_the_first_fails_one_of_the_waiting_copies_takes_its_place():
    first_is_in = threading.Event()
    copies_wait = threading.Event()

    def fail():
        make_effect()
        first_is_in.set()
        assert copies_wait.wait(10)
        raise RuntimeError("the first one failed")

    def first():
        try:
            with pytest.raises(RuntimeError):
                ask(fail)
        finally:
            connection.close()

    def copy(_number):
        try:
            return ask(make_effect)
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as pool:
        failing = pool.submit(first)
        assert first_is_in.wait(10)
        waiting = [pool.submit(copy, number) for number in range(4)]
        wait_until_blocked(4)
        copies_wait.set()
        failing.result()
        answers = [future.result() for future in waiting]

    assert effects() == 1
    assert answers == [answers[0]] * 4


@pytest.mark.django_db(transaction=True)
def test_a_copy_that_waits_too_long_is_told_so_and_has_no_effect(monkeypatch):
    monkeypatch.setattr(idempotency, "WAIT", timedelta(milliseconds=150))
    first_is_in = threading.Event()
    done = threading.Event()

    def slow():
        first_is_in.set()
        assert done.wait(10)
        return make_effect()

    def first():
        try:
            return ask(slow)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first)
        assert first_is_in.wait(10)
        began = time.monotonic()
        with pytest.raises(IdempotencyInProgress):
            ask(make_effect)
        waited = time.monotonic() - began
        done.set()
        answer = running.result()

    assert 0.14 < waited < 3
    assert effects() == 1
    assert ask(make_effect) == answer


@pytest.mark.django_db(transaction=True)
def test_the_caller_can_go_on_after_a_copy_was_refused(monkeypatch):
    """The refusal takes its savepoint along, not the transaction around it."""
    ask(make_effect)

    with transaction.atomic():
        with pytest.raises(IdempotencyKeyReused):
            ask(make_effect, request_hash="b" * 64)
        make_effect()

    assert effects() == 2


def wait_until_blocked(count):
    """Return when ``count`` sessions stand at another's row; PostgreSQL says so."""
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(query)
            if cursor.fetchone()[0] >= count:
                return
    raise AssertionError(f"{count} sessions never waited")
