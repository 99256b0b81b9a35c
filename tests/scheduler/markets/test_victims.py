"""Who has to leave: the cheapest that is enough, nobody else, and nobody where there is room."""

import uuid
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cells import ALL_CELLS
from scheduler.core.fits import FITS, Sieve
from scheduler.core.inventory import Inventory
from scheduler.core.kinds import Kind
from scheduler.core.preempt import Spot, choose_victims, plan_victims
from tests.scheduler.gangs.rooms import ANN, BOB, CARD, node, state_of

pytestmark = pytest.mark.pure
CPU, RAM = 1_000, 1_024  # of a card


def whole(count=1, *, cpu=CPU):
    return Kind(count=count, cpu_milli=cpu * count, ram_mib=RAM * count)


def room_of(*nodes):
    return Inventory([node(number, gpus) for number, gpus in enumerate(nodes, start=1)])


def occupy(room, number, at, gpus, *, cpu=CPU, **fields):
    """Put a spot on these cards of a node, and return it."""
    row = room.row_of_node[uuid.UUID(int=at)]
    room.take(whole(len(gpus), cpu=cpu), row, gpus)
    return Spot(
        allocation=uuid.UUID(int=number),
        node=uuid.UUID(int=at),
        mode="whole",
        parts=tuple((room.gpus[row][gpu].id, ALL_CELLS, CARD[1]) for gpu in gpus),
        milli=1_000 * len(gpus),
        cpu_milli=cpu * len(gpus),
        ram_mib=RAM * len(gpus),
        **({"tenant": BOB, "ran_s": 100} | fields),
    )


def numbers(victims):
    return [spot.allocation.int for spot in victims.spots]


def test_nobody_leaves_where_there_is_room():
    room = room_of(2, 2)
    spot = occupy(room, 1, 1, [0, 1])

    assert choose_victims(whole(2), room, [spot]) is None


def test_nobody_leaves_in_vain():
    """The other card is sold on demand: two cards are not to be had."""
    room = room_of(2)
    spot = occupy(room, 1, 1, [0])
    occupy(room, 9, 1, [1])

    assert choose_victims(whole(2), room, [spot]) is None
    assert numbers(choose_victims(whole(1), room, [spot])) == [1]


def test_only_who_has_to_leaves_and_the_room_stays_as_it_is():
    room = room_of(4)
    spots = [occupy(room, n, 1, [n - 1], ran_s=ran) for n, ran in ((1, 9), (2, 5), (3, 7), (4, 8))]
    before = state_of(room)

    assert numbers(choose_victims(whole(2), room, spots)) == [2, 3]
    assert state_of(room) == before


def test_all_dimensions_count():
    """One card would do, but its CPU is held by the other spot."""
    room = Inventory([node(1, 2, cpu_milli=4_000)])
    small = occupy(room, 1, 1, [0], cpu=500, ran_s=1)
    large = occupy(room, 2, 1, [1], cpu=3_000, ran_s=50)

    assert numbers(choose_victims(whole(1, cpu=3_500), room, [small, large])) == [2]
    assert numbers(choose_victims(whole(1, cpu=4_000), room, [small, large])) == [1, 2]
    assert choose_victims(whole(1, cpu=4_001), room, [small, large]) is None


def test_one_tenant_is_hit_rather_than_two():
    room = room_of(2, 2)
    two = [occupy(room, 1, 1, [0], tenant=ANN, ran_s=1), occupy(room, 2, 1, [1], ran_s=1)]
    one = [occupy(room, 3, 2, [0]), occupy(room, 4, 2, [1])]

    assert numbers(choose_victims(whole(2), room, [*two, *one])) == [3, 4]


