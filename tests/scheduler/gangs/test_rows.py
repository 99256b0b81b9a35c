"""Rows of reference/scheduler.md §5 that speak of gangs, in the core."""

import random
import uuid
from dataclasses import replace

import pytest

from scheduler.core.inventory import IDLE, Inventory
from scheduler.core.placement import Place, Rules, plan
from scheduler.core.queue import Use
from scheduler.core.shapes import Shape
from tests.scheduler.gangs.rooms import ANN, BOB, gang, node, nodes_of, single, state_of

pytestmark = pytest.mark.pure


def cuts_back(room, asks, decisions):
    """Give back what these were given, as a release would."""
    for ask, place in zip(asks, decisions, strict=True):
        row = room.row_of_node[place.node]
        column_of = {gpu.id: column for column, gpu in enumerate(room.gpus[row])}
        parts = [
            (part.gpu, (1 << part.until_cell) - (1 << part.from_cell), part.vram_mib)
            for part in place.parts
        ]
        assert all(gpu in column_of for gpu, _, _ in parts)
        shape = ask.shape
        room.free_up(row, shape.cpu_milli, shape.ram_mib, shape.mode, parts)


def test_row_5_a_set_that_cannot_grow_stays_as_it_is():
    """
    Nodes of (1 card of 4 GiB), the same, and (2 of 16 GiB): one small member runs; three large
    ones are refused together, though one of them would fit.
    """
    small, large = ("S", 4_096), ("L", 16_384)
    sizes = [(1, small), (1, small), (2, large)]
    room = Inventory(
        [
            replace(
                one := node(number, cards),
                gpus=tuple(replace(gpu, model=model, vram_free_mib=model[1]) for gpu in one.gpus),
            )
            for number, (cards, model) in enumerate(sizes, start=1)
        ]
    )
    assert isinstance(plan(gang(1, shapes=[Shape(mode="whole", vram_mib=4_096)]), room)[0], Place)
    before = state_of(room)

    grown = gang(3, group=2, first=5, shapes=[Shape(mode="whole", count=2, vram_mib=8_192)] * 3)

    assert nodes_of(plan(grown, room)) == [None] * 3
    assert state_of(room) == before
    assert nodes_of(plan(grown[:1], room, Rules())) == [None]  # a gang of three is never one
    assert nodes_of(plan([single(9, count=2)], room)) == [3]


def test_row_17_a_gang_of_16x4_finds_an_idle_rack_a_hundred_times():
    """
    Rack of 18 x 4; the gang is placed and deleted again and again. What is kept follows what
    happened, and is equal to what is read anew; two nodes fall silent now and then and come back.
    """
    nodes = [node(n, 4, rack="a") for n in range(1, 19)]
    dice = random.Random(17)
    kept = Inventory(nodes)
    for _ in range(100):
        silent = dice.sample(range(18), 2)
        kept.is_live[silent] = dice.random() < 0.5  # what was heard of them may be lost
        asks = gang(
            16, together="rack", shapes=[Shape(mode="whole", count=4, cpu_milli=1_000)] * 16
        )

        decisions = plan(asks, kept)

        assert len(set(nodes_of(decisions)) - {None}) == 16
        cuts_back(kept, asks, decisions)
        kept.is_live[:] = True
        assert state_of(kept) == state_of(Inventory(nodes))


@pytest.mark.parametrize("gives_up", [False, True])
def test_row_19_the_member_of_a_gang_that_runs_goes_before_a_fresh_request(gives_up):
    """
    Three of four run and their tenant has most of the room; the fourth's node is back. A fresh
    request of somebody who has nothing, that has waited longer, comes after it.
    """
    mates = tuple(uuid.UUID(int=n) for n in (1, 2, 3))
    sold = [single(50 + n, tenant=ANN, node=mate) for n, mate in enumerate(mates)]
    room = Inventory([node(n, 1) for n in (1, 2, 3, 4)])
    plan(sold, room)
    [member] = gang(1, placed=3, mates=mates)
    fresh = single(9, waited_s=1_500)
    rules = Rules(held={ANN: Use(milli=3_000)}, total=Use(milli=4_000))

    if gives_up:  # not a replacement: share and age decide, and the fresh one has the place
        member = replace(member, bond=replace(member.bond, placed=0, mates=()))
    decided = nodes_of(plan([fresh, member], room, rules))

    assert decided == ([4, None] if gives_up else [None, 4])


def test_a_replacement_lies_where_the_others_do_if_they_must_be_together():
    mates = (uuid.UUID(int=1),)
    room = Inventory([node(1, 0, rack="a"), node(2, 1, rack="b"), node(3, 4, rack="a")])
    [member] = gang(1, placed=1, mates=mates, together="rack")

    assert nodes_of(plan([member], room)) == [3]


def test_row_39_interleaved_gangs_never_wait_for_each_other():
    """2 nodes x 8 cards, a gang of 1-8 cards every tick, random ends: nothing that fits waits."""
    dice = random.Random(39)
    room = Inventory([node(1, 8), node(2, 8)])
    coming = [gang(dice.randint(1, 8), group=n, first=n * 100) for n in range(1, 61)]
    waiting, running, finished, tick = [], [], 0, 0
    while coming or waiting or running:
        tick += 1
        assert tick < 1_000
        if coming:
            waiting.append(coming.pop(0))
        for ends, members, places in [one for one in running if one[0] <= tick]:
            running.remove((ends, members, places))
            cuts_back(room, members, places)
            finished += 1
        decided = plan([ask for members in waiting for ask in members], room)
        by_ask = {one.ask: one for one in decided}
        for members in list(waiting):
            places = [by_ask[ask.id] for ask in members]
            kinds = {isinstance(place, Place) for place in places}
            assert len(kinds) == 1  # all or none
            if kinds == {True}:
                waiting.remove(members)
                running.append((tick + dice.randint(1, 9), members, places))
        idle = int((room.mode == IDLE).sum())
        assert all(len(members) > idle for members in waiting)
    assert finished == 60


def test_two_equal_gangs_that_fit_only_once_leave_one_whole():
    asks = [*gang(5, tenant=ANN), *gang(5, group=2, first=10, tenant=BOB)]

    decided = nodes_of(plan(asks, Inventory([node(1, 4), node(2, 4)])))

    assert [None in decided[:5], None in decided[5:]] in ([True, False], [False, True])
    assert {decided[:5] == [None] * 5, decided[5:] == [None] * 5} == {True, False}
