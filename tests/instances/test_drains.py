"""Draining a node and maintenance windows: who is told, who moves, who stops."""

from datetime import timedelta

import pytest

from billing.models import Run
from rental.instances import drains, passes
from rental.instances.models import Instance, Notice
from rental.instances.states import InstanceState
from rental.records.models import OutboxMessage
from scheduler.errors import BadWindow
from scheduler.models import Allocation, Node, Residence
from scheduler.services import hardware, windows
from tests.factories.rental import (
    NOON,
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
    set_liveness,
)
from tests.factories.tenants import OPERATOR

pytestmark = pytest.mark.django_db
S = InstanceState
DAY = timedelta(days=1)


def null_node():
    node = make_node()
    Node.objects.filter(pk=node.pk).update(facts={"runtime": "null"})
    return node


@pytest.fixture
def world():
    make_offer("a100-80g", tenths=10)
    make_image()
    return null_node()


@pytest.fixture
def tenant():
    return make_rich_tenant()


def rent(tenant, **rest):
    (instance,) = order(tenant, offer="a100-80g", **rest)
    return run_up(instance)


def notices(instance, **where):
    return Notice.objects.filter(instance=instance, kind="maintenance", **where)


def announce(node, *, begins_at=NOON + DAY, now=NOON):
    return windows.announce(
        node_id=node.pk,
        begins_at=begins_at,
        ends_at=begins_at + timedelta(hours=2),
        reason="new fans",
        actor=OPERATOR,
        now=now,
    )


def test_a_drain_moves_what_may_be_moved_with_its_identity(world, tenant):
    instance = rent(tenant)
    other = null_node()
    before = allocation_of(instance)
    generation, session = instance.generation, instance.session
    hardware.drain(node_id=world.pk, actor=OPERATOR, now=NOON)

    # when the pass looks, it stops there, and nothing is charged from now on
    drains.drain(now=NOON + seconds(5))
    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.MIGRATING, {"code": "maintenance"})
    run = Run.objects.get(pk=before.run_id)
    assert (run.closed_at, run.close_reason) == (NOON + seconds(5), "maintenance")
    passes.place(now=NOON + seconds(6))
    assert Allocation.objects.filter(instance_id=row.pk).count() == 1  # never two at once

    # and elsewhere as soon as the end is confirmed: the disk is not waited for
    says(before, "gone", now=NOON + seconds(8))
    passes.place(now=NOON + seconds(9))
    new = allocation_of(instance)
    assert (new.node_id, new.incarnation) == (other.pk, 2)
    says(instance, "running", now=NOON + seconds(10))
    row = fresh(instance)
    assert row.state == S.RUNNING
    assert (row.generation, row.session) == (generation, session)
    assert Run.objects.get(instance_id=row.pk, closed_at=None).pk == new.run_id
    confirm_wiped(instance, now=NOON + seconds(12))
    assert set(Residence.objects.residing().values_list("node_id", flat=True)) == {other.pk}
    assert Residence.objects.present().count() == 2


def test_without_room_it_runs_on_and_stops_at_the_deadline_with_its_disk(world, tenant):
    instance = rent(tenant)
    by = NOON + timedelta(hours=1)
    hardware.drain(node_id=world.pk, actor=OPERATOR, now=NOON)

    drains.drain(now=NOON + seconds(5))
    assert fresh(instance).state == S.RUNNING
    assert notices(instance).get().deadline == by
    drains.drain(now=by - seconds(1))
    assert fresh(instance).state == S.RUNNING

    drains.drain(now=by)
    row = fresh(instance)
    assert (row.state, row.state_reason["code"]) == (S.STOPPING, "maintenance")
    assert Run.objects.get(instance_id=row.pk).closed_at == by
    assert Residence.objects.filter(instance_id=row.pk, want="keep").count() == 2
    says(instance, "gone", now=by + seconds(5))
    assert fresh(instance).state == S.STOPPED
    assert not notices(instance, withdrawn_at=None).exists()


