"""Stock: what placement would do now, counted, and how many wait."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rental.records.ids import new_id
from scheduler.core.inventory import Inventory
from scheduler.core.placement import Place, count_places, plan
from scheduler.models import Node, Region
from scheduler.queries import MOST_COUNTED, stock_of
from tests.factories.rental import (
    NOON,
    REGION,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
    set_liveness,
)
from tests.scheduler.test_placement import ANN, BOB, ask, cards, node, share

# --- the pure count


def many(one, number):
    return [type(one)(**{**_fields(one), "id": new_id()}) for _ in range(number)]


def _fields(one):
    return {name: getattr(one, name) for name in one.__slots__}


FLEET = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 8), st.booleans(), st.booleans()),
    min_size=1,
    max_size=4,
)
ASKS = st.one_of(
    st.integers(1, 4).map(lambda n: ask(count=n, cpu_milli=2_000)),
    st.sampled_from([1, 2, 3, 5]).map(lambda t: share(tenths=t, cpu_milli=500)),
    st.sampled_from([1, 2, 3, 5]).map(lambda t: share(tenths=t, mode="share_shared")),
)


@given(FLEET, ASKS, st.lists(ASKS, max_size=5))
def test_is_what_a_pass_would_place_one_after_another(fleet, one, sold_before):
    nodes = [
        node(
            number,
            *cards(*range(number * 10, number * 10 + gpus)),
            cpu_milli=cores * 1_000,
            allows_strangers=strangers,
            is_cordoned=cordoned,
        )
        for number, (gpus, cores, strangers, cordoned) in enumerate(fleet, start=1)
    ]
    before = Inventory(nodes)
    decisions = plan(many(one, MOST_COUNTED), Inventory(nodes))

    found = count_places(one, before, most=MOST_COUNTED)

    assert found == sum(isinstance(decision, Place) for decision in decisions)
    # Counting left no trace: it says the same again.
    assert count_places(one, before, most=MOST_COUNTED) == found


def test_counts_no_further_than_it_is_asked_to():
    nodes = [node(number, *cards(number * 10)) for number in range(1, 7)]

    assert count_places(ask(), Inventory(nodes), most=4) == 4
    assert count_places(ask(), Inventory(nodes), most=10) == 6


def test_a_card_cut_for_one_tenant_counts_for_him_alone():
    cut = cards(11, taken=0b1, mode="share_tenant", tenant=ANN, tile=1)
    inventory = Inventory([node(1, *cut)])

    assert count_places(share(tenths=5, tenant=ANN), inventory, most=10) == 1
    assert count_places(share(tenths=5, tenant=BOB), inventory, most=10) == 0


# --- from the tables


@pytest.fixture
def tenth(db):
    from rental.catalog.services import shape_of

    return (shape_of(make_offer()), REGION)


@pytest.fixture
def whole(db):
    from rental.catalog.services import shape_of

    return (shape_of(make_offer("a100-80g", tenths=10)), REGION)


def stock(wanted, **rest):
    (found,) = stock_of([wanted], now=NOON, **rest)
    return found


def test_words_follow_the_count(whole):
    assert (stock(whole).word, stock(whole).available) == ("absent", 0)

    make_node(gpus=2)
    assert (stock(whole).word, stock(whole).available) == ("low", 2)

    make_node(gpus=9)
    found = stock(whole)
    assert (found.word, found.available, found.is_at_least) == ("ok", 10, True)


def test_only_live_schedulable_healthy_room_counts_and_the_rest_still_exists(whole):
    silent, cordoned, sick = make_node(), make_node(), make_node()
    set_liveness(silent, "suspect")
    Node.objects.filter(pk=cordoned.pk).update(cordoned=True)
    sick.gpus.update(health="unhealthy")

    found = stock(whole)

    assert (found.available, found.exists, found.word) == (0, True, "none")


def test_what_waits_is_counted_under_its_own_shape(tenth, whole):
    make_image()
    make_node()
    tenant = make_rich_tenant()
    order(tenant, count=3)

    assert stock(tenth).waiting == 3
    assert stock(whole).waiting == 0
    (late,) = stock_of([tenth], now=NOON + timedelta(days=2))
    assert late.waiting == 0  # they have expired by then


def test_a_tenants_own_card_has_room_for_him_alone(tenth):
    from rental.instances import passes

    make_image()
    make_node()
    tenant = make_rich_tenant()
    order(tenant)
    passes.place(now=NOON)

    assert stock(tenth, tenant_id=tenant.id).available == 9
    assert stock(tenth, tenant_id=make_rich_tenant().id).available == 0
    assert stock(tenth).available == 0


def test_what_is_kept_for_failover_is_not_on_sale(whole):
    make_node(gpus=1)
    make_node(gpus=2)
    assert stock(whole).available == 3

    Region.objects.update(failover_reserve_nodes=1)

    assert stock(whole).available == 1


@pytest.mark.parametrize("nodes", [1, 6])
def test_costs_the_same_queries_whatever_the_fleet(tenth, whole, nodes, django_assert_num_queries):
    for _ in range(nodes):
        make_node(gpus=2)

    with django_assert_num_queries(5):
        stock_of([tenth, whole], now=NOON)


def test_is_kept_for_a_moment(whole, settings, django_assert_num_queries):
    settings.SCHEDULER_STOCK_KEPT = timedelta(seconds=3)
    later = NOON + timedelta(days=1)  # of no other test
    make_node()
    stock_of([whole], now=later)
    make_node()

    with django_assert_num_queries(0):
        (kept,) = stock_of([whole], now=later + timedelta(seconds=2))
    (anew,) = stock_of([whole], now=later + timedelta(seconds=3))

    assert (kept.available, anew.available) == (1, 2)
