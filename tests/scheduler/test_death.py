"""A node that is declared dead: what it held is free and lost, what comes back is nobody's."""

from datetime import timedelta

import pytest

from rental.records.ids import new_id, to_text
from rental.records.models import AuditEvent
from scheduler.errors import NodeIsAlive, UnknownNode
from scheduler.models import (
    Allocation,
    AllocationDirty,
    Gpu,
    Node,
    NodeLiveness,
    QuarantineEvent,
    Request,
    Residence,
)
from scheduler.services.allocations import order_gone
from scheduler.services.death import NODE_DEAD, Death, declare_dead
from scheduler.services.desired import desired_sets
from scheduler.services.recount import recount
from tests.factories.scheduler import (
    A_CARD,
    NOON,
    hello,
    make_allocation,
    make_node,
    make_request,
    phase,
    place,
    say,
)
from tests.factories.tenants import OPERATOR

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(seconds=24)


def lose(node):
    NodeLiveness.objects.filter(node=node).update(status="lost", status_at=LATER)


def declare(node, *, now=LATER):
    return declare_dead(node_id=node.id, actor=OPERATOR, reason="burnt", now=now)


@pytest.fixture
def node():
    return make_node(gpus=2)


def test_what_the_node_holds_is_free_again_and_lost(node):
    running, going = make_allocation(node=node, shape=A_CARD), make_allocation(node=node)
    order_gone(allocation_id=going.id, now=NOON)
    AllocationDirty.objects.all().delete()
    lose(node)

    death = declare(node)

    assert death == Death(allocations=2, residences=4, requests=0)
    for allocation in Allocation.objects.all():
        assert (allocation.want, allocation.released_at, allocation.lost_at) == (
            "gone",
            LATER,
            LATER,
        )
        assert allocation.slices.get().released_at == LATER
    assert {disk.lost_at for disk in Residence.objects.all()} == {LATER}
    row = Node.objects.get(pk=node.pk)
    assert (row.cpu_milli_free, row.ram_mib_free, row.disk_mib_free) == (
        row.cpu_milli_total,
        row.ram_mib_total,
        row.disk_mib_total,
    )
    assert all(gpu.vram_free_mib == gpu.memory_mib for gpu in Gpu.objects.all())
    assert recount() == []
    assert row.cordoned
    assert set(AllocationDirty.objects.values_list("pk", flat=True)) == {running.id, going.id}


def test_it_is_audited_for_the_operator_and_for_each_tenant(node):
    allocation = make_allocation(node=node)
    lose(node)

    declare(node)

    told = AuditEvent.objects.get(verb="node.declared_dead")
    assert (told.actor_id, told.tenant_id, told.after) == (
        OPERATOR.id,
        None,
        {"allocations": 1, "residences": 2, "requests": 0, "reason": "burnt"},
    )
    lost = AuditEvent.objects.get(verb="instance.disks_lost")
    assert (lost.tenant_id, lost.subject, lost.after["disks"]) == (
        allocation.tenant_id,
        to_text("ins", allocation.instance_id),
        ["system", "workspace"],
    )


@pytest.mark.parametrize(("status", "silence"), [("live", 60), ("suspect", 60), ("lost", 23)])
def test_a_node_that_may_live_is_not_dead(node, status, silence):
    allocation = make_allocation(node=node)
    NodeLiveness.objects.filter(node=node).update(status=status)

    with pytest.raises(NodeIsAlive):
        declare(node, now=NOON + timedelta(seconds=silence))

    allocation.refresh_from_db()
    assert allocation.released_at is None
    assert not Node.objects.get(pk=node.pk).cordoned


def test_a_node_that_was_never_heard_is_dead_after_the_same_time():
    node = make_node(status=None)

    with pytest.raises(NodeIsAlive):
        declare(node, now=LATER - timedelta(seconds=1))

    assert declare(node) == Death(allocations=0, residences=0, requests=0)


def test_a_node_that_does_not_exist_is_not_dead():
    with pytest.raises(UnknownNode):
        declare_dead(node_id=new_id(), actor=OPERATOR, reason="", now=NOON)


def test_declaring_again_changes_nothing(node):
    allocation = make_allocation(node=node)
    lose(node)
    declare(node)
    version = Node.objects.get(pk=node.pk).version

    again = declare(node, now=LATER + timedelta(seconds=60))

    allocation.refresh_from_db()
    assert again == Death(allocations=0, residences=0, requests=0)
    assert allocation.lost_at == LATER
    assert Node.objects.get(pk=node.pk).version == version


def test_a_request_that_waits_for_its_disks_there_does_not_start_without_them(node):
    held = make_allocation(node=node)
    order_gone(allocation_id=held.id, now=NOON)
    request = make_request(instance_id=held.instance_id, tenant=held.tenant)
    elsewhere = make_node()
    lose(node)

    assert declare(node).requests == 1

    request.refresh_from_db()
    assert (request.state, request.reasons) == ("cancelled", {NODE_DEAD: 1})
    assert place().placed == []
    assert not Allocation.objects.filter(node=elsewhere).exists()
    assert Request.objects.waiting().count() == 0


def test_what_comes_back_goes_into_quarantine(node):
    allocation = make_allocation(node=node)
    say(phase(allocation, "running", seq=1))
    lose(node)
    declare(node)
    node.refresh_from_db()

    say(hello(node, phases=[phase(allocation, "running", seq=2)]), at=LATER)

    event = QuarantineEvent.objects.get()
    assert (event.allocation_id, event.alive) == (str(allocation.id), True)
    allocation.refresh_from_db()
    assert allocation.observed_seq == 1
    [wanted] = desired_sets([node.id])
    assert (wanted.orders, wanted.residences) == ([], [])
    assert Node.objects.get(pk=node.pk).cordoned
