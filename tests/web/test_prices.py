"""The price page: everybody reads it; what it says is what is charged."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.services.prices import publish_price
from rental.catalog.services import make_quote, price_key
from rental.records.clock import database_now
from rental.web.forms.prices import PriceFilters, read_filters
from rental.web.isolation import LEVELS
from rental.web.templatetags import prices as said
from scheduler.models import GpuModel, Region
from tests.factories.rental import (
    PERSON,
    PRICE,
    REGION,
    make_gpu_model,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
)
from tests.factories.tenants import make_user, owner_of
from tests.web.rented import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def now():
    return database_now()


@pytest.fixture
def sold(now):
    """Two cards of the fleet and one that it has not."""
    make_offer("a100-80g", tenths=10, price=4_900_000, now=now)
    make_offer("a100-80g-1s", isolation="shared", now=now)
    make_offer(
        "t4-16g", tenths=10, price=600_000, gpu_model_name="T4", gpu_memory_mib=16384,
        vram_mib=16384, now=now,
    )  # fmt: skip
    make_offer(
        "h200-141g", tenths=10, price=15_000_000, gpu_model_name="H200", gpu_memory_mib=144384,
        vram_mib=144384, now=now,
    )  # fmt: skip
    make_gpu_model("T4", 16384, "7.5")
    make_gpu_model("H200", 144384, "9.0")
    GpuModel.objects.filter(name="A100").update(
        fp16_tflops="312", fp64_tflops="9.7", bandwidth_gbs=2039, power_watts=400
    )
    make_node(gpus=2, now=now)
    make_node(model="T4", memory_mib=16384, now=now)


def slugs(response, part="here"):
    return [card.slug for card in response.context[part]]


def test_everybody_reads_prices_figures_and_stock(sold):
    page = Client().get("/prices")

    assert page.status_code == 200
    assert slugs(page) == ["a100-80g", "t4-16g"]
    assert slugs(page, "elsewhere") == ["h200-141g"]
    text = text_of(page)
    assert "312 TFLOPS" in text
    assert "9.7 TFLOPS" in text
    assert "2,039 GB/s" in text
    assert "¥4.90" in text
    assert "¥0.008167 a tick" in text
    assert "¥3,528.00" in text  # 720 h
    assert "2 free" in text
    assert "Not installed" in text


def test_the_price_that_stands_there_is_the_price_of_a_quote(sold, now):
    page = Client().get("/prices")
    shown = {one.offer.code: one.rate.price for card in page.context["here"] for one in card.sold}
    tenant = make_rich_tenant(now=now)

    for code, price in shown.items():
        quote = make_quote(
            tenant_id=tenant.id,
            offer_code=code,
            market="on_demand",
            image_code=None,
            count=1,
            now=now,
        )
        assert quote.price == price


def test_an_announced_change_stands_there_with_its_date(now):
    offer = make_offer(now=now)
    rise_at = now + timedelta(hours=30)
    publish_price(
        price_key=price_key(offer, "on_demand"),
        currency="CNY",
        price=PRICE + 10_000,
        effective_at=rise_at,
        actor=PERSON,
        now=now,
    )

    text = text_of(Client().get("/prices"))

    assert "¥0.50 from" in text
    assert "Days and months follow Asia/Shanghai." in text


def test_every_isolation_level_says_what_it_promises_and_what_not(sold):
    page = Client().get("/prices")

    text = text_of(page)
    for level in LEVELS:
        assert str(level.promise) in text
        assert str(level.limits) in text
        assert f'id="isolation-{level.name.value}"' in page.content.decode()


@pytest.mark.parametrize(
    ("query", "here", "offers"),
    [
        ("model=t4-16g", ["t4-16g"], ["t4-16g"]),
        ("isolation=shared", ["a100-80g"], ["a100-80g-1s"]),
        ("memory=24", ["a100-80g"], ["a100-80g"]),
        ("most=0.60", ["a100-80g", "t4-16g"], ["a100-80g-1s", "t4-16g"]),
        ("most=0.60&memory=16", ["t4-16g"], ["t4-16g"]),
        ("region=elsewhere", [], []),
        ("model=&memory=0&isolation=x&most=abc", ["a100-80g", "t4-16g"], None),
    ],
)
def test_filters_are_in_the_address(sold, query, here, offers):
    page = Client().get(f"/prices?{query}")

    assert slugs(page) == here
    if offers is not None:
        found = [one.offer.code for card in page.context["here"] for one in card.sold]
        assert found == offers


def test_free_now_leaves_out_what_is_taken(sold, now):
    make_image()
    tenant = make_rich_tenant(now=now)
    order(tenant, offer="t4-16g", image="pytorch-2.6.0-cuda12.4", now=now)
    from rental.instances import passes

    passes.place(now=now)

    assert slugs(Client().get("/prices")) == ["a100-80g", "t4-16g"]
    assert slugs(Client().get("/prices?free=1")) == ["a100-80g"]


def test_filters_read_what_they_can():
    assert read_filters({}) == PriceFilters()
    assert not PriceFilters().is_set
    found = read_filters({"most": "-1", "memory": "99999999", "free": "2"})
    assert (found.most, found.memory_gib, found.only_free) == (None, None, False)
    assert read_filters({"most": " 4.9 "}).most == 4_900_000


def test_with_nothing_on_sale_the_page_says_so():
    assert "Nothing is on sale yet" in text_of(Client().get("/prices"))


def test_regions_are_named_where_there_are_several(sold):
    Region.objects.filter(pk=REGION).update(name="Ningxia")
    assert "Ningxia" not in text_of(Client().get("/prices"))

    Region.objects.create(code="east", name="Shanghai")

    assert "Ningxia" in text_of(Client().get("/prices"))


# --- the door to the launch page


def test_whoever_is_signed_in_goes_to_the_launch_page_of_his_tenant(sold, now):
    tenant = make_rich_tenant(now=now)
    client = Client()
    client.force_login(owner_of(tenant))

    answer = client.get("/launch?offer=a100-80g")

    assert answer["Location"] == f"/t/{tenant.slug}/launch?offer=a100-80g"


def test_whoever_has_no_tenant_is_told_how_to_get_one():
    client = Client()
    client.force_login(make_user())

    assert client.get("/launch?offer=a100-80g")["Location"] == "/console/new"


@pytest.mark.parametrize(
    ("is_open", "door"), [(True, "/accounts/signup/"), (False, "/accounts/login/")]
)
def test_a_guest_signs_up_or_in_and_comes_back(settings, is_open, door):
    settings.SIGNUP_ENABLED = is_open

    answer = urlsplit(Client().get("/launch?offer=a100-80g")["Location"])

    assert answer.path == door
    assert parse_qs(answer.query) == {"next": ["/launch?offer=a100-80g"]}


# --- what it costs, and words


def test_costs_the_same_queries_whatever_the_catalogue(now):
    def queries():
        with CaptureQueriesContext(connection) as found:
            assert Client().get("/prices").status_code == 200
        return len(found)

    for number in range(3):
        make_offer(f"few-{number}", tenths=1 + number, now=now)
    few = queries()
    for number in range(30):
        make_offer(f"many-{number}", tenths=1 + number % 9, now=now)
    make_node(gpus=4, now=now)

    assert queries() == few == 10  # the clock, eight of the cards, the regions


def test_figures_are_said_without_empty_digits():
    from decimal import Decimal

    assert said.tflops(Decimal("300.00")) == "300 TFLOPS"
    assert said.tflops(None) == "–"
    assert said.cores(1600) == "1.6 vCPU"
    assert said.cores(120_000) == "120 vCPU"
    assert said.per_tick(490_000) == 817
