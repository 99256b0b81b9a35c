"""A place that several spots leave one after another is kept together for who was promised it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from rental.records.ids import new_id
from scheduler.models import Allocation, Reclaim, RequestState
from scheduler.services.allocations import order_gone
from scheduler.services.reclaims import level_reclaims
from scheduler.services.requests import cancel_request, open_request
from tests.factories.scheduler import (
    A_CARD,
    NOON,
    make_node,
    make_tenant,
    make_zone,
    phase,
    place,
    say,
    spec_of,
)

pytestmark = pytest.mark.django_db
TWO_CARDS = replace(A_CARD, count=2, cpu_milli=16_000)


def after(seconds):
    return NOON + timedelta(seconds=seconds)


def ask(market, shape, *, tenant=None, at=NOON):
    instance_id = new_id()
    make_zone()
    return open_request(
        request_id=new_id(),
        tenant_id=(tenant or make_tenant()).id,
        instance_id=instance_id,
        shape=shape,
        market=market,
        region="test-1",
        spec=spec_of(instance_id),
        now=at,
    )


def decide(*, now):
    place(now=now)
    level_reclaims(now=now)


def leave(allocation, *, now):
    order_gone(allocation_id=allocation.id, now=now)
    allocation.refresh_from_db()
    say(phase(allocation, "gone", seq=1), at=now)


def state_of(request):
    request.refresh_from_db()
    return request.state


@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_half_of_a_promised_place_is_nobodys(market):
    make_node(gpus=2)
    tenant = make_tenant()
    for _ in range(2):
        ask("spot", A_CARD, tenant=tenant)
    place()
    first, second = Allocation.objects.order_by("id")
    large = ask("on_demand", TWO_CARDS, at=after(10))
    decide(now=after(10))
    assert Reclaim.objects.standing().count() == 2
    small = ask(market, A_CARD, at=after(20))

    leave(first, now=after(30))
    decide(now=after(31))

    assert (state_of(large), state_of(small)) == (RequestState.WAITING, RequestState.WAITING)
    assert small.reasons == {"held": 1}

    leave(second, now=after(310))
    decide(now=after(311))

    assert (state_of(large), state_of(small)) == (RequestState.PLACED, RequestState.WAITING)
    assert Reclaim.objects.count() == 2  # nobody else was told


def test_the_rest_is_anybodys_once_it_is_needed_no_more():
    make_node(gpus=2)
    tenant = make_tenant()
    for _ in range(2):
        ask("spot", A_CARD, tenant=tenant)
    place()
    first = Allocation.objects.order_by("id")[0]
    large = ask("on_demand", TWO_CARDS, at=after(10))
    decide(now=after(10))
    leave(first, now=after(30))
    small = ask("spot", A_CARD, at=after(40))

    cancel_request(instance_id=large.instance_id, now=after(50))
    decide(now=after(51))

    assert state_of(small) == RequestState.PLACED
    assert Reclaim.objects.standing().count() == 0


@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_the_free_card_beside_a_single_victim_is_nobodys(market):
    """Two cards, one spot: its place alone would not do, and it must not leave in vain."""
    make_node(gpus=2)
    ask("spot", A_CARD)
    place()
    victim = Allocation.objects.get()
    large = ask("on_demand", TWO_CARDS, at=after(10))
    decide(now=after(10))
    small = ask(market, A_CARD, at=after(20))
    decide(now=after(20))
    assert state_of(small) == RequestState.WAITING

    leave(victim, now=after(310))
    decide(now=after(311))

    assert state_of(large) == RequestState.PLACED


def test_nobody_is_told_to_leave_for_room_that_is_promised():
    """Of three spots two leave for the first request; who has left counts for no other."""
    make_node(gpus=3)
    one, other = make_tenant(), make_tenant()
    for tenant in (one, one, other):
        ask("spot", A_CARD, tenant=tenant)
    place()
    mine = list(Allocation.objects.filter(tenant=one).order_by("id"))
    ask("on_demand", TWO_CARDS, at=after(10))
    decide(now=after(10))
    assert set(Reclaim.objects.values_list("allocation_id", flat=True)) == {it.id for it in mine}

    leave(mine[0], now=after(20))
    decide(now=after(21))
    ask("on_demand", TWO_CARDS, at=after(30))
    decide(now=after(30))

    assert not Reclaim.objects.filter(allocation__tenant=other).exists()


def test_a_second_request_has_another_told_at_once():
    make_node(gpus=2)
    tenant = make_tenant()
    for _ in range(2):
        ask("spot", A_CARD, tenant=tenant)
    place()
    wanting = []
    for seconds in (10, 20):
        wanting.append(ask("on_demand", A_CARD, at=after(seconds)))
        decide(now=after(seconds))
    assert Reclaim.objects.standing().count() == 2

    for allocation in Allocation.objects.filter(tenant=tenant):
        leave(allocation, now=after(320))
    decide(now=after(321))

    assert [state_of(one) for one in wanting] == [RequestState.PLACED] * 2