def test_row_21_a_single_spot_leaves_rather_than_a_whole_gang():
    gang = uuid.UUID(int=77)
    room = room_of(4, 4, 1)
    members = [
        occupy(room, 10 + i, 1 + i // 4, [i % 4], gang=gang, tenant=ANN, ran_s=1) for i in range(8)
    ]
    single = occupy(room, 1, 3, [0], ran_s=5)

    assert numbers(choose_victims(whole(1), room, [*members, single])) == [1]
    assert numbers(choose_victims(whole(1), room, members)) == list(range(10, 18))


def test_row_23_one_victim_makes_room_for_both_tasks():
    room = room_of(8)
    low = occupy(room, 1, 1, list(range(8)))
    high = [(uuid.UUID(int=n), whole(2)) for n in (1, 2)]

    ((ask, victims),) = plan_victims(high, room, [low])

    assert (ask, numbers(victims)) == (uuid.UUID(int=1), [1])


def test_row_25_the_node_that_loses_least():
    """(long, short) on the one, (middle) on the other: the middle one alone goes."""
    room = room_of(2, 2)
    spots = [
        occupy(room, 1, 1, [0], ran_s=1_000),
        occupy(room, 2, 1, [1], ran_s=0),
        occupy(room, 3, 2, [0, 1], ran_s=100),
    ]

    assert numbers(choose_victims(whole(2), room, spots)) == [3]


def test_row_31_the_second_request_sees_the_room_after_the_eviction():
    room = room_of(2)
    low = occupy(room, 1, 1, [0, 1])
    asks = [(uuid.UUID(int=n), whole(1)) for n in (1, 2, 3)]

    assert [ask.int for ask, _ in plan_victims(asks, room, [low])] == [1]


@st.composite
def scenes(draw):
    """Up to three nodes of up to three cards, most of them held by spot; and a wish."""
    room = Inventory(
        [
            node(n, draw(st.integers(1, 3)), cpu_milli=draw(st.sampled_from([2_000, 3_000, 8_000])))
            for n in range(1, draw(st.integers(1, 3)) + 1)
        ]
    )
    spots = []
    for row, cards in enumerate(room.gpus):
        for gpu in range(len(cards)):
            who = draw(st.sampled_from(["free", "spot", "spot", "spot", "sold"]))
            if who == "free" or room.cpu[row] < CPU:
                continue
            spot = occupy(
                room,
                len(spots) + 1 if who == "spot" else 900 + gpu,
                row + 1,
                [gpu],
                tenant=draw(st.sampled_from([ANN, BOB])),
                ran_s=draw(st.integers(0, 3)),
                gang=draw(st.sampled_from([None, None, uuid.UUID(int=77)])),
            )
            spots += [spot] if who == "spot" else []
    return room, spots, whole(draw(st.integers(1, 3)), cpu=draw(st.sampled_from([500, 1_000])))


def fits(kind, room, leaving=()):
    trial = room.copy()
    for spot in leaving:
        row = room.row_of_node[spot.node]
        trial.free_up(row, spot.cpu_milli, spot.ram_mib, spot.mode, spot.parts)
    reasons, _ = Sieve(kind, trial).look(np.arange(len(room.nodes)))
    return bool((reasons == FITS).any())


def is_whole(leaving, spots):
    """No gang leaves in part."""
    gangs = {spot.gang for spot in leaving if spot.gang}
    return all(spot in leaving for spot in spots if spot.gang in gangs)


@given(scenes())
def test_enough_leave_and_no_fewer_would_do(scene):
    room, spots, kind = scene
    victims = choose_victims(kind, room, spots)

    assert choose_victims(kind, room, spots[::-1]) == victims
    every = [
        some
        for size in range(1, len(spots) + 1)
        for some in combinations(spots, size)
        if is_whole(some, spots) and fits(kind, room, some)
    ]
    if fits(kind, room) or not every:
        assert victims is None
        return
    assert victims is not None
    assert fits(kind, room, victims.spots)
    assert is_whole(victims.spots, spots)
    assert not any(set(some) < set(victims.spots) for some in every)
    tenants = len({spot.tenant for spot in victims.spots})
    assert tenants == min(len({spot.tenant for spot in some}) for some in every)
