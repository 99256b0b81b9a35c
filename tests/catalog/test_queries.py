"""What lists and pages read of the catalogue: rates, announced changes, stock, cards."""

from datetime import timedelta

import pytest

from billing.services.prices import publish_price
from rental.catalog.queries import cards_of, list_cards, rates_of
from rental.catalog.services import price_key
from rental.records.clock import database_now
from scheduler.models import GpuModel
from tests.factories.rental import (
    NOON,
    PERSON,
    PRICE,
    make_gpu_model,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
)

pytestmark = pytest.mark.django_db


def test_a_rate_names_what_holds_now_and_what_is_announced():
    now = database_now()  # the database closes price versions by its own clock
    offer = make_offer()
    rise_at = now + timedelta(hours=25)
    publish_price(
        price_key=price_key(offer, "on_demand"),
        currency="CNY",
        price=PRICE + 1,
        effective_at=rise_at,
        actor=PERSON,
        now=now,
    )

    (before,) = rates_of([offer], now=now)[offer.code]
    (after,) = rates_of([offer], now=rise_at)[offer.code]

    assert (before.price, before.since) == (PRICE, NOON - timedelta(days=1))
    assert [(change.price, change.at) for change in before.changes] == [(PRICE + 1, rise_at)]
    assert (after.price, after.since, after.changes) == (PRICE + 1, rise_at, ())


def test_an_offer_without_a_price_now_is_on_no_card():
    make_offer(now=NOON + timedelta(days=2))  # its price begins a day before that

    assert list_cards(now=NOON) == []
    assert [card.slug for card in list_cards(now=NOON + timedelta(days=1))] == ["a100-80g"]


def test_cards_group_their_offers_and_those_that_the_fleet_has_come_first():
    make_offer("a100-80g", tenths=10, price=4_900_000)
    make_offer("a100-80g-1s", isolation="shared")
    make_offer("a100-80g-5t", tenths=5)
    make_gpu_model("H200", 144384, "9.0")
    make_offer("h200-141g", tenths=10, gpu_model_name="H200", gpu_memory_mib=144384)
    make_node()

    cards = list_cards(now=NOON)

    assert [(card.slug, card.exists) for card in cards] == [
        ("a100-80g", True),
        ("h200-141g", False),
    ]
    a100, h200 = cards
    assert [one.offer.code for one in a100.sold] == ["a100-80g", "a100-80g-5t", "a100-80g-1s"]
    assert (a100.available, a100.cheapest.offer.code) == (10, "a100-80g-1s")
    assert (h200.available, h200.sold[0].stock.word) == (0, "absent")


def test_an_image_runs_on_the_cards_of_its_vendor_that_are_new_enough():
    make_offer("a100-80g", tenths=10)
    make_offer("p40-24g", tenths=10, gpu_model_name="P40", gpu_memory_mib=24576, vram_mib=24576)
    make_gpu_model("P40", 24576, "6.1")
    cards = list_cards(now=NOON)

    assert cards_of(make_image(min_capability=70), cards) == ["a100-80g"]
    assert cards_of(make_image("plain", vendor="", min_capability=0), cards) == [
        "a100-80g",
        "p40-24g",
    ]
    assert cards_of(make_image("cann", vendor="huawei", min_capability=0), cards) == []


@pytest.mark.parametrize(("offers", "nodes"), [(3, 1), (30, 4)])
def test_costs_the_same_queries_whatever_the_catalogue(offers, nodes, django_assert_num_queries):
    for number in range(offers):
        make_offer(f"offer-{number}", tenths=1 + number % 9)
    for _ in range(nodes):
        make_node(gpus=2)
    make_image()
    order(make_rich_tenant(), offer="offer-1")

    with django_assert_num_queries(8):
        (card,) = list_cards(now=NOON)

    assert len(card.sold) == offers
    assert GpuModel.objects.count() == 1
