"""Gangs in the core: all or none, the smallest domain, spread, labels, and brute force."""

import uuid
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.inventory import IDLE, Inventory
from scheduler.core.placement import Place, Wait, plan
from scheduler.core.shapes import Shape
from scheduler.core.spread import counts_of
from tests.scheduler.gangs.rooms import ANN, gang, node, nodes_of, placed_on, single, state_of

pytestmark = pytest.mark.pure


def test_a_gang_that_lacks_one_seat_takes_none_and_says_how_many_it_found():
    room = Inventory([node(1, 2), node(2, 1)])
    before = state_of(room)

    decisions = plan(gang(4), room)

    assert [one.reasons for one in decisions] == [{"gang": 3}] * 4
    assert state_of(room) == before


def test_a_gang_waits_for_its_last_member():
    room = Inventory([node(1, 4)])

    [*decisions] = plan(gang(4)[:3], room)

    assert [one.reasons for one in decisions] == [{"incomplete": 1}] * 3


def test_the_smallest_domain_is_a_node_and_of_those_the_fullest():
    room = Inventory([node(1, 4), node(2, 3), node(3, 1)])

    assert placed_on(gang(3), room) == [2, 2, 2]


def test_a_rack_goes_before_a_zone_and_the_fullest_rack_before_others():
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}
    room = Inventory([node(n, 2, rack=rack) for n, rack in racks.items()])

    assert sorted(placed_on(gang(4), room)) == [1, 1, 2, 2]


def test_racks_of_the_same_name_in_two_zones_are_two():
    room = Inventory([node(1, 1, rack="a"), node(2, 1, rack="a", zone="z2")])

    assert placed_on(gang(2, together="rack"), room) == [None, None]
    assert sorted(placed_on(gang(2), room)) == [1, 2]


def test_together_in_one_zone_is_a_hard_rule():
    nodes = [node(1, 1), node(2, 1), node(3, 1, zone="z2")]

    assert placed_on(gang(3, together="zone"), Inventory(nodes)) == [None] * 3
    assert sorted(placed_on(gang(2, together="zone"), Inventory(nodes))) == [1, 2]


def test_one_member_a_node():
    nodes = [node(1, 4), node(2, 4)]

    assert sorted(placed_on(gang(2, one_per_node=True), Inventory(nodes))) == [1, 2]
    assert placed_on(gang(3, one_per_node=True), Inventory(nodes)) == [None] * 3


def test_apart_holds_within_the_gang_and_beside_others_of_the_tenant():
    nodes = [node(1), node(2), node(3)]
    here = frozenset({uuid.UUID(int=1)})

    assert sorted(placed_on(gang(2, apart="db", avoided=here), Inventory(nodes))) == [2, 3]
    [one, *_] = plan(gang(3, apart="db", avoided=here), Inventory(nodes))
    assert one.reasons == {"apart": 1, "gang": 2}


def test_apart_holds_between_requests_of_one_pass():
    asks = [gang(1, group=n, first=n, apart="db")[0] for n in (1, 2, 3)]

    decided = placed_on(asks, Inventory([node(1), node(2)]))

    assert sorted(decided[:2]) == [1, 2]
    assert decided[2] is None


def test_another_tenants_label_keeps_nobody_away():
    mine, other = (
        gang(1, apart="db"),
        gang(1, group=2, first=2, tenant=uuid.UUID(int=7), apart="db"),
    )

    assert placed_on([*mine, *other], Inventory([node(1)])) == [1, 1]


def test_spread_over_zones_within_the_skew():
    nodes = [node(1, 4), node(2, 1, zone="z2")]

    assert sorted(placed_on(gang(3, spread_skew=1), Inventory(nodes))) == [1, 1, 2]
    [one, *_] = plan(gang(4, spread_skew=1), Inventory(nodes))
    assert one.reasons == {"gang": 3}
    assert sorted(placed_on(gang(4, spread_skew=2), Inventory(nodes))) == [1, 1, 1, 2]


def test_a_zone_that_could_never_hold_a_member_does_not_count():
    nodes = [node(1, 4), node(2, 4, zone="z2", is_cordoned=True)]

    assert placed_on(gang(3, spread_skew=1), Inventory(nodes)) == [1, 1, 1]


def test_the_scarcest_role_is_seated_first_and_other_nodes_are_tried():
    """One member wants four cards, two want two: first to first would take the only four."""
    shapes = [Shape(mode="whole", count=n) for n in (2, 2, 4)]
    room = Inventory([node(1, 4), node(2, 2), node(3, 2)])

    decided = placed_on(gang(3, shapes=shapes), room)

    assert (decided[2], sorted(decided[:2])) == (1, [2, 3])


# --- brute force beside it


