"""What happens to instances by itself: exits, failures, the end of money, silence, lost marks."""

from datetime import timedelta

import pytest
from django.db import transaction

from agents.protocol import RunReport, Stretch
from billing.metering import UsageReport, record
from billing.models import Hold, Run, Wallet
from billing.services.exhaust import close_exhausted
from rental.instances import money, passes, services
from rental.instances.level import level, locked_instance
from rental.instances.models import Instance, Notice, Operation
from rental.instances.notices import LADDER, level_balance_notices, step_of
from rental.instances.states import InstanceState
from rental.tenants.models import AuditEvent
from scheduler.models import Allocation, AllocationDirty, Slice
from scheduler.services.allocations import order_gone
from scheduler.services.place import run_pass
from tests.factories.rental import (
    NOON,
    PERSON,
    PRICE,
    allocation_of,
    fresh,
    make_rich_tenant,
    make_running,
    order,
    says,
    seconds,
    set_liveness,
)

pytestmark = pytest.mark.django_db
S = InstanceState


def pending_holds(instance):
    return Hold.objects.filter(instance_id=instance.id, state="pending")


def held_slices(instance):
    return Slice.objects.filter(allocation__instance_id=instance.id, released_at__isnull=True)


# --- what the guest and the node do


def test_a_guest_that_exits_is_stopped_with_its_code(market, tenant):
    instance = make_running(tenant)

    says(instance, "exited", now=NOON + seconds(30), age=5, exit_code=3)

    row = fresh(instance)
    assert (row.state, row.exit_code, row.desired_state) == (S.STOPPING, 3, "stopped")
    assert row.state_reason == {"code": "guest_exit", "exit_code": 3}
    run = Run.objects.get(instance_id=row.id)
    assert (run.closed_at, run.close_reason) == (NOON + seconds(30), "guest_exit")
    assert not pending_holds(row).exists()
    assert allocation_of(row).want == "gone"

    says(row, "gone", now=NOON + seconds(31))
    assert fresh(row).state == S.STOPPED
    assert fresh(row).state_reason["exit_code"] == 3
    assert AuditEvent.objects.get(verb="instance.stopped").actor_kind == "system"


@pytest.mark.parametrize("before", [None, "accepted", "starting"])
def test_a_start_that_fails_costs_nothing_and_holds_nothing(market, tenant, before):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    if before:
        says(instance, before, now=NOON + seconds(1))

    says(instance, "failed", now=NOON + seconds(9), reason="image_pull", detail="no such tag")

    row = fresh(instance)
    assert row.state == S.FAILED
    assert row.state_reason == {"code": "start_failed", "detail": "image_pull no such tag"}
    assert Run.objects.get(instance_id=row.id).closed_at_tick == 0
    assert not pending_holds(row).exists()
    assert Wallet.objects.get(tenant=tenant).held == 0
    operation = Operation.objects.get(instance=row)
    assert (operation.state, operation.error["code"]) == ("failed", "start_failed")
    says(row, "gone", now=NOON + seconds(10))
    assert not held_slices(row).exists()


def test_a_late_report_of_a_failed_start_is_free(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    run = Run.objects.get(instance_id=instance.id)
    says(instance, "starting", now=NOON + seconds(5))
    report = RunReport(
        run=str(run.id), ready_age_ms=1000, stretches=[Stretch(from_tick=0, until_tick=1)]
    )
    record(reports=[UsageReport(node_id=market.id, received_at=NOON + seconds(8), runs=[report])])
    run.refresh_from_db()
    assert run.started_at is not None

    says(instance, "failed", now=NOON + seconds(9))

    run.refresh_from_db()
    assert run.closed_at_tick == 0


def test_a_node_that_loses_a_running_instance_fails_it_to_this_moment(market, tenant):
    instance = make_running(tenant)

    says(instance, "failed", now=NOON + seconds(30), reason="gpu_lost")

    row = fresh(instance)
    assert (row.state, row.state_reason["code"]) == (S.FAILED, "node_failed")
    assert Run.objects.get(instance_id=row.id).closed_at == NOON + seconds(30)


def test_an_allocation_that_the_operator_orders_gone_stops_its_instance(market, tenant):
    instance = make_running(tenant)
    order_gone(allocation_id=instance.allocation_id, now=NOON + seconds(5))

    passes.compare_everything(now=NOON + seconds(6))

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.STOPPING, {"code": "operator"})
    assert not Run.objects.filter(closed_at=None).exists()


def test_endpoints_follow_the_node(market, tenant):
    instance = make_running(tenant)
    assert instance.endpoints.get().port == 22022
    from agents.protocol import EndpointFact

    moved = EndpointFact(kind="ssh", host="127.0.0.1", port=22099, user="root", workspace="/srv/w")
    says(instance, "running", now=NOON + seconds(5), endpoints=[moved])

    assert instance.endpoints.get().port == 22099
    assert instance.endpoints.get().workspace == "/srv/w"


