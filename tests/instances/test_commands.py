"""Stop, start, restart, release, rename: what they do, to money too, and what they refuse."""

import uuid
from datetime import timedelta

import pytest

from billing.errors import InsufficientBalance
from billing.models import Hold, Run, Wallet
from rental.instances import errors, money, passes, services
from rental.instances.models import Instance, Operation
from rental.instances.services import commands
from rental.instances.states import InstanceState
from rental.tenants.models import AuditEvent, Tenant
from scheduler.models import Allocation, Request, Residence, Slice
from scheduler.services.place import run_pass
from tests.factories.rental import (
    MICRO,
    NOON,
    PERSON,
    PRICE,
    allocation_of,
    confirm_wiped,
    fresh,
    make_rich_tenant,
    make_running,
    order,
    run_up,
    says,
    seconds,
    set_liveness,
)

pytestmark = pytest.mark.django_db
S = InstanceState
LATER = NOON + seconds(60)


def command(verb, instance, *, now=LATER, tenant_id=None, **rest):
    return getattr(services, f"{verb}_instance")(
        tenant_id=tenant_id or instance.tenant_id,
        instance_id=instance.id,
        actor=PERSON,
        now=now,
        **rest,
    )


def open_runs(instance):
    return Run.objects.filter(instance_id=instance.id, closed_at__isnull=True)


def pending_holds(instance):
    return Hold.objects.filter(instance_id=instance.id, state="pending")


def held_slices(instance):
    return Slice.objects.filter(allocation__instance_id=instance.id, released_at__isnull=True)


def stopped(instance, *, now=LATER):
    command("stop", instance, now=now)
    says(instance, "gone", now=now + seconds(2))
    return fresh(instance)


# --- stop


def test_a_stop_ends_the_bill_at_once_and_the_node_confirms_later(market, tenant):
    instance = make_running(tenant)

    command("stop", instance)

    row = fresh(instance)
    assert (row.state, row.desired_state, row.state_reason) == (
        S.STOPPING,
        "stopped",
        {"code": "user"},
    )
    run = Run.objects.get(instance_id=row.id)
    assert (run.closed_at, run.close_reason) == (NOON + seconds(60), "user")
    assert not pending_holds(row).exists()
    assert Wallet.objects.get(tenant=tenant).held == 0
    assert allocation_of(row).want == "gone"
    assert not row.endpoints.exists()
    assert held_slices(row).exists()

    says(row, "gone", now=NOON + seconds(62))

    row = fresh(row)
    assert (row.state, row.observed_generation) == (S.STOPPED, row.generation)
    assert not held_slices(row).exists()
    assert Residence.objects.filter(instance_id=row.id, want="keep").count() == 2
    assert Operation.objects.get(instance=row, kind="stop").state == "succeeded"


def test_stopping_again_changes_nothing(market, tenant):
    instance = make_running(tenant)
    command("stop", instance)
    before = fresh(instance)

    again = command("stop", instance, now=NOON + seconds(61))

    assert (again.generation, again.state_at) == (before.generation, before.state_at)
    assert Operation.objects.filter(instance=instance, kind="stop").count() == 1


def test_a_queued_instance_is_taken_back_with_its_hold(market, tenant):
    (instance,) = order(tenant)

    command("stop", instance)

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.STOPPED, {"code": "cancelled"})
    assert Request.objects.get(instance_id=row.id).state == "cancelled"
    assert not pending_holds(row).exists()
    assert not Run.objects.exists()


def test_an_instance_placed_behind_our_back_is_stopped_on_its_node(market, tenant):
    (instance,) = order(tenant)
    run_pass(now=NOON, on_placed=lambda placed: money.open_placed(placed, now=NOON))
    assert fresh(instance).state == S.QUEUED

    command("stop", instance)

    assert fresh(instance).state == S.STOPPING
    assert not open_runs(instance).exists()
    assert allocation_of(instance).want == "gone"


def test_stop_on_a_lost_node_is_at_once_and_the_allocation_waits(market, tenant):
    instance = make_running(tenant)
    set_liveness(market, "lost")

    command("stop", instance)

    row = fresh(instance)
    assert row.state == S.STOPPED
    assert row.state_reason == {"code": "user", "waits_for_node": True}
    assert held_slices(row).exists()
    assert allocation_of(row).want == "gone"

    says(row, "gone", now=NOON + timedelta(hours=1))
    assert fresh(row).state == S.STOPPED
    assert not held_slices(row).exists()


