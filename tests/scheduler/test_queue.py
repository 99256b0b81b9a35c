"""Whose turn it is: classes, age, shares, and first come first served within a tenant."""

import uuid
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.kinds import Kind
from scheduler.core.queue import Line, Use

pytestmark = pytest.mark.pure
ANN, BOB, EVE = (uuid.UUID(int=number) for number in (0xA, 0xB, 0xE))
ROOM = Use(milli=10_000, vram_mib=800_000, cpu_milli=100_000, ram_mib=1_000_000)


@dataclass(frozen=True)
class One:
    tenant: uuid.UUID
    kind: Kind = field(default_factory=Kind)
    market: str = "on_demand"
    is_failover: bool = False
    waited_s: int = 0
    is_replacement: bool = False


def turns(*waiting, held=None, weights=None, serves=True):
    line = Line(waiting, held=held or {}, total=ROOM, weights=weights)
    order = []
    for index in line:
        order.append(index)
        if serves:
            line.placed(waiting[index])
    return order


def test_tenants_take_turns_and_each_is_served_in_its_order():
    assert turns(One(ANN), One(ANN), One(ANN), One(BOB), One(BOB)) == [0, 3, 1, 4, 2]


def test_who_has_less_goes_first():
    assert turns(One(ANN), One(BOB), held={ANN: Use(milli=1)}) == [1, 0]


def test_the_dominant_part_counts():
    """Ann has a fifth of the CPU and Bob a tenth of the cards: Ann has more."""
    held = {ANN: Use(cpu_milli=20_000), BOB: Use(milli=1_000)}

    assert turns(One(ANN), One(BOB), held=held) == [1, 0]


def test_a_weight_of_two_makes_a_share_half_as_large():
    held = {ANN: Use(milli=3_000), BOB: Use(milli=2_000)}

    assert turns(One(ANN), One(BOB), held=held) == [1, 0]
    assert turns(One(ANN), One(BOB), held=held, weights={ANN: 2_000}) == [0, 1]


def test_on_demand_goes_before_spot_whoever_waits():
    assert turns(One(ANN, market="spot", waited_s=9_999), One(BOB)) == [1, 0]


@pytest.mark.parametrize(
    ("waited", "order"), [(299, [1, 0]), (300, [0, 1]), (1_799, [0, 1]), (1_800, [0, 1])]
)
def test_five_minutes_more_go_before_a_smaller_share(waited, order):
    held = {ANN: Use(milli=5_000)}

    assert turns(One(ANN, waited_s=waited), One(BOB), held=held) == order


def test_after_half_an_hour_shares_decide_again():
    held = {ANN: Use(milli=5_000)}

    assert turns(One(ANN, waited_s=86_400), One(BOB, waited_s=1_800), held=held) == [1, 0]


def test_who_is_not_served_does_not_lose_his_share():
    """A request that does not fit costs its tenant nothing: his next one comes at once."""
    assert turns(One(ANN), One(ANN), One(BOB), serves=False) == [0, 1, 2]


def test_an_empty_fleet_has_no_shares():
    line = Line([One(BOB), One(ANN)], held={BOB: Use(milli=1)}, total=Use())

    assert list(line) == [0, 1]


ones = st.builds(
    One,
    tenant=st.sampled_from([ANN, BOB, EVE]),
    kind=st.builds(Kind, count=st.integers(1, 4)),
    market=st.sampled_from(["on_demand", "spot"]),
    waited_s=st.integers(0, 4_000),
)


@given(st.lists(ones, max_size=30), st.sets(st.integers(0, 29)))
def test_everybody_has_one_turn_and_a_tenant_is_never_out_of_order(waiting, served):
    # As the table gives them: whoever came first has waited longest.
    waiting = sorted(waiting, key=lambda one: -one.waited_s)
    line = Line(waiting, held={}, total=ROOM)
    order = []
    for index in line:
        order.append(index)
        if index in served:
            line.placed(waiting[index])

    assert sorted(order) == list(range(len(waiting)))
    for tenant in (ANN, BOB, EVE):
        for market in ("on_demand", "spot"):
            mine = [
                index
                for index in order
                if (waiting[index].tenant, waiting[index].market) == (tenant, market)
            ]
            assert mine == sorted(mine)
