"""A pass: tenants take turns, and a large request that has waited long keeps one node."""

import uuid
from dataclasses import replace

import pytest

from scheduler.core.inventory import Inventory
from scheduler.core.placement import Place, Rules, Wait, plan
from scheduler.core.queue import Use, may_hold
from tests.scheduler.test_placement import ANN, BOB, ask, cards, gpu, node, share

pytestmark = pytest.mark.pure
HALF_AN_HOUR = 1_800


def one(number, *, waited=0, market="on_demand", count=1, tenant=ANN, **fields):
    made = ask(number, tenant=tenant, count=count, **fields)
    return type(made)(
        **{name: getattr(made, name) for name in made.__slots__}
        | {"waited_s": waited, "market": market}
    )


def lost(number):
    return replace(one(number), is_failover=True)


def placed(decisions):
    return [decision.ask.int for decision in decisions if isinstance(decision, Place)]


def test_a_pass_serves_tenants_in_turns_and_answers_in_the_order_of_the_asks():
    asks = [one(1), one(2), one(3), one(4, tenant=BOB)]

    rules = Rules(total=Use(milli=2_000))
    decisions = plan(asks, Inventory([node(1, *cards(11, 12))]), rules)

    assert placed(decisions) == [1, 4]
    assert [decision.ask.int for decision in decisions] == [1, 2, 3, 4]


def test_who_has_less_of_the_fleet_is_served_first():
    rules = Rules(held={ANN: Use(milli=1_000)}, total=Use(milli=3_000))

    decisions = plan([one(1), one(2, tenant=BOB)], Inventory([node(1, gpu(11))]), rules)

    assert placed(decisions) == [2]


def test_spot_comes_after_on_demand():
    decisions = plan([one(1, market="spot"), one(2)], Inventory([node(1, gpu(11))]))

    assert placed(decisions) == [2]


@pytest.mark.parametrize(
    ("waited", "holds"),
    [
        (HALF_AN_HOUR - 1, False),
        (HALF_AN_HOUR, True),
        (HALF_AN_HOUR + 899, True),
        (HALF_AN_HOUR + 900, False),
        (3_599, False),
        (3_600, True),
        (4_500, False),
        (7_200, True),
        (8_100, False),
        (14_400, True),
        (86_399, False),
    ],
)
def test_a_node_is_kept_a_quarter_of_an_hour_at_a_time_and_ever_more_seldom(waited, holds):
    assert may_hold(one(1, waited=waited)) is holds


def test_only_whole_cards_on_demand_may_hold():
    assert not may_hold(one(1, waited=HALF_AN_HOUR, market="spot"))
    assert not may_hold(one(1, waited=HALF_AN_HOUR, mode="share_tenant", tenths=9))


def half_full(**fields):
    """A node of two cards, one of them sold."""
    return node(1, gpu(11, taken=0b1111111111, mode="whole"), gpu(12, index=1), **fields)


def test_a_large_request_that_has_waited_long_keeps_the_room_that_there_is():
    decisions = plan([one(1, count=2, waited=HALF_AN_HOUR), one(2)], Inventory([half_full()]))

    assert decisions[0] == Wait(ask=uuid.UUID(int=1), reasons={"gpu": 1})
    assert decisions[1] == Wait(ask=uuid.UUID(int=2), reasons={"held": 1})


def test_it_keeps_one_node_and_the_others_go_on_selling():
    inventory = Inventory([half_full(), node(2, gpu(21))])

    decisions = plan([one(1, count=2, waited=HALF_AN_HOUR), one(2), share(3)], inventory)

    assert placed(decisions) == [
        2
    ]  # on node 2: node 1 is kept, where two cards may be free one day


def test_it_takes_the_room_itself_as_soon_as_it_is_enough_though_others_have_less():
    rules = Rules(held={ANN: Use(milli=9_000)}, total=Use(milli=10_000))
    asks = [one(1, tenant=BOB, waited=HALF_AN_HOUR + 1), one(2, count=2, waited=HALF_AN_HOUR)]
    asks.sort(key=lambda ask: -ask.waited_s)

    decisions = plan(asks[1:] + asks[:1], Inventory([node(1, *cards(11, 12))]), rules)

    assert placed(decisions) == [2]


def test_nothing_is_kept_where_it_could_never_run():
    elsewhere = one(1, count=2, waited=HALF_AN_HOUR, region="r2")

    assert placed(plan([elsewhere, one(2)], Inventory([half_full()]))) == [2]
    too_large = one(1, count=3, waited=HALF_AN_HOUR)
    assert placed(plan([too_large, one(2)], Inventory([half_full()]))) == [2]


# --- failover: who lost his place goes first, and has a reserve


def test_who_lost_his_place_goes_before_all_others_however_long_they_have_waited():
    asks = [one(1, waited=HALF_AN_HOUR), lost(2), one(3, market="spot")]

    assert placed(plan(asks, Inventory([node(1, gpu(11))]))) == [2]


def test_the_reserve_is_open_to_who_lost_his_place_alone():
    room = [node(1, gpu(11)), node(2, gpu(21), gpu(22))]
    region = node(1, gpu(11)).region
    rules = Rules(reserves={region: 1})

    decisions = plan([one(1), one(2)], Inventory(room), rules)
    assert placed(decisions) == [1]  # the emptier node is kept
    assert decisions[1].reasons == {"held": 1, "gpu": 1}

    asks = [one(1), lost(2), lost(3)]
    assert placed(plan(asks, Inventory(room), rules)) == [2, 3]


def test_the_reserve_keeps_nobody_from_the_node_with_his_disks():
    home = node(1, gpu(11), gpu(12))
    rules = Rules(reserves={home.region: 1})
    bound = replace(one(1), node=home.id)

    assert placed(plan([bound], Inventory([home]), rules)) == [1]


def test_nothing_is_placed_on_a_node_that_is_being_cleaned():
    dirty = replace(node(1, gpu(11)), is_cleaning=True)

    assert plan([one(1)], Inventory([dirty]))[0].reasons == {"cleaning": 1}
    assert plan([lost(1)], Inventory([dirty]))[0].reasons == {"cleaning": 1}


def test_who_lost_his_place_and_waited_long_gets_one_place_and_not_two():
    late = replace(lost(1), waited_s=HALF_AN_HOUR)

    decisions = plan([late, one(2)], Inventory([node(1, gpu(11), gpu(12))]))

    assert placed(decisions) == [1, 2]