def test_a_node_that_is_lost_while_stopping_is_not_waited_for(market, tenant):
    instance = make_running(tenant)
    set_liveness(market, "suspect")
    command("stop", instance)
    assert fresh(instance).state == S.STOPPING

    set_liveness(market, "lost")
    passes.compare_everything(now=NOON + seconds(80))

    assert fresh(instance).state == S.STOPPED


@pytest.mark.parametrize("phase", [None, "accepted", "pulling", "starting"])
def test_a_start_that_is_stopped_on_its_way_costs_nothing(market, tenant, phase):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    if phase:
        says(instance, phase, now=NOON + seconds(1))

    command("stop", instance)
    says(instance, "gone", now=NOON + seconds(61))

    assert fresh(instance).state == S.STOPPED
    assert Run.objects.get(instance_id=instance.id).closed_at_tick == 0
    create = Operation.objects.get(instance=instance, kind="create")
    assert create.state == "cancelled"


def test_a_failed_instance_cannot_be_stopped(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    says(instance, "failed", now=NOON, reason="no_image")

    with pytest.raises(errors.NotPossibleNow):
        command("stop", instance)


# --- start


def test_a_start_is_a_new_session_on_the_node_of_the_disk(market, tenant):
    instance = stopped(make_running(tenant))
    disks = set(Residence.objects.values_list("id", flat=True))

    command("start", instance, now=NOON + seconds(100))

    row = fresh(instance)
    assert (row.state, row.session, row.generation) == (S.QUEUED, 2, 3)
    assert Request.objects.get(pk=row.request_id).residences_on_id == market.id
    assert pending_holds(row).get().amount == PRICE

    row = run_up(row, now=NOON + seconds(101))
    assert row.state == S.RUNNING
    assert set(Residence.objects.values_list("id", flat=True)) == disks
    assert Allocation.objects.filter(instance_id=row.id).count() == 2
    run = open_runs(row).get()
    assert (run.session, run.allocation_id) == (2, row.allocation_id)


def test_a_start_waits_until_the_node_has_let_go(market, tenant):
    instance = make_running(tenant)
    set_liveness(market, "lost")
    command("stop", instance)
    command("start", instance, now=NOON + seconds(70))
    set_liveness(market, "live")

    passes.place(now=NOON + seconds(71))
    row = fresh(instance)
    assert row.state == S.QUEUED
    assert Request.objects.get(pk=row.request_id).reasons == {"releasing": 1}

    old = Allocation.objects.get(instance_id=row.id)
    says(old, "gone", now=NOON + seconds(72))
    passes.place(now=NOON + seconds(73))
    assert fresh(instance).state == S.PROVISIONING


def test_timers_do_not_survive_into_another_session(market, tenant):
    instance = stopped(make_running(tenant))
    Instance.objects.filter(pk=instance.pk).update(
        auto_stop_at=NOON, max_duration_s=60, auto_release_at=NOON
    )

    command("start", instance, now=NOON + seconds(100))

    row = fresh(instance)
    assert (row.auto_stop_at, row.max_duration_s, row.auto_release_at) == (None, None, None)
    assert row.timers_session == 2


def test_a_failed_instance_may_be_tried_again(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    says(instance, "failed", now=NOON)
    says(instance, "gone", now=NOON + seconds(1))

    command("start", instance)

    assert run_up(fresh(instance), now=NOON + seconds(61)).state == S.RUNNING


@pytest.mark.parametrize("lock", ["financial", "security", "maintenance", "operator"])
def test_a_locked_instance_is_not_started_but_released(market, tenant, lock):
    instance = stopped(make_running(tenant))
    Instance.objects.filter(pk=instance.pk).update(locks=[lock])

    with pytest.raises(errors.InstanceLocked):
        command("start", instance)

    assert fresh(instance).session == 1
    assert not pending_holds(instance).exists()
    command("release", instance)


def test_a_start_without_money_is_refused_and_nothing_happens(market):
    tenant = make_rich_tenant(money=PRICE // 2)
    instance = stopped(make_running(tenant))
    Wallet.objects.filter(tenant=tenant).update(posted=PRICE // 2 - 1)
    before = fresh(instance)

    with pytest.raises(InsufficientBalance):
        command("start", instance)

    after = fresh(instance)
    assert (after.state, after.session, after.generation) == (
        before.state,
        before.session,
        before.generation,
    )
    assert Request.objects.filter(instance_id=instance.id).count() == 1


def test_a_suspended_tenant_stops_and_starts_nothing(market, tenant):
    instance = make_running(tenant)
    Tenant.objects.filter(pk=tenant.pk).update(status="suspended")

    instance = stopped(instance)

    assert instance.state == S.STOPPED
    with pytest.raises(errors.TenantNotActive):
        command("start", instance)


# --- restart


def test_a_restart_is_a_new_run_in_the_same_place(market, tenant):
    instance = make_running(tenant)
    first = open_runs(instance).get()

    command("restart", instance)

    row = fresh(instance)
    assert (row.state, row.session, row.generation) == (S.STARTING, 1, 2)
    first.refresh_from_db()
    assert (first.closed_at, first.close_reason) == (NOON + seconds(60), "restart")
    allocation = allocation_of(row)
    assert (allocation.incarnation, allocation.want) == (2, "run")
    second = open_runs(row).get()
    assert second.id == allocation.run_id == row.run_id
    assert pending_holds(row).count() == 1

    says(row, "running", now=NOON + seconds(61), incarnation=1)
    assert fresh(row).state == S.STARTING, "the old container does not count"
    says(row, "running", now=NOON + seconds(65))
    assert fresh(row).state == S.RUNNING
    assert Operation.objects.get(instance=row, kind="restart").state == "succeeded"


@pytest.mark.parametrize("state", ["queued", "stopped"])
def test_only_what_runs_is_restarted(market, tenant, state):
    (instance,) = order(tenant)
    if state == "stopped":
        command("stop", instance)
    before = fresh(instance)

    with pytest.raises(errors.NotPossibleNow):
        command("restart", instance)

    assert fresh(instance).generation == before.generation


def test_what_billing_has_ended_is_not_restarted(market, tenant):
    instance = make_running(tenant)
    Run.objects.filter(instance_id=instance.id).update(
        closed_at=NOON + seconds(30), closed_at_tick=0, close_reason="balance_exhausted"
    )

    with pytest.raises(errors.NotPossibleNow):
        command("restart", instance)


# --- release


def test_a_release_gives_everything_back(market, tenant):
    instance = make_running(tenant)

    command("release", instance)

    row = fresh(instance)
    assert (row.state, row.desired_state) == (S.RELEASING, "deleted")
    assert not open_runs(row).exists()
    assert not pending_holds(row).exists()
    says(row, "gone", now=NOON + seconds(62))
    assert fresh(row).state == S.RELEASING, "its disks are not wiped yet"
    confirm_wiped(row, now=NOON + seconds(63))

    row = fresh(row)
    assert (row.state, row.deleted_at) == (S.DELETED, NOON + seconds(63))
    market.refresh_from_db()
    assert market.cpu_milli_free == market.cpu_milli_total
    assert market.disk_mib_free == market.disk_mib_total
    operation = Operation.objects.get(instance=row, kind="release")
    assert operation.state == "succeeded"
    assert all(step["finished_at"] for step in operation.steps)


def make_in_state(tenant, state, node):
    (instance,) = order(tenant)
    if state == "queued":
        return fresh(instance)
    passes.place(now=NOON)
    ups = {"provisioning": [], "pulling": ["pulling"], "starting": ["starting"]}
    for phase in ups.get(state, ["running"]):
        says(instance, phase, now=NOON)
    if state == "failed":
        says(instance, "failed", now=NOON)
    elif state in ("stopping", "stopped"):
        command("stop", instance)
        if state == "stopped":
            says(instance, "gone", now=NOON + seconds(60))
    elif state == "migrating":
        fresh(instance).move_to(S.MIGRATING, at=NOON)
    row = fresh(instance)
    assert row.state == state
    return row


LIVE = [state for state in S if state not in (S.RELEASING, S.RECYCLED, S.DELETED)]


@pytest.mark.parametrize("state", LIVE)
def test_release_is_accepted_in_any_state_and_ends_all_money(market, tenant, state):
    instance = make_in_state(tenant, state, market)

    command("release", instance)

    assert fresh(instance).state in (S.RELEASING, S.DELETED)
    assert not open_runs(instance).exists()
    assert not pending_holds(instance).exists()
    if allocation_of(instance):
        says(instance, "gone", now=NOON + seconds(61))
        confirm_wiped(instance, now=NOON + seconds(62))
    assert fresh(instance).state == S.DELETED
    assert not held_slices(instance).exists()


@pytest.mark.parametrize("state", ["releasing", "recycled", "deleted"])
def test_releasing_what_is_gone_changes_nothing(market, tenant, state):
    (instance,) = order(tenant)
    command("stop", instance)
    row = fresh(instance)
    row.move_to(S.RELEASING, at=NOON)
    if state != "releasing":
        row.move_to(S(state), at=NOON)

    command("release", instance, now=NOON)

    assert fresh(instance).generation == row.generation


def test_a_protected_instance_is_not_released(market, tenant):
    instance = make_running(tenant)
    Instance.objects.filter(pk=instance.pk).update(protected=True)

    with pytest.raises(errors.InstanceProtected):
        command("release", instance)

    assert fresh(instance).state == S.RUNNING
    assert open_runs(instance).exists()


# --- rename, generations, strangers


def test_a_rename_keeps_the_slug(market, tenant):
    instance = make_running(tenant)

    command("rename", instance, name="  second   try ")

    row = fresh(instance)
    assert (row.name, row.slug) == ("second try", instance.slug)
    assert (row.generation, row.observed_generation) == (2, 2)
    event = AuditEvent.objects.get(verb="instance.renamed")
    assert (event.before, event.after) == ({"name": instance.name}, {"name": "second try"})
    with pytest.raises(errors.BadOrder):
        command("rename", instance, name=" ")


@pytest.mark.parametrize("verb", ["stop", "start", "restart", "release"])
def test_a_stale_generation_is_refused_and_nothing_happens(market, tenant, verb):
    instance = make_running(tenant)

    with pytest.raises(errors.GenerationMismatch) as refusal:
        command(verb, instance, if_generation=7)

    assert (refusal.value.expected, refusal.value.actual) == (7, 1)
    assert fresh(instance).state == S.RUNNING
    assert open_runs(instance).exists()


@pytest.mark.parametrize("verb", ["stop", "start", "restart", "release", "rename"])
def test_a_stranger_finds_nothing(market, tenant, verb):
    instance = make_running(tenant)
    stranger = make_rich_tenant()
    rest = {"name": "mine"} if verb == "rename" else {}

    with pytest.raises(errors.UnknownInstance):
        command(verb, instance, tenant_id=stranger.id, **rest)
    with pytest.raises(errors.UnknownInstance):
        command(verb, Instance(id=uuid.uuid4(), tenant_id=tenant.id), **rest)

    assert fresh(instance).generation == 1
    assert open_runs(instance).exists()


def test_every_accepted_command_is_audited(market, tenant):
    instance = make_running(tenant)
    command("restart", instance)
    says(instance, "running", now=NOON + seconds(61))
    command("stop", instance, now=NOON + seconds(62), request_id="req_1")
    says(instance, "gone", now=NOON + seconds(63))
    command("start", instance, now=NOON + seconds(64))
    command("release", instance, now=NOON + seconds(65))

    events = AuditEvent.objects.of(tenant.id).filter(verb__startswith="instance.").order_by("id")
    assert list(events.values_list("verb", flat=True)) == [
        "instance.created",
        "instance.restarted",
        "instance.stopped",
        "instance.started",
        "instance.released",
    ]
    assert events.get(verb="instance.stopped").request_id == "req_1"
    assert all(event.actor_kind == "user" for event in events)


def test_the_balance_is_whole_again_after_it_all(market):
    tenant = make_rich_tenant(money=5 * MICRO)
    instance = make_running(tenant)
    command("release", instance)

    wallet = Wallet.objects.get(tenant=tenant)
    assert (wallet.posted, wallet.held) == (5 * MICRO, 0)


def test_a_stop_that_meets_the_end_of_the_wait_is_no_error(market, tenant, monkeypatch):
    (instance,) = order(tenant)
    real = commands.cancel_request

    def expire_first(**given):
        Request.objects.update(state="expired", decided_at=LATER)
        return real(**given)

    monkeypatch.setattr(commands, "cancel_request", expire_first)

    assert command("stop", instance).state == S.FAILED
    assert not pending_holds(instance).exists()