# --- silence


def test_a_lost_node_makes_its_instances_unreachable_and_ends_nothing(market, tenant):
    instance = make_running(tenant)

    for status, health in [("suspect", "unknown"), ("lost", "unreachable"), ("live", "ok")]:
        set_liveness(market, status)
        passes.compare_everything(now=NOON + seconds(30))
        row = fresh(instance)
        assert (row.state, row.health) == (S.RUNNING, health)

    assert Run.objects.get(instance_id=instance.id).closed_at is None
    assert allocation_of(instance).want == "run"


# --- money


def test_the_end_of_the_money_stops_the_instance_at_the_instant_of_the_row(market):
    tenant = make_rich_tenant(money=PRICE)
    instance = make_running(tenant)
    run = Run.objects.get(instance_id=instance.id)
    report = RunReport(
        run=str(run.id), ready_age_ms=0, stretches=[Stretch(from_tick=0, until_tick=10)]
    )
    record(reports=[UsageReport(node_id=market.id, received_at=NOON + seconds(60), runs=[report])])
    close_exhausted(now=NOON + seconds(61))
    ends_at = Wallet.objects.get(tenant=tenant).exhausts_at
    assert ends_at is not None

    assert close_exhausted(now=ends_at + seconds(7)) == 1
    passes.sync(now=ends_at + seconds(8))

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.STOPPING, {"code": "balance"})
    run.refresh_from_db()
    assert run.closed_at == ends_at
    assert allocation_of(row).want == "gone"
    assert not pending_holds(row).exists()
    says(row, "gone", now=ends_at + seconds(9))
    assert fresh(row).state == S.STOPPED


@pytest.mark.parametrize(
    ("left", "step"),
    [
        (timedelta(hours=72, seconds=1), None),
        (timedelta(hours=72), LADDER[3]),
        (timedelta(hours=24, seconds=1), LADDER[3]),
        (timedelta(hours=24), LADDER[2]),
        (timedelta(hours=1), LADDER[1]),
        (timedelta(minutes=10), LADDER[0]),
        (timedelta(0), LADDER[0]),
    ],
)
def test_the_ladder_has_four_steps(left, step):
    assert step_of(NOON + left, now=NOON) == step


def test_each_step_is_said_once_and_withdrawn_when_money_comes(market, tenant):
    instance = make_running(tenant)

    def lasts(**left):
        Wallet.objects.filter(tenant=tenant).update(exhausts_at=NOON + timedelta(**left))
        return level_balance_notices(now=NOON)

    assert lasts(hours=100) == 0
    assert lasts(hours=71) == 1
    assert lasts(hours=71) == 0
    assert lasts(hours=70) == 1, "the same notice with another deadline"
    assert Notice.objects.count() == 1
    assert lasts(hours=23) == 1
    assert lasts(minutes=30) == 1
    assert lasts(minutes=5) == 1
    said = Notice.objects.filter(instance=instance).order_by("id")
    assert [notice.threshold_s for notice in said] == [259_200, 86_400, 3_600, 600]
    assert said.filter(withdrawn_at=None).count() == 1

    assert lasts(hours=100) == 1
    assert not Notice.objects.standing().exists()


def test_a_stopped_instance_keeps_no_notice(market, tenant):
    instance = make_running(tenant)
    Wallet.objects.filter(tenant=tenant).update(exhausts_at=NOON + timedelta(hours=1))
    passes.sync(now=NOON)
    assert Notice.objects.standing().filter(instance=instance).exists()

    says(instance, "exited", now=NOON + seconds(1), exit_code=0)

    assert not Notice.objects.standing().exists()


# --- marks, hints and the comparison of everything


