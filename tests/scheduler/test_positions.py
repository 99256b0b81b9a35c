"""The place in the queue that a person is shown is the one in which a pass serves."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.bonds import Bond
from scheduler.core.inventory import Inventory
from scheduler.core.kinds import Kind
from scheduler.core.placement import Rules, plan
from scheduler.core.queue import Use, milli_of
from scheduler.core.turns import positions_of
from tests.scheduler.test_placement import ANN, BOB, ask, gpu, node
from tests.scheduler.test_turns import HALF_AN_HOUR, lost, one, placed

pytestmark = pytest.mark.pure
RULES = Rules()
CID = uuid.UUID(int=0xC)
TENANTS = (ANN, BOB, CID)


def shown(asks, rules=RULES):
    return {id_.int: position for id_, position in positions_of(asks, rules).items()}


@st.composite
def lines(draw):
    """Asks for one whole card each, the longest waiting first, and rules."""
    ages = st.sampled_from([0, 299, 300, 1_799, 1_800, 2_699, 2_700, 3_600])  # holds begin and end
    waited = sorted(draw(st.lists(ages, min_size=1, max_size=8)), reverse=True)
    asks = [
        replace(
            one(number, waited=seconds, tenant=draw(st.sampled_from(TENANTS))),
            market=draw(st.sampled_from(["on_demand", "spot"])),
            is_failover=draw(st.booleans()),
            is_promised=draw(st.booleans()),
        )
        for number, seconds in enumerate(waited, start=1)
    ]
    held = {tenant: Use(milli=draw(st.integers(0, 9)) * 1_000) for tenant in TENANTS}
    weights = {tenant: draw(st.integers(100, 5_000)) for tenant in TENANTS}
    return asks, Rules(held=held, weights=weights, total=Use(milli=20_000))


@given(lines())
def test_with_room_for_so_many_a_pass_places_those_with_the_first_positions(line):
    asks, rules = line
    positions = shown(asks, rules)

    assert sorted(positions.values()) == list(range(1, len(asks) + 1))
    for room in range(len(asks) + 1):
        nodes = [node(100 + i, gpu(200 + i)) for i in range(room)]
        served = placed(plan(asks, Inventory(nodes), rules))
        assert sorted(positions[number] for number in served) == list(range(1, room + 1))


def test_classes_go_before_age_and_the_head_before_shares():
    head = one(1, waited=HALF_AN_HOUR)
    asks = [one(2, waited=HALF_AN_HOUR + 900, market="spot"), head]
    asks += [one(3, tenant=BOB, waited=HALF_AN_HOUR), lost(4)]
    rules = Rules(held={ANN: Use(milli=9_000)}, total=Use(milli=10_000))

    assert shown(asks, rules) == {4: 1, 1: 2, 3: 3, 2: 4}


def test_each_region_has_a_queue_of_its_own():
    assert shown([ask(1), ask(2, region="r2"), ask(3)]) == {1: 1, 2: 1, 3: 2}


def test_a_gang_has_one_place_and_who_comes_behind_counts_its_members():
    bond = Bond(group=uuid.UUID(int=9), size=3)
    gang = [replace(one(number), bond=bond) for number in (1, 3, 4)]

    assert shown([gang[0], one(2), *gang[1:]]) == {1: 1, 3: 1, 4: 1, 2: 4}


@pytest.mark.parametrize(
    ("profile", "count", "milli"),
    [("1g.10gb", 1, 142), ("3g.40gb", 1, 428), ("7g.80gb", 1, 1_000), ("", 1, 142)],
)
def test_a_mig_instance_counts_by_its_compute_slices(profile, count, milli):
    assert milli_of(Kind(mode="mig", count=count, milli=0, width=0, profile=profile)) == milli


def test_tenants_take_turns_with_mig_instances_too():
    asks = [
        ask(n, mode="mig", profile="1g.10gb", tenant=t) for n, t in [(1, ANN), (2, ANN), (3, BOB)]
    ]

    assert shown(asks, Rules(total=Use(milli=1_000))) == {1: 1, 3: 2, 2: 3}
