"""Passes on PostgreSQL: what is committed, what is counted, what waits and why."""

from datetime import timedelta

import pytest
from django.db import IntegrityError

from rental.records.ids import new_id
from scheduler.errors import ImpossibleShape
from scheduler.models import (
    Allocation,
    AllocationDirty,
    ControlPlane,
    Node,
    Request,
    Residence,
    Slice,
)
from scheduler.services.allocations import order_gone
from scheduler.services.hardware import cordon
from scheduler.services.liveness import raise_control_epoch
from scheduler.services.place import PassResult, _Commit, _run_round
from scheduler.services.recount import recount
from scheduler.services.requests import Shape, cancel_request
from tests.factories.scheduler import (
    A_CARD,
    A_SHARE,
    GIB,
    NOON,
    make_allocation,
    make_node,
    make_request,
    make_tenant,
    phase,
    place,
    say,
)
from tests.factories.tenants import OPERATOR

pytestmark = pytest.mark.django_db


def test_a_share_takes_exactly_its_part_of_the_node():
    node = make_node()
    request = make_request()
    told = []

    result = place(on_placed=told.extend)

    allocation = Allocation.objects.get()
    [part] = allocation.slices.all()
    node.refresh_from_db()
    request.refresh_from_db()
    assert result.placed == told
    assert (told[0].request_id, told[0].run_id) == (request.id, allocation.run_id)
    assert (request.state, request.decided_at, request.reasons) == ("placed", NOON, {})
    assert (allocation.want, allocation.incarnation, allocation.node_id) == ("run", 1, node.id)
    assert (part.mode, part.cells, part.vram_mib) == ("share_tenant", ((0, 1),), 2_457)
    assert (node.version, node.cpu_milli_free, node.ram_mib_free) == (2, 63_000, 252 * GIB)
    assert node.disk_mib_free == 1_990 * GIB
    assert node.gpus.get().vram_free_mib == 24 * GIB - 2_457
    assert AllocationDirty.objects.filter(allocation=allocation).exists()
    assert recount() == []


def test_the_disk_is_cut_into_a_system_disk_and_a_workspace():
    allocation = make_allocation()

    sizes = Residence.objects.filter(instance_id=allocation.instance_id).values_list(
        "kind", "disk_mib", "want"
    )
    assert sorted(sizes) == [("system", 2 * GIB, "keep"), ("workspace", 8 * GIB, "keep")]


def test_two_cards_are_two_slices_of_one_allocation():
    make_node(gpus=3)
    make_request(shape=Shape(mode="whole", count=2))

    place()

    assert list(Slice.objects.order_by("gpu__index").values_list("gpu__index", "cells")) == [
        (0, ((0, 10),)),
        (1, ((0, 10),)),
    ]


def test_first_come_first_served():
    make_node()
    late = make_request(shape=A_CARD, at=NOON)
    early = make_request(shape=A_CARD, at=NOON - timedelta(seconds=1))

    result = place()

    assert [placed.request_id for placed in result.placed] == [early.id]
    late.refresh_from_db()
    assert late.reasons == {"gpu": 1}


def test_what_waits_says_why_and_is_placed_when_there_is_room():
    make_node(cordoned=True)
    make_node(cpu_milli=999)
    request = make_request()

    assert (place().waiting, place().placed) == (1, [])
    request.refresh_from_db()
    assert request.reasons == {"cordoned": 1, "cpu": 1}

    make_node()
    assert len(place().placed) == 1
    request.refresh_from_db()
    assert request.reasons == {}


@pytest.mark.parametrize("status", ["suspect", "lost", None])
def test_nothing_is_placed_on_a_silent_node(status):
    make_node(status=status)
    request = make_request()

    place()

    request.refresh_from_db()
    assert request.reasons == {"silent": 1}


def test_a_request_expires_after_24_hours_and_not_before():
    request = make_request()

    assert place(now=NOON + timedelta(hours=24, microseconds=-1)).expired == []
    [expired] = place(now=NOON + timedelta(hours=24)).expired

    request.refresh_from_db()
    assert (expired.request_id, request.state) == (request.id, "expired")
    make_node()
    assert place(now=NOON + timedelta(hours=25)).placed == []


def test_a_cancelled_request_is_not_placed_and_a_placed_one_not_cancelled():
    make_node()
    cancelled, placed = make_request(), make_request()

    assert cancel_request(instance_id=cancelled.instance_id, now=NOON)
    place()

    assert not cancel_request(instance_id=cancelled.instance_id, now=NOON)
    assert not cancel_request(instance_id=placed.instance_id, now=NOON)
    assert Allocation.objects.get().request_id == placed.id


def test_an_instance_waits_once():
    request = make_request()

    with pytest.raises(IntegrityError, match="request_of_an_instance_waits_once"):
        make_request(instance_id=request.instance_id)


def test_an_impossible_shape_is_refused_and_leaves_no_trace():
    with pytest.raises(ImpossibleShape):
        make_request(shape=Shape(mode="share_shared", tenths=4))

    assert not Request.objects.exists()


def test_a_started_again_instance_waits_for_its_release_and_goes_home():
    # given an instance that was stopped, and a better node
    allocation = make_allocation()
    order_gone(allocation_id=allocation.id, now=NOON)
    make_node()
    again = make_request(
        instance_id=allocation.instance_id, tenant=allocation.tenant, at=NOON + timedelta(seconds=1)
    )

    # when the old allocation is not confirmed gone
    place()

    # then it waits, and afterwards returns to its disks without taking more disk
    again.refresh_from_db()
    assert again.reasons == {"releasing": 1}
    say(phase(allocation, "gone", seq=1))
    assert len(place().placed) == 1
    fresh = Allocation.objects.held().get(instance_id=allocation.instance_id)
    assert fresh.node_id == allocation.node_id
    assert Residence.objects.filter(instance_id=allocation.instance_id).count() == 2
    assert Node.objects.get(pk=fresh.node_id).disk_mib_free == 1_990 * GIB
    assert recount() == []


