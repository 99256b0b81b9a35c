"""Deadlines and timers: what is late moves on, but nobody is failed for our own silence."""

from datetime import timedelta

import pytest

from billing.models import Hold, Run
from rental.instances import passes, services
from rental.instances.models import Instance
from rental.instances.states import InstanceState
from rental.tenants.models import AuditEvent
from scheduler.models import Request, Slice
from tests.factories.rental import (
    NOON,
    PERSON,
    allocation_of,
    confirm_wiped,
    fresh,
    listen,
    make_running,
    order,
    says,
    seconds,
    set_liveness,
)

pytestmark = pytest.mark.django_db
S = InstanceState
LONG_AGO = NOON - timedelta(minutes=5)


def make_late(tenant, state):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    for phase in {"provisioning": [], "pulling": ["accepted"], "starting": ["starting"]}[state]:
        says(instance, phase, now=NOON)
    return fresh(instance)


@pytest.mark.parametrize(
    ("state", "allowance"),
    [("provisioning", 120), ("pulling", 30 * 60), ("starting", 300)],
)
def test_a_start_that_is_late_fails_and_costs_nothing(market, tenant, state, allowance):
    instance = make_late(tenant, state)
    late = NOON + seconds(allowance)
    listen(since=late - seconds(70), until=late)

    passes.deadlines(now=late - seconds(1))
    assert fresh(instance).state == state
    passes.deadlines(now=late)

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.FAILED, {"code": f"{state}_late"})
    assert Run.objects.get(instance_id=row.id).closed_at_tick == 0
    assert not Hold.objects.filter(state="pending").exists()
    assert allocation_of(row).want == "gone"
    says(row, "gone", now=late + seconds(1))
    assert not Slice.objects.filter(released_at=None).exists()


def test_nobody_is_failed_while_the_control_plane_was_deaf(market, tenant):
    instance = make_late(tenant, "provisioning")
    late = NOON + seconds(120)

    # no gateway at all
    passes.deadlines(now=late)
    assert fresh(instance).state == S.PROVISIONING
    assert fresh(instance).deadline_at == late + seconds(120)

    # a gateway that started 59 s before
    late += seconds(120)
    listen(since=late - seconds(59), until=late)
    passes.deadlines(now=late)
    assert fresh(instance).state == S.PROVISIONING

    # 60 s without a hole, and the deadline that was put off has passed too
    late += seconds(120)
    listen(since=late - seconds(120), until=late)
    passes.deadlines(now=late)
    assert fresh(instance).state == S.FAILED


def test_a_hole_begins_the_minute_anew(market, tenant):
    instance = make_late(tenant, "provisioning")
    late = NOON + seconds(120)
    listen(since=NOON, until=late - seconds(30))
    listen(since=late - seconds(20), until=late)

    passes.deadlines(now=late)

    assert fresh(instance).state == S.PROVISIONING


@pytest.mark.parametrize("status", ["suspect", "lost"])
def test_time_in_which_the_node_is_silent_does_not_count(market, tenant, status):
    instance = make_late(tenant, "starting")
    late = NOON + seconds(300)
    listen(since=NOON, until=late)
    set_liveness(market, status)

    passes.deadlines(now=late)
    assert fresh(instance).state == S.STARTING

    set_liveness(market, "live")
    passes.deadlines(now=late)
    assert fresh(instance).state == S.STARTING, "it has its whole allowance again"


def test_a_request_that_waits_a_day_expires_and_frees_its_hold(market, tenant):
    order(tenant, count=10)
    passes.place(now=NOON)
    (instance,) = order(tenant)
    passes.place(now=NOON)
    assert fresh(instance).state == S.QUEUED

    passes.deadlines(now=NOON + timedelta(hours=24))

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.FAILED, {"code": "queue_expired"})
    assert not Hold.objects.filter(instance_id=row.id, state="pending").exists()
    assert Request.objects.get(instance_id=row.id).state in ("expired", "cancelled")


def test_a_request_that_the_scheduler_expired_is_seen_by_the_pass(market, tenant):
    order(tenant, count=10)
    passes.place(now=NOON)
    (instance,) = order(tenant)

    passes.place(now=NOON + timedelta(hours=24))

    assert fresh(instance).state_reason == {"code": "queue_expired"}


def test_a_stop_that_is_late_is_stopped_for_the_customer_and_told_to_the_operator(market, tenant):
    instance = make_running(tenant)
    stop(instance, now=NOON)
    late = NOON + seconds(120)
    listen(since=NOON, until=late)

    passes.deadlines(now=late)

    row = fresh(instance)
    assert (row.state, row.health) == (S.STOPPED, "unknown")
    assert row.state_reason == {"code": "user", "waits_for_node": True}
    assert AuditEvent.objects.filter(verb="instance.stop_late").exists()
    assert Slice.objects.filter(released_at=None).exists()


