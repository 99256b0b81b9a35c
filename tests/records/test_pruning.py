"""Deleting by batches."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction

from rental.records.models import PeriodicRun
from rental.records.pruning import forget
from tests.factories.tenants import NOON


@pytest.mark.django_db
@pytest.mark.parametrize("many", [0, 2, 3, 4])
def test_all_that_is_asked_goes_and_nothing_else(many):
    for number in range(many):
        PeriodicRun.objects.create(name="old", slot=NOON + timedelta(hours=number))
    PeriodicRun.objects.create(name="other", slot=NOON)

    assert forget(PeriodicRun.objects.filter(name="old"), batch=2) == many

    assert [row.name for row in PeriodicRun.objects.all()] == ["other"]


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_left():
    held = PeriodicRun.objects.create(name="old", slot=NOON)
    PeriodicRun.objects.create(name="old", slot=NOON + timedelta(hours=1))
    counts = []

    def prune():
        try:
            counts.append(forget(PeriodicRun.objects.filter(name="old")))
        finally:
            connection.close()

    with transaction.atomic():
        PeriodicRun.objects.select_for_update().get(pk=held.pk)
        other = threading.Thread(target=prune)
        other.start()
        other.join(10)

    assert counts == [1]
    assert PeriodicRun.objects.get() == held
