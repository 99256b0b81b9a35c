"""For whom nodes are kept free, and who may use them meanwhile."""

import uuid

import pytest

from scheduler.core.inventory import Inventory
from scheduler.core.placement import Place, Rules, plan
from scheduler.core.shadow import End, shadow_of
from scheduler.core.shapes import Shape
from tests.scheduler.gangs.rooms import gang, node, nodes_of, single, state_of

pytestmark = pytest.mark.pure
OLD = {"waited_s": 1_800}


def full_room(*ends, spare=0):
    """Nodes of four cards, each with two sold until the time given (None: nobody knows)."""
    nodes = [node(n, 4) for n in range(1, len(ends) + 1 + spare)]
    room = Inventory(nodes)
    pins = [single(500 + n, count=2, node=uuid.UUID(int=n)) for n in range(1, len(ends) + 1)]
    known = [
        End(
            at_s=at,
            node=place.node,
            mode="whole",
            cpu_milli=0,
            ram_mib=0,
            parts=tuple((part.gpu, 0b11_1111_1111, part.vram_mib) for part in place.parts),
        )
        for at, place in zip(ends, plan(pins, room), strict=True)
        if at is not None
    ]
    return room, Rules(ends=known)


def large(size=7, **fields):
    return gang(size, ask=OLD | fields)


def test_the_shadow_begins_with_the_earliest_end_that_gives_room_enough():
    room, rules = full_room(300, 900, 600)
    [ask, *_] = asks = large(10)
    before = state_of(room)

    shadow = shadow_of([one.kind for one in asks], ask.bond, room, rules.ends)

    assert (shadow.at_s, shadow.rows) == (600, (0, 1, 2))
    assert state_of(room) == before


def test_without_a_known_end_there_is_no_shadow():
    room, rules = full_room(None, None)

    assert shadow_of([one.kind for one in large()], large()[0].bond, room, rules.ends) is None


@pytest.mark.parametrize(("lasts_s", "where"), [(600, True), (601, False), (None, False)])
def test_who_is_over_before_the_head_begins_may_use_its_nodes(lasts_s, where):
    room, rules = full_room(600, 600)
    later = single(9, lasts_s=lasts_s)

    *head, decision = plan([*large(), later], room, rules)

    assert not any(isinstance(one, Place) for one in head)
    assert isinstance(decision, Place) == where
    assert room.is_held.tolist() == [True, True]


def test_a_gang_too_may_use_them_if_all_its_members_are_over_by_then():
    room, rules = full_room(600, 600)
    short = gang(2, group=2, first=20, ask={"lasts_s": 600})
    long = gang(2, group=3, first=30, ask={"lasts_s": 601})

    decided = nodes_of(plan([*large(), *short, *long], room, rules))

    assert (None in decided[7:9], decided[9:]) == (False, [None, None])


def test_nodes_that_the_head_does_not_need_are_open_to_all():
    """Two whole nodes are wanted: one is idle now, and nodes 1 and 2 will be as good as any."""
    room, rules = full_room(600, 600, spare=1)
    head = gang(2, shapes=[Shape(mode="whole", count=4)] * 2, ask=OLD)

    decided = nodes_of(plan([*head, single(8, count=4), single(9, count=2)], room, rules))

    assert decided == [None, None, 3, None]
    assert room.is_held.tolist() == [True, True, False]


def test_before_half_an_hour_nothing_is_kept():
    room, rules = full_room(600, 600)

    plan(gang(7, ask={"waited_s": 1_799}), room, rules)

    assert not room.is_held.any()


def test_with_known_ends_the_head_keeps_its_nodes_as_long_as_it_waits():
    for waited in (1_800, 2_700, 50_000):
        room, rules = full_room(600, 600)
        plan(gang(7, ask={"waited_s": waited}), room, rules)
        assert room.is_held.all()


@pytest.mark.parametrize(("waited", "kept"), [(1_800, 2), (2_699, 2), (2_700, 0), (3_600, 2)])
def test_without_known_ends_as_many_nodes_as_it_needs_are_kept_a_quarter_of_an_hour(waited, kept):
    room, rules = full_room(None, None, None)

    plan(gang(7, ask={"waited_s": waited}), room, rules)

    assert int(room.is_held.sum()) == kept


def test_one_head_a_region():
    room, rules = full_room(600, 600, 600, 600)
    second = gang(9, group=2, first=40, ask={"waited_s": 1_800})

    plan([*large(9), *second], room, rules)

    assert int(room.is_held.sum()) == 3
