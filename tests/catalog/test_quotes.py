"""Quotes: the price that is shown is the price that an order pays."""

import uuid
from datetime import timedelta

import pytest

from billing.models import Hold
from billing.services import prices
from rental.catalog import errors
from rental.catalog.models import Quote
from rental.catalog.services import forget_quotes, make_quote
from rental.instances.models import Instance
from rental.records.clock import database_now
from scheduler.models import Request
from tests.factories.rental import (
    MICRO,
    NOON,
    PERSON,
    PRICE,
    make_gpu_model,
    make_image,
    make_offer,
    make_rich_tenant,
    order,
    seconds,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def sold():
    make_offer()
    make_image()


def quote(tenant, *, count=1, offer="a100-80g-1t", market="on_demand", image=None, now=NOON):
    return make_quote(
        tenant_id=tenant.id,
        offer_code=offer,
        market=market,
        image_code=image,
        count=count,
        now=now,
    )


def test_shows_price_total_and_how_long_the_balance_lasts(sold):
    tenant = make_rich_tenant(money=98 * MICRO)

    made = quote(tenant, count=2)

    assert (made.price, made.total_per_hour, made.currency) == (PRICE, 980_000, "CNY")
    assert made.balance_lasts_s == 100 * 3600
    assert made.expires_at == NOON + timedelta(minutes=10)
    compute, *metered = made.lines
    assert compute["component"] == "compute"
    assert (compute["unit_price"], compute["quantity"], compute["amount"]) == (PRICE, 2, 980_000)
    assert [(line["component"], line["amount"]) for line in metered] == [
        ("storage", None),
        ("egress", None),
    ]


def test_an_empty_wallet_lasts_no_second(sold):
    assert quote(make_rich_tenant(money=0)).balance_lasts_s == 0


@pytest.mark.parametrize("count", [0, 21])
def test_refuses_a_count_out_of_bounds(sold, count):
    with pytest.raises(errors.BadCount):
        quote(make_rich_tenant(), count=count)


def test_refuses_what_is_not_on_sale(sold):
    tenant = make_rich_tenant()
    with pytest.raises(errors.UnknownOffer):
        quote(tenant, offer="b200")
    with pytest.raises(errors.MarketNotOffered):
        quote(tenant, market="spot")
    with pytest.raises(errors.UnknownImage):
        quote(tenant, image="windows")
    make_offer("off-sale", active=False)
    with pytest.raises(errors.UnknownOffer):
        quote(tenant, offer="off-sale")
    assert not Quote.objects.exists()


def test_refuses_an_image_that_the_card_cannot_run(sold):
    tenant = make_rich_tenant()
    make_image("new", min_capability=90)
    make_image("ascend", vendor="huawei", min_capability=0)
    make_image("plain", vendor="", min_capability=0)

    with pytest.raises(errors.ImageDoesNotFit) as refusal:
        quote(tenant, image="new")
    assert (refusal.value.needs, refusal.value.has) == ("9.0", "8.0")
    with pytest.raises(errors.ImageDoesNotFit):
        quote(tenant, image="ascend")
    assert quote(tenant, image="plain").image_id == "plain"


def test_a_card_without_cuda_takes_its_own_vendors_images():
    make_gpu_model("Ascend 910B", 65536, capability="", vendor="huawei")
    make_offer("ascend", gpu_model_name="Ascend 910B", gpu_memory_mib=65536, vram_mib=6553)
    make_image("mindspore", vendor="huawei", min_capability=0)

    assert quote(make_rich_tenant(), offer="ascend", image="mindspore").image_id == "mindspore"


def test_an_offer_without_a_price_cannot_be_quoted(sold):
    make_offer("later", price=PRICE, now=NOON + timedelta(days=30))
    with pytest.raises(errors.OfferHasNoPrice):
        quote(make_rich_tenant(), offer="later")


def test_an_order_uses_its_quote(sold):
    tenant = make_rich_tenant()
    made = quote(tenant, count=2, image="pytorch-2.6.0-cuda12.4")

    instances = order(tenant, count=2, quote_id=made.id, now=NOON + seconds(599))

    made.refresh_from_db()
    assert len(instances) == 2
    assert made.used_at == NOON + seconds(599)


def nothing_happened(tenant):
    return not (
        Instance.objects.of(tenant.id).exists()
        or Hold.objects.filter(tenant=tenant).exists()
        or Request.objects.of(tenant.id).exists()
    )


def test_an_expired_quote_is_refused_and_nothing_happens(sold):
    tenant = make_rich_tenant()
    made = quote(tenant)

    with pytest.raises(errors.QuoteExpired):
        order(tenant, quote_id=made.id, now=NOON + timedelta(minutes=10))

    assert nothing_happened(tenant)


def test_a_strangers_quote_is_not_found(sold):
    made = quote(make_rich_tenant())
    stranger = make_rich_tenant()

    with pytest.raises(errors.UnknownQuote):
        order(stranger, quote_id=made.id)
    with pytest.raises(errors.UnknownQuote):
        order(stranger, quote_id=uuid.uuid4())

    assert nothing_happened(stranger)


@pytest.mark.parametrize(
    ("quoted", "ordered", "field"),
    [
        ({"count": 2}, {"count": 1}, "count"),
        ({"offer": "other"}, {}, "offer"),
        ({"image": "plain"}, {}, "image"),
    ],
)
def test_an_order_for_something_else_is_a_mismatch(sold, quoted, ordered, field):
    tenant = make_rich_tenant()
    make_offer("other")
    make_image("plain")
    made = quote(tenant, **quoted)

    with pytest.raises(errors.QuoteMismatch) as refusal:
        order(tenant, quote_id=made.id, **ordered)

    assert refusal.value.field == field
    assert nothing_happened(tenant)


def test_a_price_that_fell_since_is_taken_and_one_above_the_limit_is_not(sold):
    now = database_now()  # the database closes price versions by its own clock
    tenant = make_rich_tenant()
    made = quote(tenant, now=now)
    prices.publish_price(
        price_key=made.price_key,
        currency="CNY",
        price=PRICE - 1,
        unit="hour",
        effective_at=now + seconds(10),
        actor=PERSON,
        now=now + seconds(10),
    )

    with pytest.raises(errors.PriceAboveLimit):
        order(tenant, max_hourly_price=PRICE - 2, now=now + seconds(20))
    assert nothing_happened(tenant)

    assert order(tenant, quote_id=made.id, max_hourly_price=PRICE - 1, now=now + seconds(20))


def test_quotes_that_nobody_used_are_forgotten_after_a_week_and_used_ones_kept(sold):
    tenant = make_rich_tenant()
    unused, used = quote(tenant), quote(tenant)
    order(tenant, quote_id=used.id)

    assert forget_quotes(now=unused.expires_at + timedelta(days=7)) == 0
    assert forget_quotes(now=unused.expires_at + timedelta(days=7, seconds=1)) == 1

    assert Quote.objects.get() == used