def test_a_release_that_is_late_stays_and_is_told_to_the_operator(market, tenant):
    instance = make_running(tenant)
    services.release_instance(tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON)
    late = NOON + timedelta(minutes=10)
    listen(since=LONG_AGO, until=late)

    passes.deadlines(now=late)

    row = fresh(instance)
    assert (row.state, row.deadline_at) == (S.RELEASING, late + timedelta(minutes=10))
    assert AuditEvent.objects.filter(verb="instance.release_late").count() == 1
    says(row, "gone", now=late + seconds(1))
    confirm_wiped(row, now=late + seconds(2))
    assert fresh(row).state == S.DELETED


def test_what_lay_in_the_bin_for_72_hours_is_deleted(market, tenant):
    instance = make_running(tenant)
    stop(instance, now=NOON)
    says(instance, "gone", now=NOON)
    row = fresh(instance)
    row.move_to(S.RELEASING, at=NOON)
    row.move_to(S.RECYCLED, at=NOON)

    passes.deadlines(now=NOON + timedelta(hours=72) - seconds(1))
    assert fresh(instance).state == S.RECYCLED
    passes.deadlines(now=NOON + timedelta(hours=72))

    assert fresh(instance).state == S.DELETED


def stop(instance, *, now):
    services.stop_instance(
        tenant_id=instance.tenant_id, instance_id=instance.id, actor=PERSON, now=now
    )


# --- timers


def set_timer(instance, **fields):
    Instance.objects.filter(pk=instance.pk).update(**fields)


def test_auto_stop_ends_the_bill_at_its_instant_and_not_at_the_sweeps(market, tenant):
    instance = make_running(tenant)
    set_timer(instance, auto_stop_at=NOON + seconds(60))

    passes.deadlines(now=NOON + seconds(59))
    assert fresh(instance).state == S.RUNNING
    passes.deadlines(now=NOON + seconds(99))

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.STOPPING, {"code": "auto_stop"})
    assert Run.objects.get(instance_id=row.id).closed_at == NOON + seconds(60)


def test_the_longest_duration_counts_from_readiness_and_survives_a_restart(market, tenant):
    instance = make_running(tenant)
    set_timer(instance, max_duration_s=100)
    services.restart_instance(
        tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON + seconds(50)
    )
    says(instance, "running", now=NOON + seconds(55))

    passes.deadlines(now=NOON + seconds(99))
    assert fresh(instance).state == S.RUNNING
    passes.deadlines(now=NOON + seconds(100))

    row = fresh(instance)
    assert row.state_reason == {"code": "max_duration"}
    assert Run.objects.order_by("-opened_at").first().closed_at == NOON + seconds(100)


def test_the_earlier_of_two_timers_is_the_reason(market, tenant):
    instance = make_running(tenant)
    set_timer(instance, max_duration_s=50, auto_stop_at=NOON + seconds(40))

    passes.deadlines(now=NOON + seconds(99))

    assert fresh(instance).state_reason == {"code": "auto_stop"}


def test_auto_stop_does_not_wait_for_a_start_to_end(market, tenant):
    instance = make_late(tenant, "pulling")
    set_timer(instance, auto_stop_at=NOON + seconds(10))

    passes.deadlines(now=NOON + seconds(11))

    assert fresh(instance).state_reason == {"code": "auto_stop"}
    assert Run.objects.get(instance_id=instance.id).closed_at_tick == 0


def test_a_timer_of_an_earlier_session_does_nothing(market, tenant):
    instance = make_running(tenant)
    set_timer(instance, auto_stop_at=NOON, auto_release_at=NOON, session=2, timers_session=1)

    passes.deadlines(now=NOON + seconds(99))

    assert fresh(instance).state == S.RUNNING


@pytest.mark.parametrize("stopped", [True, False])
def test_auto_release(market, tenant, stopped):
    instance = make_running(tenant)
    if stopped:
        stop(instance, now=NOON)
        says(instance, "gone", now=NOON)
    set_timer(instance, auto_release_at=NOON + seconds(60))

    passes.deadlines(now=NOON + seconds(60))

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.RELEASING, {"code": "auto_release"})
    assert not Run.objects.filter(closed_at=None).exists()


def test_a_protected_instance_is_not_released_by_a_timer(market, tenant):
    instance = make_running(tenant)
    set_timer(instance, auto_release_at=NOON, protected=True)

    passes.deadlines(now=NOON + seconds(60))

    assert fresh(instance).state == S.RUNNING


def test_disks_on_a_silent_node_make_no_late_release(market, tenant):
    # stopped long ago: nothing but its disks is on the node
    instance = make_running(tenant)
    services.stop_instance(tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON)
    says(instance, "gone", now=NOON)
    services.release_instance(tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON)
    set_liveness(market, "lost")
    late = NOON + timedelta(minutes=10)
    listen(since=LONG_AGO, until=late)

    passes.deadlines(now=late)

    assert not AuditEvent.objects.filter(verb="instance.release_late").exists()
    assert fresh(instance).deadline_at == late + timedelta(minutes=10)
