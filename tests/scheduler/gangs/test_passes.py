"""Gangs on PostgreSQL: written whole or not at all, waited for, cancelled, replaced."""

from datetime import timedelta

import pytest
from django.db import OperationalError

from rental.records.ids import new_id
from scheduler.errors import ImpossibleGang
from scheduler.models import Allocation, Node, NodeLiveness, Request, Residence, Slice
from scheduler.services.allocations import expect_end, order_gone
from scheduler.services.failover import abandon
from scheduler.services.gangs import bond_of_replacement, gang_of, load_ends
from scheduler.services.inventory import load_waiting
from scheduler.services.place import _Commit
from scheduler.services.recount import recount
from scheduler.services.requests import Bond, Shape, cancel_request
from tests.factories.scheduler import (
    A_CARD,
    NOON,
    make_gang,
    make_node,
    make_request,
    make_tenant,
    make_zone,
    place,
)

pytestmark = pytest.mark.django_db
WHOLE = Shape(mode="whole", count=1)


def states():
    return sorted(Request.objects.values_list("state", flat=True))


def nothing_is_held():
    assert not Allocation.objects.exists()
    assert not Slice.objects.exists()
    assert not Residence.objects.exists()
    assert recount() == []


def test_all_members_are_written_in_one_transaction():
    nodes = [make_node(gpus=2), make_node(gpus=2)]
    make_gang(4, lasts_s=3_600)
    told = []

    place(on_placed=lambda placed: told.append(len(placed)))

    assert told == [4]
    assert states() == ["placed"] * 4
    assert {node.allocations.count() for node in nodes} == {2}
    assert set(Allocation.objects.values_list("ends_at", flat=True)) == {NOON + timedelta(hours=1)}
    assert recount() == []


def test_a_gang_that_does_not_fit_holds_nothing_and_each_member_says_why():
    make_node(gpus=3)
    members = make_gang(4)

    place()

    nothing_is_held()
    assert [Request.objects.get(pk=one.pk).reasons for one in members] == [{"gang": 3}] * 4


def test_members_wait_for_the_last_one():
    make_node(gpus=4)
    tenant, bond = make_tenant(), Bond(group=new_id(), size=2)
    make_request(tenant=tenant, shape=A_CARD, bond=bond)

    place()
    assert Request.objects.get().reasons == {"incomplete": 1}

    make_request(tenant=tenant, shape=A_CARD, bond=bond)
    place()
    assert states() == ["placed", "placed"]


def test_a_crash_between_members_leaves_nothing():
    """The database goes away when the rows of some members are written already."""
    make_node(gpus=4)
    make_gang(4)

    def away(placed):
        assert Allocation.objects.count() == 4
        raise OperationalError("the server closed the connection")

    with pytest.raises(OperationalError):
        place(on_placed=away)

    assert states() == ["waiting"] * 4
    nothing_is_held()


def test_halving_never_splits_a_gang_and_a_refused_member_refuses_all(settings):
    settings.SCHEDULER_BATCH = 4
    make_node(gpus=8)
    [bad, *_] = members = make_gang(3)
    singles = [make_request(shape=A_CARD) for _ in range(2)]
    good = make_gang(2)

    def refuse(placed):
        if bad.id in {one.request_id for one in placed}:
            raise ValueError("no money")

    result = place(on_placed=refuse)

    assert (len(result.placed), result.refused) == (4, 3)
    assert {Request.objects.get(pk=one.pk).state for one in members} == {"waiting"}
    assert {Request.objects.get(pk=one.pk).state for one in (*singles, *good)} == {"placed"}
    assert Request.objects.get(pk=members[2].pk).reasons == {"refused": 1}
    assert recount() == []


def test_one_stale_node_drops_the_whole_gang_and_the_next_round_has_it(monkeypatch):
    nodes = [make_node(gpus=1), make_node(gpus=1)]
    make_gang(2)
    original, written = _Commit.halving, []

    def change_first(self, units):
        if not written:
            Node.objects.filter(pk=nodes[1].pk).update(version=7)
        original(self, units)
        written.append(len(self.placed))

    monkeypatch.setattr(_Commit, "halving", change_first)

    result = place()

    assert (written, result.stale, result.rounds) == ([0, 2], 2, 2)


