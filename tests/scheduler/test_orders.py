"""Orders: each changes its rows and raises the node's version, once."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from structlog.testing import capture_logs

from rental.records.ids import new_id
from rental.records.models import AuditEvent
from scheduler.errors import AllocationIsGoing, UnknownAllocation, UnknownNode
from scheduler.models import Allocation, ControlPlane, Node, Residence
from scheduler.services.allocations import (
    order_all_gone,
    order_gone,
    order_stop,
    release_residences,
    restart,
    update_spec,
)
from scheduler.services.desired import desired_sets, node_versions
from scheduler.services.hardware import cordon, drain, uncordon
from scheduler.services.liveness import raise_control_epoch
from tests.factories.scheduler import NOON, make_allocation, make_node, phase, say, spec_of
from tests.factories.tenants import OPERATOR

pytestmark = pytest.mark.django_db


@pytest.fixture
def allocation():
    return make_allocation()


def version_of(allocation):
    return Node.objects.get(pk=allocation.node_id).version


def read(allocation):
    allocation.refresh_from_db()
    return allocation.want, allocation.incarnation, allocation.spec_rev, allocation.stop_at_tick


def test_gone_is_ordered_once(allocation):
    version = version_of(allocation)

    order_gone(allocation_id=allocation.id, now=NOON)
    order_gone(allocation_id=allocation.id, now=NOON)

    assert read(allocation)[0] == "gone"
    assert version_of(allocation) == version + 1


def test_stop_keeps_the_place(allocation):
    version = version_of(allocation)

    order_stop(allocation_id=allocation.id, now=NOON)
    order_stop(allocation_id=allocation.id, now=NOON)

    assert read(allocation) == ("stop", 1, 1, None)
    assert version_of(allocation) == version + 1


def test_restart_is_a_new_container_under_a_new_run(allocation):
    order_stop(allocation_id=allocation.id, now=NOON)
    version, run_id = version_of(allocation), new_id()

    restart(allocation_id=allocation.id, run_id=run_id, now=NOON)

    assert read(allocation) == ("run", 2, 1, None)
    assert allocation.run_id == run_id
    assert version_of(allocation) == version + 1


def test_a_new_spec_has_the_next_revision(allocation):
    version = version_of(allocation)
    spec = spec_of(allocation.instance_id)

    revision = update_spec(allocation_id=allocation.id, spec=spec, now=NOON)

    assert (revision, read(allocation)[2]) == (2, 2)
    assert version_of(allocation) == version + 1


def test_what_is_going_takes_no_other_order(allocation):
    order_gone(allocation_id=allocation.id, now=NOON)
    version = version_of(allocation)

    with pytest.raises(AllocationIsGoing):
        restart(allocation_id=allocation.id, run_id=new_id(), now=NOON)
    with pytest.raises(AllocationIsGoing):
        order_stop(allocation_id=allocation.id, now=NOON)

    assert read(allocation)[:2] == ("gone", 1)
    assert version_of(allocation) == version


def test_an_order_to_nothing_is_an_error():
    with pytest.raises(UnknownAllocation):
        order_gone(allocation_id=new_id(), now=NOON)


def test_disks_are_released_once(allocation):
    version = version_of(allocation)

    assert release_residences(instance_id=allocation.instance_id, now=NOON) == 2
    assert release_residences(instance_id=allocation.instance_id, now=NOON) == 0

    assert version_of(allocation) == version + 1


def test_versions_and_sets_are_one_query_each_for_any_number_of_nodes(allocation):
    other = make_node()
    ids = [allocation.node_id, other.id, new_id()]

    with CaptureQueriesContext(connection) as queries:
        versions = node_versions(ids)
        sets = desired_sets(ids)

    assert versions == {allocation.node_id: (1, 2), other.id: (1, 1)}
    assert len(sets) == 2
    assert len(queries) == 2


@pytest.mark.parametrize("want", ["run", "stop", "gone"])
def test_an_unreadable_spec_holds_up_no_other_order_and_no_end(want):
    node = make_node(gpus=2)
    allocation, broken = make_allocation(node=node), make_allocation(node=node)
    Allocation.objects.filter(pk=broken.pk).update(want=want, spec={"image": 7})

    with capture_logs() as logs:
        [wanted] = desired_sets([node.id])
        desired_sets([node.id])

    orders = {order.allocation: order for order in wanted.orders}
    ends = set() if want == "run" else {str(broken.id)}
    assert orders.keys() == {str(allocation.id)} | ends
    assert all(orders[end].want == want and orders[end].slices for end in ends)
    assert [(one["event"], one["allocation"], one["version"]) for one in logs] == [
        ("allocation.spec_unreadable", str(broken.id), wanted.node_version)
    ]


def test_a_new_control_epoch_is_told_with_every_version():
    node = make_node()

    epoch = raise_control_epoch(now=NOON, reason="restore")

    assert node_versions([node.id]) == {node.id: (epoch, 1)}
    assert desired_sets([node.id])[0].control_epoch == epoch
    assert ControlPlane.load().control_epoch_at == NOON


def test_cordon_drain_and_uncordon_are_audited_and_raise_the_version():
    node = make_node()

    cordon(node_id=node.id, actor=OPERATOR, now=NOON)
    cordon(node_id=node.id, actor=OPERATOR, now=NOON)
    drain(node_id=node.id, actor=OPERATOR, now=NOON)
    node.refresh_from_db()
    assert (node.cordoned, node.drained, node.version) == (True, True, 3)

    uncordon(node_id=node.id, actor=OPERATOR, now=NOON)
    node.refresh_from_db()
    assert (node.cordoned, node.drained, node.version) == (False, False, 4)
    verbs = AuditEvent.objects.filter(verb__startswith="node.").order_by("id")
    assert [event.verb for event in verbs] == ["node.cordon", "node.drain", "node.uncordon"]


def test_a_node_that_does_not_exist_cannot_be_cordoned():
    with pytest.raises(UnknownNode):
        cordon(node_id=new_id(), actor=OPERATOR, now=NOON)


def test_a_database_restored_twice_from_one_backup_has_two_epochs():
    first = raise_control_epoch(now=NOON, reason="restore")
    ControlPlane.objects.update(control_epoch=1)  # the same backup again, a day later

    second = raise_control_epoch(now=NOON + timedelta(days=1), reason="restore")

    assert second > first


def test_a_restart_goes_above_what_the_node_runs_from_a_lost_future(allocation):
    say(phase(allocation, "running", seq=9, incarnation=3))

    restart(allocation_id=allocation.id, run_id=new_id(), now=NOON)

    assert read(allocation)[:2] == ("run", 4)


def test_all_of_an_instance_goes_with_one_order(allocation):
    version = version_of(allocation)

    order_all_gone(instance_id=allocation.instance_id, allocation_id=allocation.id, now=NOON)
    order_all_gone(instance_id=allocation.instance_id, allocation_id=allocation.id, now=NOON)

    assert read(allocation)[0] == "gone"
    assert {disk.want for disk in Residence.objects.all()} == {"gone"}
    assert version_of(allocation) == version + 1
