"""What the scheduler forgets, and what it must not."""

from datetime import timedelta

import pytest

from rental.records.ids import new_id
from scheduler import tasks
from scheduler.models import GatewayFlush, QuarantineEvent, Request
from scheduler.services.housekeeping import QUARANTINE_KEPT, REQUESTS_KEPT, keep_house
from scheduler.services.requests import cancel_request
from tests.factories.scheduler import NOON, make_allocation, make_node, make_request

pytestmark = pytest.mark.django_db

A_MOMENT = timedelta(seconds=1)


def quarantine(node, allocation_id, *, alive=False):
    return QuarantineEvent.objects.create(
        node=node,
        allocation_id=str(allocation_id),
        instance_id="i",
        incarnation=9,
        alive=alive,
        first_seen_at=NOON,
        last_seen_at=NOON,
    )


def test_requests_that_came_to_nothing_are_forgotten_after_90_days():
    placed = make_allocation().request
    cancelled, waiting = make_request(), make_request()
    cancel_request(instance_id=cancelled.instance_id, now=NOON)

    keep_house(now=NOON + REQUESTS_KEPT)
    assert Request.objects.count() == 3

    keep_house(now=NOON + REQUESTS_KEPT + A_MOMENT)
    assert set(Request.objects.all()) == {waiting, placed}


def test_quarantine_that_ended_is_forgotten_after_90_days():
    allocation = make_allocation()
    node = make_node()
    ended = quarantine(node, new_id())
    alive = quarantine(node, new_id(), alive=True)
    # a restart must number its container above this one
    needed = quarantine(allocation.node, allocation.id)

    keep_house(now=NOON + QUARANTINE_KEPT)
    assert set(QuarantineEvent.objects.all()) == {ended, alive, needed}

    keep_house(now=NOON + QUARANTINE_KEPT + A_MOMENT)
    assert set(QuarantineEvent.objects.all()) == {alive, needed}


def test_the_task_forgets_gateways_that_ended():
    GatewayFlush.objects.create(
        gateway_id="gone", started_at=NOON - timedelta(days=999), flushed_at=NOON.replace(year=2020)
    )

    tasks.keep_house()

    assert not GatewayFlush.objects.exists()
