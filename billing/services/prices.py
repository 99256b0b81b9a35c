"""The price book: publish a price, read the one in force."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from psycopg.types.range import TimestamptzRange

from billing.errors import PriceNotAllowed, UnknownPrice
from billing.models import PriceVersion
from rental.records.audit import Actor, record_event
from rental.records.ids import to_text

__all__ = ["ANNOUNCED_AHEAD", "PriceVersion", "UnknownPrice", "price_at", "publish_price"]

# So that no quote (valid 10 minutes) is overtaken, and a customer sleeps one night over a rise.
ANNOUNCED_AHEAD: Final = timedelta(hours=24)


def price_at(*, price_key: str, at: datetime) -> PriceVersion:
    """
    Return the version in force at the instant.

    :raises UnknownPrice: if there is none
    """
    version = PriceVersion.objects.filter(price_key=price_key, during__contains=at).first()
    if version is None:
        raise UnknownPrice(price_key)
    return version


def _is_spot(price_key: str) -> bool:
    """Spot prices move with load; their rises are not announced (DESIGN §6)."""
    return price_key.startswith("compute/") and price_key.endswith("/spot")


@transaction.atomic
def publish_price(
    *,
    price_key: str,
    currency: str,
    price: int,
    unit: str = PriceVersion.Unit.HOUR,
    effective_at: datetime,
    actor: Actor,
    now: datetime,
    unit_bytes: int | None = None,
) -> PriceVersion:
    """
    Let ``price`` (micro-units a unit) hold from ``effective_at`` on; audited.

    The open version is closed at that instant; nothing before it is re-priced. A first price and
    a decrease may hold at once, a rise only 24 h after ``now`` (spot apart). Publishing the price
    that is in force already changes nothing.

    :raises PriceNotAllowed: for the past, an unannounced rise, a jump over an announced version,
        a negative price, or another currency or unit than the key has
    """
    if price < 0 or currency != settings.BILLING_CURRENCY:
        raise PriceNotAllowed(f"{price} {currency} cannot be a price here")
    if effective_at < now:
        raise PriceNotAllowed("a price never holds before it is published")
    with connection.cursor() as cursor:
        # Two publishers of one key: the second sees what the first wrote.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 6))", [price_key])
    last = PriceVersion.objects.filter(price_key=price_key).order_by("-during").first()
    if last is not None and last.during.upper is None:
        if (last.unit, last.unit_bytes) != (unit, unit_bytes):
            raise PriceNotAllowed(f"{price_key} is priced by {last.unit}")
        if last.price == price:
            return last
        if effective_at <= last.during.lower:
            raise PriceNotAllowed(f"another price holds from {last.during.lower} on")
        if price > last.price and effective_at < now + ANNOUNCED_AHEAD and not _is_spot(price_key):
            raise PriceNotAllowed("a rise is announced at least 24 hours ahead")
        last.during = TimestamptzRange(last.during.lower, effective_at)
        last.save(update_fields=["during"])
    elif last is not None and effective_at < last.during.upper:
        raise PriceNotAllowed(f"another price holds until {last.during.upper}")
    version = PriceVersion.objects.create(
        price_key=price_key,
        currency=currency,
        during=TimestamptzRange(effective_at, None),
        price=price,
        unit=unit,
        unit_bytes=unit_bytes,
        created_at=now,
    )
    record_event(
        tenant_id=None,
        actor=actor,
        verb="price.published",
        subject=to_text("prc", version.id),
        before=None if last is None else {"price": last.price},
        after={
            "price_key": price_key,
            "price": price,
            "currency": currency,
            "unit": unit,
            "effective_at": effective_at,
        },
        now=now,
    )
    return version