def test_a_member_that_is_cancelled_meanwhile_drops_the_gang(monkeypatch):
    make_node(gpus=4)
    [one, *_] = make_gang(3)
    original = _Commit.halving

    def cancel_first(self, units):
        Request.objects.filter(pk=one.pk).update(state="cancelled", decided_at=NOON)
        original(self, units)

    monkeypatch.setattr(_Commit, "halving", cancel_first)

    place()

    nothing_is_held()


def test_cancelling_one_member_takes_the_whole_gang_back_and_nobody_else():
    [one, *_] = make_gang(3)
    other = make_request()

    assert cancel_request(instance_id=one.instance_id, now=NOON)

    assert states() == ["cancelled"] * 3 + ["waiting"]
    assert Request.objects.get(state="waiting") == other
    assert not cancel_request(instance_id=one.instance_id, now=NOON)


def test_a_gang_expires_whole(settings):
    make_gang(2)
    Request.objects.filter(pk=Request.objects.first().pk).update(expires_at=NOON + timedelta(1))
    late = Request.objects.order_by("-expires_at").last().expires_at

    result = place(now=max(late, NOON + timedelta(1)))

    assert (states(), len(result.expired)) == (["expired"] * 2, 2)


def test_members_that_differ_in_their_rules_are_refused():
    [one, _] = make_gang(2, together="zone")

    for bond in (
        Bond(group=one.group_id, size=2, together="rack"),
        Bond(group=one.group_id, size=2, together="zone"),  # it has two
        Bond(group=new_id(), size=2, together="zone", spread_skew=1),
        Bond(group=new_id(), size=0),
    ):
        with pytest.raises(ImpossibleGang):
            make_request(tenant=one.tenant, shape=A_CARD, bond=bond)

    assert Request.objects.count() == 2


def test_together_in_a_rack_and_spread_over_zones_as_the_rows_say():
    for rack in ("a", "b", "b"):
        make_node(gpus=1, rack=rack)
    make_gang(2, shape=WHOLE, together="rack")
    place()
    racks = Allocation.objects.values_list("node__rack", flat=True)
    assert list(racks) == ["b", "b"]
    far = make_node(gpus=3, zone=make_zone("test-1b"))

    make_gang(3, shape=WHOLE, spread_skew=1)
    place()
    make_gang(2, shape=WHOLE, spread_skew=1)
    place()

    # one and two; the third card of the far zone would make it none and one more
    assert Allocation.objects.filter(node=far).count() == 2
    assert states() == ["placed"] * 5 + ["waiting"] * 2


def test_a_label_keeps_instances_of_one_tenant_apart_until_the_first_is_released():
    tenant = make_tenant()
    node = make_node(gpus=4)
    first = make_request(tenant=tenant, shape=A_CARD, bond=Bond(group=new_id(), apart="db"))
    place()
    second = make_request(tenant=tenant, shape=A_CARD, bond=Bond(group=new_id(), apart="db"))
    other = make_request(shape=A_CARD, bond=Bond(group=new_id(), apart="db"))
    order_gone(allocation_id=first.allocations.get().id, now=NOON)  # not confirmed

    place()

    second.refresh_from_db()
    other.refresh_from_db()
    assert (second.state, second.reasons) == ("waiting", {"apart": 1, "gang": 0})
    assert other.state == "placed"
    make_node(gpus=1)
    place()
    assert second.allocations.get().node_id != node.id


def test_row_21_the_members_of_a_gang_are_one_unit():
    make_node(gpus=5)
    make_gang(3)
    make_request(shape=A_CARD)
    place()
    gang = set(Allocation.objects.filter(request__group_size=3).values_list("id", flat=True))
    [single] = Allocation.objects.filter(request__group_size=1)

    assert set(gang_of(next(iter(gang)))) == gang
    assert gang_of(single.id) == [single.id]
    gone = min(gang)
    order_gone(allocation_id=gone, now=NOON)
    assert set(gang_of(max(gang))) == gang - {gone}