@pytest.mark.parametrize("why", ["its owner", "its runtime"])
def test_who_may_not_be_moved_stays_until_the_deadline(world, tenant, why):
    instance = rent(tenant, migrate_ok=why != "its owner")
    null_node()
    if why == "its runtime":
        Node.objects.filter(pk=world.pk).update(facts={"runtime": "local"})
    hardware.drain(node_id=world.pk, actor=OPERATOR, by=NOON + seconds(60), now=NOON)

    drains.drain(now=NOON + seconds(59))
    assert fresh(instance).state == S.RUNNING

    drains.drain(now=NOON + seconds(60))
    assert fresh(instance).state == S.STOPPING


def test_nobody_is_moved_off_a_node_that_is_not_heard(world, tenant):
    instance = rent(tenant)
    null_node()
    set_liveness(world, "suspect")
    hardware.drain(node_id=world.pk, actor=OPERATOR, now=NOON)

    drains.drain(now=NOON + seconds(5))
    assert fresh(instance).state == S.RUNNING

    set_liveness(world, "live")
    drains.drain(now=NOON + seconds(10))
    assert fresh(instance).state == S.MIGRATING


def test_of_two_only_the_one_with_room_moves(world, tenant):
    Node.objects.filter(pk=world.pk).update(facts={"runtime": "null"})
    first = rent(tenant)
    second_node = null_node()
    second = rent(tenant)
    null_node()
    for node in (world, second_node):
        hardware.drain(node_id=node.pk, actor=OPERATOR, now=NOON)

    drains.drain(now=NOON + seconds(5))

    assert sorted([fresh(first).state, fresh(second).state]) == [S.MIGRATING, S.RUNNING]


def test_a_window_is_announced_a_day_ahead_and_drains_when_it_begins(world, tenant):
    instance = rent(tenant)
    with pytest.raises(BadWindow, match="too_soon"):
        announce(world, begins_at=NOON + DAY - seconds(1))
    announce(world)
    with pytest.raises(BadWindow, match="announced"):
        announce(world, begins_at=NOON + 2 * DAY)

    drains.drain(now=NOON + seconds(5))
    drains.drain(now=NOON + seconds(10))
    notice = notices(instance).get()
    assert (notice.deadline, notice.withdrawn_at) == (NOON + DAY, None)
    assert OutboxMessage.objects.get(topic="instance.notice_given").key == str(notice.pk)
    assert not Node.objects.get(pk=world.pk).drained

    drains.drain(now=NOON + DAY)
    node = Node.objects.get(pk=world.pk)
    assert (node.cordoned, node.drained, node.drain_by) == (True, True, NOON + DAY)
    assert fresh(instance).state == S.STOPPING  # there is no room elsewhere
    with pytest.raises(BadWindow, match="begun"):
        windows.cancel(window_id=node.windows.get().pk, actor=OPERATOR, now=NOON + DAY)


def test_a_cancelled_window_withdraws_its_notices(world, tenant):
    instance = rent(tenant)
    window = announce(world)
    drains.drain(now=NOON + seconds(5))

    windows.cancel(window_id=window.pk, actor=OPERATOR, now=NOON + seconds(6))
    drains.drain(now=NOON + seconds(10))

    assert notices(instance).get().withdrawn_at == NOON + seconds(10)
    assert OutboxMessage.objects.filter(topic="instance.notice_withdrawn").count() == 1
    drains.drain(now=NOON + DAY)
    assert fresh(instance).state == S.RUNNING
    assert not Node.objects.get(pk=world.pk).cordoned


def test_who_comes_later_is_told_too_and_who_left_is_not(world, tenant):
    announce(world)
    instance = rent(tenant)

    drains.drain(now=NOON + seconds(5))
    assert notices(instance).count() == 1

    hardware.uncordon(node_id=world.pk, actor=OPERATOR, now=NOON + seconds(6))
    assert Instance.objects.get(pk=instance.pk).state == S.RUNNING
