"""The price book never re-prices the past."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.utils import Error

from billing.errors import PriceNotAllowed, UnknownPrice
from billing.models import PriceVersion
from billing.services.prices import price_at, publish_price
from rental.tenants.models import AuditEvent
from tests.factories.billing import KEY, NOON, STAFF, make_price

pytestmark = pytest.mark.django_db
DAY = timedelta(hours=24)


def publish(price, *, at=NOON, now=NOON, key=KEY):
    return publish_price(
        price_key=key,
        currency="CNY",
        price=price,
        unit="hour",
        effective_at=at,
        actor=STAFF,
        now=now,
    )


def test_a_first_price_and_a_decrease_hold_at_once():
    publish(4_900_000)
    publish(4_000_000, at=NOON + timedelta(hours=1), now=NOON + timedelta(hours=1))
    assert price_at(price_key=KEY, at=NOON).price == 4_900_000
    assert price_at(price_key=KEY, at=NOON + timedelta(hours=1)).price == 4_000_000
    with pytest.raises(UnknownPrice):
        price_at(price_key=KEY, at=NOON - timedelta(microseconds=1))


def test_a_rise_is_announced_24_hours_ahead():
    publish(4_900_000)
    with pytest.raises(PriceNotAllowed):
        publish(4_900_001, at=NOON + DAY - timedelta(microseconds=1))
    publish(4_900_001, at=NOON + DAY)
    assert price_at(price_key=KEY, at=NOON + DAY - timedelta(seconds=1)).price == 4_900_000
    assert price_at(price_key=KEY, at=NOON + DAY).price == 4_900_001


def test_spot_moves_without_announcement():
    key = "compute/test/a100-whole/spot"
    publish(980_000, key=key)
    publish(1_470_000, key=key, at=NOON + timedelta(minutes=5))
    assert price_at(price_key=key, at=NOON + timedelta(minutes=5)).price == 1_470_000


def test_the_same_price_again_changes_nothing():
    first = publish(4_900_000)
    assert publish(4_900_000, at=NOON + DAY).id == first.id
    assert PriceVersion.objects.count() == 1
    assert AuditEvent.objects.filter(verb="price.published").count() == 1


def test_who_publishes_is_written_down_with_the_price_before():
    publish(4_900_000)
    publish(4_000_000, at=NOON + DAY)

    event = AuditEvent.objects.filter(verb="price.published").order_by("id").last()
    assert (event.actor_kind, event.actor_id) == ("staff", "usr_operator")
    assert event.before == {"price": 4_900_000}
    assert event.after == {
        "price_key": KEY,
        "price": 4_000_000,
        "currency": "CNY",
        "unit": "hour",
        "effective_at": "2030-03-06T12:00:00Z",
    }


def test_a_price_that_is_refused_is_not_written_down():
    publish(4_900_000)
    with pytest.raises(PriceNotAllowed):
        publish(4_900_001)
    assert AuditEvent.objects.filter(verb="price.published").count() == 1


@pytest.mark.parametrize("at", [NOON - timedelta(seconds=1), NOON])
def test_the_past_and_an_announced_version_are_not_overtaken(at):
    publish(4_900_000, at=NOON + DAY)
    with pytest.raises(PriceNotAllowed):
        publish(4_000_000, at=at)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE billing_priceversion SET price = 1",
        "UPDATE billing_priceversion SET price_key = 'x'",
        "UPDATE billing_priceversion SET during = tstzrange('2019-01-01', NULL)",
        "UPDATE billing_priceversion SET during = tstzrange(lower(during), '2026-01-01')",
        "DELETE FROM billing_priceversion",
    ],
)
def test_the_database_refuses_to_change_a_price(change):
    make_price(4_900_000)
    with pytest.raises(Error), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


def test_a_closed_version_is_closed():
    version = make_price(4_900_000, until=NOON)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_priceversion SET during = tstzrange(lower(during), NULL) WHERE id = %s",
            [version.id],
        )


def test_two_prices_never_hold_at_once():
    make_price(4_900_000, until=NOON)
    with pytest.raises(IntegrityError), transaction.atomic():
        make_price(1, since=NOON - timedelta(seconds=1))


@pytest.mark.parametrize(
    "table", ["charge", "transfer", "posting", "reversal", "waiver", "priceversion"]
)
def test_every_append_only_table_has_its_guard(table):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal",
            [f"billing_{table}"],
        )
        assert cursor.fetchone()[0] == 2