def test_row_41_two_members_lost_five_seconds_apart_are_both_replaced_once():
    nodes = [make_node(gpus=1, facts={"runtime": "null"}) for _ in range(20)]
    tenant = make_tenant()
    make_gang(20, tenant=tenant, one_per_node=True)
    place()
    running = {one.node_id: one for one in Allocation.objects.all()}

    # when two nodes are lost, the second while the first replacement is pending
    for lost, at in zip(nodes[:2], (NOON, NOON + timedelta(seconds=5)), strict=True):
        member = running[lost.id]
        silent_since = at - timedelta(seconds=30)
        NodeLiveness.objects.filter(node=lost).update(status="lost", received_at=silent_since)
        assert abandon(instance_id=member.instance_id, now=at)
        make_request(
            tenant=tenant,
            shape=A_CARD,
            instance_id=member.instance_id,
            bond=bond_of_replacement(allocation_id=member.id),
            at=at,
        )
        place(now=at)
    waiting = Request.objects.waiting()
    assert sorted(waiting.values_list("group_placed", flat=True)) == [18, 19]
    spare = {make_node(gpus=1).id, make_node(gpus=1).id}
    result = place(now=NOON + timedelta(seconds=6))
    again = place(now=NOON + timedelta(seconds=7))

    # then each is replaced once, on a node of its own, and the others are as they were
    assert {one.node_id for one in result.placed} == spare
    assert {one.instance_id for one in result.placed} == {
        running[lost.id].instance_id for lost in nodes[:2]
    }
    assert again.placed == []
    stayed = Allocation.objects.residing().exclude(node_id__in=spare)
    assert set(stayed) == {running[node.id] for node in nodes[2:]}
    assert set(stayed.values_list("incarnation", flat=True)) == {1}


def test_ends_are_read_for_a_gang_that_has_waited_long_and_for_nobody_else(
    django_assert_num_queries,
):
    node = make_node(gpus=2)
    make_request(shape=A_CARD, lasts_s=600)
    make_request(shape=A_CARD)
    place()
    [timed] = Allocation.objects.exclude(ends_at=None)
    make_gang(2)
    fresh, later = (
        [one.ask for one in load_waiting(now=NOON + timedelta(seconds=s)).values()]
        for s in (1_799, 1_800)
    )

    with django_assert_num_queries(0):
        assert load_ends(fresh, now=NOON) == ()
    [end] = load_ends(later, now=NOON)

    [part] = timed.slices.all()
    assert (end.at_s, end.node, end.parts) == (600, node.id, ((part.gpu_id, 1_023, part.vram_mib),))
    assert (end.cpu_milli, end.ram_mib) == (8_000, A_CARD.ram_mib)
    late = NOON + timedelta(seconds=1_500)
    assert [one.at_s for one in load_ends(later, now=late - timedelta(seconds=1))] == [0]
    assert load_ends(later, now=late) == ()
    expect_end(instance_id=timed.instance_id, ends_at=None, now=NOON)
    assert load_ends(later, now=NOON) == ()


def test_the_head_is_kept_nodes_from_the_end_that_rows_tell():
    """Two of two cards end in ten minutes: who is over by then starts, who is not waits."""
    make_node(gpus=1)
    make_request(shape=WHOLE, lasts_s=2_400)
    place()
    make_node(gpus=1)
    make_gang(2, shape=WHOLE)
    at = NOON + timedelta(seconds=1_800)
    long = make_request(shape=WHOLE, lasts_s=601, at=at)

    place(now=at)
    assert (Request.objects.get(pk=long.pk).reasons, states().count("waiting")) == ({"held": 2}, 3)

    short = make_request(shape=WHOLE, lasts_s=600, at=at)
    place(now=at)
    assert short.allocations.count() == 1


def test_a_request_without_bond_costs_a_pass_no_further_query(django_assert_num_queries):
    make_request()
    with django_assert_num_queries(1):
        load_waiting(now=NOON)
    make_gang(2, apart="db")
    with django_assert_num_queries(2):
        load_waiting(now=NOON)