def test_disks_on_another_node_pin_even_when_the_request_does_not_say_so():
    allocation = make_allocation()
    order_gone(allocation_id=allocation.id, now=NOON)
    say(phase(allocation, "gone", seq=1))
    cordon(node_id=allocation.node_id, actor=OPERATOR, now=NOON)
    make_node()
    request = make_request(instance_id=allocation.instance_id, tenant=allocation.tenant)

    place()

    request.refresh_from_db()
    assert request.reasons == {"residence": 1, "cordoned": 1}


def test_whom_the_callback_refuses_is_not_placed_and_the_others_are():
    node = make_node(gpus=1)
    tenant = make_tenant()
    requests = [make_request(tenant=tenant) for _ in range(5)]
    bad = requests[2].id

    def refuse_one(placed):
        if bad in {one.request_id for one in placed}:
            raise ValueError("the wallet is closed")

    result = place(on_placed=refuse_one)

    assert {one.request_id for one in result.placed} == {r.id for r in requests} - {bad}
    assert (result.refused, result.waiting) == (1, 1)
    left = Request.objects.get(id=bad)
    assert (left.state, left.reasons) == ("waiting", {"refused": 1})
    node.refresh_from_db()
    assert node.cpu_milli_free == 60_000
    assert recount() == []


def test_a_decision_on_a_node_that_changed_since_is_dropped_and_made_again(monkeypatch):
    # given a pass that has loaded and decided
    node = make_node()
    make_request()
    original = _Commit.halving
    changes = [lambda: Node.objects.filter(pk=node.pk).update(version=7)]

    def change_first(self, places):
        if changes:
            changes.pop()()
        original(self, places)

    monkeypatch.setattr(_Commit, "halving", change_first)

    # when it commits
    result = place()

    # then the first round wrote nothing, the second everything
    assert (result.rounds, result.stale, len(result.placed)) == (2, 1, 1)
    node.refresh_from_db()
    assert node.version == 8


def test_a_pass_that_loaded_before_the_epoch_rose_commits_nothing(monkeypatch):
    make_node()
    request = make_request()
    original = _Commit.halving

    def raise_first(self, places):
        raise_control_epoch(now=NOON, reason="test")
        original(self, places)

    monkeypatch.setattr(_Commit, "halving", raise_first)

    result = place()

    assert (result.is_fenced, result.placed) == (True, [])
    request.refresh_from_db()
    assert request.state == "waiting"
    plane = ControlPlane.load()
    assert (plane.control_epoch > 1, plane.scheduler_epoch) == (True, 2)


def test_what_the_database_refuses_is_halved_down_to_the_one():
    """A slice that the inventory does not show (a mode the pass misread) costs one placement."""
    node = make_node(gpus=2)
    hidden = make_allocation(shape=A_CARD, node=node)
    result = PassResult()
    for _ in range(3):
        make_request(shape=A_SHARE, tenant=hidden.tenant)
    make_request(shape=A_CARD)
    [part] = hidden.slices.all()

    # when the slice is hidden from the loader and shown again before the commit
    Slice.objects.filter(pk=part.pk).update(released_at=NOON)
    original = _Commit.halving

    def show(self, places):
        Slice.objects.filter(pk=part.pk).update(released_at=None)
        original(self, places)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Commit, "halving", show)
        _run_round(result, set(), now=NOON, on_placed=lambda placed: None)

    # then only those on the other card are placed
    assert len(result.placed) + result.refused == 4
    assert result.refused >= 1
    held = Slice.objects.filter(released_at=None, gpu=part.gpu)
    assert [one.id for one in held] == [part.id]


def test_the_same_pass_again_changes_nothing():
    make_node()
    make_request()
    waiting = make_request(shape=A_CARD)
    place()
    before = list(Request.objects.order_by("id").values())

    again = place()

    assert (again.placed, again.waiting) == ([], 1)
    assert list(Request.objects.order_by("id").values()) == before
    assert Request.objects.get(pk=waiting.pk).reasons == {"gpu": 1}


def test_recount_finds_a_drift_and_mends_nothing():
    allocation = make_allocation()
    Node.objects.filter(pk=allocation.node_id).update(cpu_milli_free=5)

    [drift] = recount()

    assert (drift.id, drift.what) == (allocation.node_id, "cpu_milli")
    assert (drift.counted, drift.stored) == (63_000, 5)
    assert Node.objects.get(pk=allocation.node_id).cpu_milli_free == 5


def test_cancelling_what_never_waited_says_so():
    assert not cancel_request(instance_id=new_id(), now=NOON)


def test_row_15_what_is_being_released_is_not_free():
    """The other card is idle; the CPU is that of an instance whose wipe is not told yet."""
    make_node(gpus=2, cpu_milli=1_500)
    stopping = make_allocation(node=Node.objects.get())
    order_gone(allocation_id=stopping.id, now=NOON)
    request = make_request()

    place()

    request.refresh_from_db()
    assert (request.state, request.reasons) == ("waiting", {"cpu": 1})

    say(phase(stopping, "gone", seq=1))
    place()

    request.refresh_from_db()
    assert request.state == "placed"
