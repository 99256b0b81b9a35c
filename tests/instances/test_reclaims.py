"""Spot that makes room: who is told, until when it is charged, who gets the place, who may stay."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from billing.models import Run
from rental.instances import passes, reclaims, services
from rental.instances.models import Notice
from rental.instances.respec import tell_node
from rental.instances.states import InstanceState
from rental.records.models import OutboxMessage
from scheduler.models import Node, Reclaim, Request
from scheduler.services.reclaims import level_reclaims
from tests.factories.rental import (
    NOON,
    PERSON,
    allocation_of,
    confirm_wiped,
    fresh,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
    run_up,
    says,
    seconds,
)

pytestmark = pytest.mark.django_db
S = InstanceState
TOLD = NOON + seconds(10)
DEADLINE = TOLD + seconds(300)


@pytest.fixture
def spot(db):
    """A spot instance that holds the only card; ready at noon."""
    make_offer("card", tenths=10, markets=["on_demand", "spot"])
    make_image()
    make_node()
    (instance,) = order(make_rich_tenant(), offer="card", market="spot")
    run_up(instance)
    Run.objects.filter(instance_id=instance.pk).update(started_at=NOON)  # as its node reports
    return fresh(instance)


def ask(tenant=None, *, market="on_demand", now=TOLD):
    """Order the card, which is taken."""
    (instance,) = order(tenant or make_rich_tenant(), offer="card", market=market, now=now)
    passes.place(now=now)
    return instance


def messages(verb):
    return list(OutboxMessage.objects.filter(topic=f"instance.notice_{verb}"))


def test_who_needs_the_place_has_it_said_once_and_five_minutes_ahead(spot):
    wanting = ask()
    passes.place(now=TOLD + seconds(2))

    (row,) = Reclaim.objects.all()
    assert row.allocation_id == allocation_of(spot).pk
    assert row.request_id == fresh(wanting).request_id
    assert (row.given_at, row.reclaim_at, row.withdrawn_at, row.done_at) == (
        TOLD,
        DEADLINE,
        None,
        None,
    )

    for late in (1, 2):
        reclaims.reclaim(now=TOLD + seconds(late))

    (notice,) = Notice.objects.filter(instance=spot)
    assert (notice.kind, notice.deadline, notice.withdrawn_at) == ("spot", DEADLINE, None)
    (message,) = messages("given")
    assert (message.payload["kind"], message.payload["deadline"]) == ("spot", DEADLINE.isoformat())
    assert fresh(spot).state == S.RUNNING


@pytest.mark.parametrize(("after", "ticks"), [(0, 52), (2, 52), (3_600, 52)])
def test_it_ends_at_the_deadline_however_late_the_pass_comes(spot, after, ticks):
    """310 s after it was ready: tick 51 has begun and counts."""
    ask()
    reclaims.reclaim(now=DEADLINE - seconds(0.001))
    assert fresh(spot).state == S.RUNNING

    reclaims.reclaim(now=DEADLINE + seconds(after))

    run = Run.objects.get(pk=spot.run_id)
    assert run.closed_at_tick == ticks
    ended = fresh(spot)
    assert (ended.state, ended.state_reason["code"]) == (S.STOPPING, "reclaimed")
    assert Reclaim.objects.get().done_at == DEADLINE + seconds(after)
    assert messages("withdrawn") == []  # it came true


def stop(spot, *, now):
    services.stop_instance(tenant_id=spot.tenant_id, instance_id=spot.pk, actor=PERSON, now=now)


def leave(spot, *, now):
    says(spot, "exited", now=now)
    passes.sync(now=now)


def give_back(spot, *, now):
    services.release_instance(tenant_id=spot.tenant_id, instance_id=spot.pk, actor=PERSON, now=now)


@pytest.mark.parametrize("end", [stop, leave, give_back])
def test_whatever_ends_it_before_a_late_pass_nothing_is_charged_past_the_deadline(spot, end):
    ask()
    reclaims.reclaim(now=TOLD)

    end(spot, now=DEADLINE + seconds(60))
    reclaims.reclaim(now=DEADLINE + seconds(61))

    assert Run.objects.get(pk=spot.run_id).closed_at_tick == 52


@pytest.mark.parametrize(("late", "ticks"), [(0, 50), (1, 50), (-1, 51)])
def test_a_deadline_on_a_tick_begins_no_further_one(spot, late, ticks):
    """Started 300 s before it, to the microsecond, and one later, one earlier."""
    start = DEADLINE - seconds(300) + timedelta(microseconds=late)
    Run.objects.filter(pk=spot.run_id).update(started_at=start)
    ask()

    reclaims.reclaim(now=DEADLINE + seconds(100))

    assert Run.objects.get(pk=spot.run_id).closed_at_tick == ticks


def test_who_needed_it_gets_it_and_nobody_else(spot):
    """Another one has waited as long, and has less: he was promised nothing."""
    wanting = ask()
    other = ask(now=TOLD + seconds(1))
    assert Reclaim.objects.count() == 1
    reclaims.reclaim(now=DEADLINE)
    Request.objects.filter(pk=fresh(other).request_id).update(
        requested_at=TOLD - timedelta(hours=1)
    )

    says(spot, "gone", now=DEADLINE + seconds(1))
    confirm_wiped(spot, now=DEADLINE + seconds(1))
    passes.place(now=DEADLINE + seconds(2))

    assert fresh(wanting).state == S.PROVISIONING
    assert fresh(other).state == S.QUEUED


def test_a_stop_before_the_deadline_is_charged_to_the_stop(spot):
    ask()
    reclaims.reclaim(now=TOLD)
    services.stop_instance(
        tenant_id=spot.tenant_id, instance_id=spot.pk, actor=PERSON, now=NOON + seconds(100)
    )
    reclaims.reclaim(now=DEADLINE)

    assert Run.objects.get(pk=spot.run_id).closed_at_tick == 17
    assert Reclaim.objects.get().done_at is not None
    assert fresh(spot).state_reason.get("code") != "reclaimed"


def test_a_notice_that_is_withdrawn_stays_to_be_read_and_leaves_no_trace_in_money(spot):
    wanting = ask()
    reclaims.reclaim(now=TOLD)
    services.stop_instance(
        tenant_id=wanting.tenant_id, instance_id=wanting.pk, actor=PERSON, now=TOLD + seconds(60)
    )
    passes.place(now=TOLD + seconds(61))
    reclaims.reclaim(now=TOLD + seconds(62))
    reclaims.reclaim(now=DEADLINE + seconds(1))

    assert Reclaim.objects.get().withdrawn_at == TOLD + seconds(61)
    notice = Notice.objects.get(instance=spot)
    assert (notice.deadline, notice.withdrawn_at) == (DEADLINE, TOLD + seconds(62))
    assert len(messages("withdrawn")) == 1
    run = Run.objects.get(pk=spot.run_id)
    assert (fresh(spot).state, run.closed_at, run.closed_at_tick) == (S.RUNNING, None, None)


def test_spot_asks_nobody_to_leave(spot):
    ask(market="spot")

    assert not Reclaim.objects.exists()


def test_nobody_leaves_where_there_is_room(spot):
    make_node()
    wanting = ask()

    assert fresh(wanting).state == S.PROVISIONING
    assert not Reclaim.objects.exists()


def test_the_database_keeps_one_notice_of_an_allocation(spot):
    ask()
    level_reclaims(now=TOLD + seconds(5))
    row = Reclaim.objects.get()

    with pytest.raises(IntegrityError, match="allocation_has_one_standing_reclaim"):
        Reclaim.objects.create(
            tenant_id=row.tenant_id,
            allocation_id=row.allocation_id,
            request_id=row.request_id,
            given_at=TOLD,
            reclaim_at=DEADLINE,
        )


def test_its_node_is_told_so_that_the_instance_reads_it_itself(spot):
    """In its spec, which changes live; a change of something else does not lose it."""
    wanting = ask()
    version = Node.objects.get().version
    reclaims.reclaim(now=TOLD + seconds(1))
    assert Node.objects.get().version == version + 1  # its agent has something new to read
    told = allocation_of(spot)
    assert (told.spec["reclaim_at"], told.spec_rev) == ("2026-03-02T12:05:10Z", 2)

    with transaction.atomic():
        tell_node(fresh(spot), now=TOLD + seconds(2))
    assert allocation_of(spot).spec["reclaim_at"] == "2026-03-02T12:05:10Z"

    services.stop_instance(
        tenant_id=wanting.tenant_id, instance_id=wanting.pk, actor=PERSON, now=TOLD + seconds(60)
    )
    passes.place(now=TOLD + seconds(61))
    reclaims.reclaim(now=TOLD + seconds(62))
    assert "reclaim_at" not in allocation_of(spot).spec
