"""Slots: one pass a period, also when the first one fails."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from rental.records import periodic
from rental.records.clock import database_now
from rental.records.models import PeriodicRun
from rental.records.periodic import slot_of, take_slot

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def test_a_slot_is_the_start_of_its_period():
    minute = timedelta(minutes=1)

    assert slot_of(NOON, every=minute) == NOON
    assert slot_of(NOON + timedelta(seconds=59.999), every=minute) == NOON
    assert slot_of(NOON + minute, every=minute) == NOON + minute
    assert slot_of(NOON + timedelta(seconds=7), every=timedelta(seconds=5)) == NOON + timedelta(
        seconds=5
    )


@pytest.mark.django_db
def test_a_slot_is_taken_once_a_name():
    assert take_slot(name="a", slot=NOON) is True
    assert take_slot(name="a", slot=NOON) is False
    assert take_slot(name="b", slot=NOON) is True
    assert take_slot(name="a", slot=NOON + timedelta(seconds=5)) is True


@pytest.mark.django_db(transaction=True)
def test_a_slot_outside_of_a_transaction_is_a_bug():
    with pytest.raises(RuntimeError):
        take_slot(name="a", slot=NOON)
    assert not PeriodicRun.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_pass_that_fails_gives_its_slot_back():
    with transaction.atomic():
        assert take_slot(name="a", slot=NOON)
        transaction.set_rollback(True)

    with transaction.atomic():
        assert take_slot(name="a", slot=NOON) is True


@pytest.mark.django_db(transaction=True)
def test_of_16_workers_at_once_one_takes_the_slot():
    start = threading.Barrier(16)

    def work(_number):
        try:
            start.wait()
            with transaction.atomic():
                return take_slot(name="a", slot=NOON)
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(work, range(16)))

    assert sorted(taken) == [False] * 15 + [True]


@pytest.mark.django_db
def test_old_slots_are_forgotten():
    take_slot(name="a", slot=NOON - timedelta(days=2, seconds=1))
    take_slot(name="a", slot=NOON - timedelta(days=2))

    assert periodic.forget_before(NOON - periodic.KEEP) == 1
    assert PeriodicRun.objects.get().slot == NOON - timedelta(days=2)


@pytest.mark.django_db
def test_the_database_clock_is_aware_and_goes_on_inside_a_transaction():
    first, second = database_now(), database_now()

    assert first.utcoffset() == timedelta(0)
    assert second > first