def test_without_marks_the_comparison_finds_everything(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    for phase, state in [("running", S.RUNNING), ("exited", S.STOPPING), ("gone", S.STOPPED)]:
        before = fresh(instance).state
        says(instance, phase, now=NOON, sync=False)
        AllocationDirty.objects.all().delete()

        passes.sync(now=NOON)
        assert fresh(instance).state == before, "nobody marked it"
        passes.compare_everything(now=NOON)
        assert fresh(instance).state == state


def test_a_mark_is_gone_when_its_instance_is_level(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    says(instance, "running", now=NOON, sync=False)
    assert AllocationDirty.objects.exists()

    assert passes.sync(now=NOON) == 1

    assert not AllocationDirty.objects.exists()


def test_a_mark_that_is_written_again_meanwhile_stays(market, tenant, monkeypatch):
    from scheduler.services.liveness import mark_dirty

    (instance,) = order(tenant)
    passes.place(now=NOON)
    passes.sync(now=NOON)
    says(instance, "pulling", now=NOON, sync=False)
    level = passes._level_one

    def level_and_be_overtaken(instance, *, now):
        level(instance, now=now)
        mark_dirty([instance.allocation_id], now=NOON)  # the same time, and still another mark

    monkeypatch.setattr(passes, "_level_one", level_and_be_overtaken)
    passes.sync(now=NOON + seconds(1))

    assert AllocationDirty.objects.count() == 1


def test_one_bad_instance_stops_no_other_and_keeps_its_mark(market, tenant, monkeypatch):
    first, second = order(tenant, count=2)
    passes.place(now=NOON)
    for instance in (first, second):
        says(instance, "running", now=NOON, sync=False)
    level = passes._level_one

    def break_first(instance, *, now):
        if instance.id == first.id:
            raise RuntimeError("a bug")
        level(instance, now=now)

    with monkeypatch.context() as patch:
        patch.setattr(passes, "_level_one", break_first)
        passes.sync(now=NOON)

    assert fresh(second).state == S.RUNNING
    assert AllocationDirty.objects.get().allocation_id == allocation_of(first).id
    passes.sync(now=NOON)
    assert fresh(first).state == S.RUNNING


def test_passes_repeated_change_nothing(market, tenant):
    instance = make_running(tenant)
    before = Instance.objects.filter(pk=instance.pk).values().get()

    for _ in range(2):
        passes.place(now=NOON + seconds(1))
        passes.sync(now=NOON + seconds(1))
        passes.deadlines(now=NOON + seconds(1))
        passes.compare_everything(now=NOON + seconds(1))

    assert Instance.objects.filter(pk=instance.pk).values().get() == before


def test_a_run_that_is_open_in_the_wrong_state_is_closed(market, tenant):
    instance = make_running(tenant)
    says(instance, "exited", now=NOON + seconds(5), exit_code=0)
    says(instance, "gone", now=NOON + seconds(6))
    Run.objects.filter(instance_id=instance.id).update(
        closed_at=None, closed_at_tick=None, close_reason=""
    )

    passes.compare_everything(now=NOON + seconds(60))

    run = Run.objects.get(instance_id=instance.id)
    assert (run.closed_at, run.close_reason) == (NOON + seconds(6), "stray")


def test_an_allocation_taken_away_behind_our_back_fails_the_instance(market, tenant):
    instance = make_running(tenant)
    Allocation.objects.filter(instance_id=instance.id).update(
        want="gone", released_at=NOON + seconds(5)
    )

    passes.compare_everything(now=NOON + seconds(6))

    row = fresh(instance)
    assert (row.state, row.state_reason["code"]) == (S.FAILED, "allocation_lost")
    assert not Run.objects.filter(closed_at=None).exists()


def test_what_ran_while_no_pass_looked_is_charged_though_it_failed_then(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    for phase in ("accepted", "pulling", "starting", "running"):
        says(instance, phase, now=NOON, sync=False)
    run = Run.objects.get(instance_id=instance.id)
    report = RunReport(
        run=str(run.id), ready_age_ms=0, stretches=[Stretch(from_tick=0, until_tick=10)]
    )
    record(reports=[UsageReport(node_id=market.id, received_at=NOON, runs=[report])])
    # the worker was away; when it comes back the instance ran for a minute and its node lost it
    says(instance, "failed", now=NOON + seconds(60), reason="container_lost")

    row = fresh(instance)
    assert (row.state, row.state_reason["code"]) == (S.FAILED, "node_failed")
    run.refresh_from_db()
    assert run.closed_at_tick == 10


def lose_allocations():
    """What a careless hand or half a restore does: allocations deleted behind our back."""
    Slice.objects.all().delete()
    Allocation.objects.all().delete()


def test_a_lost_allocation_leaves_no_run_open_beside_the_next_one(market, tenant):
    instance = make_running(tenant)
    lose_allocations()

    with transaction.atomic():
        level(
            locked_instance(tenant_id=tenant.id, instance_id=instance.id, now=NOON + seconds(6)),
            now=NOON + seconds(6),
        )
    services.start_instance(
        tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON + seconds(7)
    )
    passes.place(now=NOON + seconds(8))

    assert fresh(instance).state == S.PROVISIONING
    [run] = Run.objects.filter(closed_at=None)
    assert run.id == fresh(instance).run_id
    lost = Run.objects.exclude(id=run.id).get()
    assert lost.closed_at == NOON + seconds(6)


def test_a_queued_instance_whose_allocation_was_lost_does_not_wait_for_ever(market, tenant):
    (instance,) = order(tenant)
    with transaction.atomic():
        run_pass(now=NOON, on_placed=lambda items: money.open_placed(items, now=NOON))
    lose_allocations()

    passes.compare_everything(now=NOON + seconds(6))

    row = fresh(instance)
    assert (row.state, row.state_reason["code"]) == (S.FAILED, "allocation_lost")
    assert not pending_holds(row).exists()
    assert not Run.objects.filter(closed_at=None).exists()
