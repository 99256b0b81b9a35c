"""The places in the queue that pages show, read from PostgreSQL."""

from datetime import timedelta

import pytest

from rental.records.ids import new_id
from scheduler.models import Request
from scheduler.queries import queue_places
from scheduler.services.requests import cancel_request
from tests.factories.scheduler import (
    A_CARD,
    NOON,
    make_node,
    make_request,
    make_tenant,
    place,
)

pytestmark = pytest.mark.django_db
OF_NO_OTHER_TEST = NOON + timedelta(days=2)


def second(n):
    return NOON + timedelta(seconds=n)


def test_places_are_the_order_in_which_the_next_pass_serves():
    rich, poor = make_tenant(), make_tenant()
    make_node()
    make_request(tenant=rich, shape=A_CARD)
    place()
    rows = [
        make_request(tenant=tenant, shape=A_CARD, at=second(n))
        for n, tenant in enumerate([rich, rich, poor])
    ]
    ids = [row.id for row in rows]

    places = queue_places(ids, now=second(9))
    make_node(gpus=1)
    place(now=second(9))

    assert places == {ids[0]: 2, ids[1]: 3, ids[2]: 1}
    assert [Request.objects.get(pk=one).state for one in ids] == ["waiting", "waiting", "placed"]


def test_who_waits_no_more_has_no_place():
    gone, behind = make_request(shape=A_CARD), make_request(shape=A_CARD, at=second(1))
    cancel_request(instance_id=gone.instance_id, now=second(2))

    assert queue_places([gone.id, behind.id, new_id()], now=second(2)) == {behind.id: 1}


@pytest.mark.parametrize("waiting", [1, 7])
def test_costs_the_same_queries_however_many_wait(waiting, django_assert_num_queries):
    rows = [make_request(shape=A_CARD, at=second(n)) for n in range(waiting)]

    with django_assert_num_queries(3):
        queue_places([rows[0].id], now=second(9))
    with django_assert_num_queries(0):
        queue_places([], now=second(9))


def test_is_kept_for_a_moment_and_read_anew_for_who_came_since(settings, django_assert_num_queries):
    settings.SCHEDULER_STOCK_KEPT = timedelta(seconds=10)
    first = make_request(shape=A_CARD)
    at = [OF_NO_OTHER_TEST + timedelta(seconds=n) for n in range(12)]
    Request.objects.update(expires_at=at[-1] + timedelta(days=1))
    assert queue_places([first.id], now=at[0]) == {first.id: 1}
    newcomer = make_request(shape=A_CARD, at=at[0])

    with django_assert_num_queries(0):
        assert queue_places([first.id], now=at[9]) == {first.id: 1}
    assert queue_places([newcomer.id], now=at[9]) == {newcomer.id: 2}
    with django_assert_num_queries(3):
        queue_places([first.id], now=at[9] + timedelta(seconds=10))