def seats_by_brute_force(free, zones, needs, *, skew, together, one_per_node):
    """Return whether the members fit on nodes with so many free cards, all ways tried."""
    for rows in product(range(len(free)), repeat=len(needs)):
        left = list(free)
        for row, need in zip(rows, needs, strict=True):
            left[row] -= need
        if min(left) < 0 or (one_per_node and len(set(rows)) < len(rows)):
            continue
        if together and len({zones[row] for row in rows}) > 1:
            continue
        if skew is not None:
            counts = [sum(zones[row] == zone for row in rows) for zone in sorted(set(zones))]
            if max(counts) - min(counts) > skew:
                continue
        return True
    return False


rooms = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["z1", "z2"])), min_size=1, max_size=3
)


@settings(max_examples=300, deadline=None)
@given(
    rooms=rooms,
    needs=st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=4),
    taken=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    skew=st.sampled_from([None, None, 1, 2]),
    together=st.sampled_from(["", "", "zone"]),
    one_per_node=st.booleans(),
)
def test_a_gang_is_placed_exactly_when_brute_force_places_it(
    rooms, needs, taken, skew, together, one_per_node
):
    """All or none; zones as even as asked at commit; refused, the room is bit for bit as before."""
    together = "" if skew is not None else together
    room = Inventory([node(n, gpus, zone=zone) for n, (gpus, zone) in enumerate(rooms, start=1)])
    pins = [
        single(100 + n, count=count, node=uuid.UUID(int=n))
        for n, ((gpus, _), count) in enumerate(zip(rooms, taken, strict=False), start=1)
        if 0 < count <= gpus
    ]
    assert all(isinstance(one, Place) for one in plan(pins, room))
    free = (room.mode[: len(rooms)] == IDLE).sum(axis=1).tolist()
    zones = [zone for _, zone in rooms]
    before = state_of(room)
    asks = gang(
        len(needs),
        shapes=[Shape(mode="whole", count=count) for count in needs],
        spread_skew=skew,
        together=together,
        one_per_node=one_per_node,
    )

    decisions = plan(asks, room)

    fits = seats_by_brute_force(
        free, zones, needs, skew=skew, together=together, one_per_node=one_per_node
    )
    assert {isinstance(one, Place) for one in decisions} == {fits}
    if not fits:
        assert state_of(room) == before
        assert all(isinstance(one, Wait) and one.reasons["gang"] < len(needs) for one in decisions)
        return
    rows = [number - 1 for number in nodes_of(decisions)]
    assert seats_by_brute_force(
        [
            sum(n for n, at in zip(needs, rows, strict=True) if at == row)
            for row in range(len(rooms))
        ],
        zones,
        needs,
        skew=skew,
        together=together,
        one_per_node=one_per_node,
    )  # what was given is itself a way
    if skew is not None:
        counts = [sum(zones[row] == zone for row in rows) for zone in set(zones)]
        assert max(counts) - min(counts) <= skew


@settings(max_examples=200, deadline=None)
@given(
    members=st.integers(1, 5),
    tenths=st.sampled_from([1, 2, 3, 5, 7]),
    mode=st.sampled_from(["share_tenant", "share_shared"]),
    cards=st.lists(st.integers(1, 2), min_size=1, max_size=2),
    sold=st.lists(st.sampled_from([1, 2, 3, 5]), max_size=6),
)
def test_equal_shares_fit_exactly_while_one_after_another_would(members, tenths, mode, cards, sold):
    share = Shape(mode=mode, tenths=tenths, vram_mib=8_000 * tenths)
    nodes = [node(n, count, allows_strangers=True) for n, count in enumerate(cards, start=1)]
    room, again = Inventory(nodes), Inventory(nodes)
    before = [
        replace(
            single(200 + i, tenant=ANN), shape=Shape(mode=mode, tenths=part, vram_mib=8_000 * part)
        )
        for i, part in enumerate(sold)
    ]
    plan(before, room)
    plan(before, again)
    asks = gang(members, shapes=[share] * members)

    alone = plan([replace(one, bond=None) for one in asks], again)

    decided = plan(asks, room)
    assert {isinstance(one, Place) for one in decided} == {
        all(isinstance(one, Place) for one in alone)
    }


@given(
    slots=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    members=st.integers(0, 6),
    have=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    skew=st.integers(1, 3),
)
def test_water_filling_finds_a_way_when_there_is_one(slots, members, have, skew):
    have = have[: len(slots)]

    def is_way(counts):
        after = [here + more for here, more in zip(have, counts, strict=True)]
        return sum(counts) == members and max(after) - min(after) <= skew

    ways = [way for way in product(*(range(most + 1) for most in slots)) if is_way(way)]

    found = counts_of(members, have=have, slots=slots, skew=skew)

    assert (found is None) == (not ways)
    if found is not None:
        assert tuple(found) in ways
