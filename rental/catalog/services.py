"""Selling: what is on sale for how much, and quotes that an order can name."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from billing.services import prices, wallets
from rental.catalog.errors import (
    BadCount,
    ImageDoesNotFit,
    MarketNotOffered,
    OfferHasNoPrice,
    PriceAboveLimit,
    QuoteExpired,
    QuoteMismatch,
    UnknownImage,
    UnknownOffer,
    UnknownQuote,
)
from rental.catalog.models import TENTHS, Image, Isolation, Offer, Quote, SliceKind
from scheduler.core.shapes import Mode
from scheduler.models import GpuModel
from scheduler.services.requests import Shape

MOST_INSTANCES = 20
QUOTE_LASTS = timedelta(minutes=10)
QUOTE_KEPT_FOR = timedelta(minutes=3)  # a page keeps a quote while at least so much of it is left
UNUSED_QUOTE_KEPT = timedelta(days=7)  # after its end, for whoever asks what he was shown
# What the scheduler calls the slice that an offer sells; a constraint of Offer keeps to these.
MODES: dict[tuple[str, str], Mode] = {
    (SliceKind.WHOLE, Isolation.WHOLE): "whole",
    (SliceKind.MIG, Isolation.HARDWARE): "mig",
    (SliceKind.SHARE, Isolation.TENANT): "share_tenant",
    (SliceKind.SHARE, Isolation.SHARED): "share_shared",
}
# Measured and shown from the first day, charged when the operator prices them.
NOT_PRICED_YET = ("storage", "egress")


def price_key(offer: Offer, market: str) -> str:
    """Return the key under which billing prices the offer; billing never reads into it."""
    return f"compute/{offer.region}/{offer.code}/{market}"


def get_offer(*, code: str, market: str) -> Offer:
    """
    Return what is on sale.

    :raises UnknownOffer: if nothing is on sale under ``code``
    :raises MarketNotOffered: if it is not sold on ``market``
    """
    offer = Offer.objects.filter(code=code, active=True).first()
    if offer is None:
        raise UnknownOffer(code)
    if market not in offer.markets:
        raise MarketNotOffered(code, market, offer.markets)
    return offer


def get_image(*, code: str, offer: Offer) -> Image:
    """
    Return an image that runs on the offer's GPU.

    :raises UnknownImage: if none is offered under ``code``
    :raises ImageDoesNotFit: if the GPU is another vendor's or too old for it
    """
    image = Image.objects.filter(code=code, active=True).first()
    if image is None:
        raise UnknownImage(code)
    model = GpuModel.objects.filter(
        name=offer.gpu_model_name, memory_mib=offer.gpu_memory_mib
    ).first()
    if gap := misfit(image, model):
        raise ImageDoesNotFit(code, offer.code, *gap)
    return image


def misfit(image: Image, model: GpuModel | None) -> tuple[str, str] | None:
    """
    Return what the image needs and what the card has instead, None if it runs there: two vendors,
    or two compute capabilities ("8.0"). A card without figures takes any image.
    """
    if model is None:
        return None
    if image.vendor and image.vendor != model.vendor:
        return image.vendor, model.vendor
    capability = capability_of(model)
    if image.min_capability > capability:
        return f"{image.min_capability / 10:.1f}", f"{capability / 10:.1f}"
    return None


def capability_of(model: GpuModel) -> int:
    """Return the compute capability times ten; 0 for a card that has none."""
    text = str(model.compute_capability or "")
    major, _dot, minor = text.partition(".")
    return int(major) * 10 + int((minor or "0")[0]) if major.isdigit() else 0


def shape_of(offer: Offer) -> Shape:
    """Return what the scheduler is asked to place for one instance of the offer."""
    mode = MODES[offer.slice, offer.isolation]
    return Shape(
        gpu_models=((offer.gpu_model_name, offer.gpu_memory_mib),),
        mode=mode,
        count=offer.count,
        tenths=TENTHS if mode == "mig" else offer.tenths,
        vram_mib=offer.vram_mib // offer.count,  # the scheduler asks for so much of each card
        cpu_milli=offer.cpu_milli,
        ram_mib=offer.ram_mib,
        disk_mib=offer.disk_mib,
        profile=offer.mig_profile if mode == "mig" else "",
    )


def check_count(count: int) -> None:
    """:raises BadCount: unless 1 <= count <= 20"""
    if not 1 <= count <= MOST_INSTANCES:
        raise BadCount(count, MOST_INSTANCES)


def current_price(*, offer: Offer, market: str, now: datetime) -> prices.PriceVersion:
    """
    Return the price version that is valid now.

    :raises OfferHasNoPrice: if none is
    """
    key = price_key(offer, market)
    try:
        return prices.price_at(price_key=key, at=now)
    except prices.UnknownPrice as error:
        raise OfferHasNoPrice(key) from error


@transaction.atomic
def make_quote(
    *,
    tenant_id: uuid.UUID,
    offer_code: str,
    market: str,
    image_code: str | None,
    count: int,
    now: datetime,
) -> Quote:
    """
    Show what an order would cost, and keep the price for ten minutes.

    A rise is announced 24 h ahead (DESIGN §6), so the price shown is the price billed.

    :raises UnknownOffer, MarketNotOffered, UnknownImage, ImageDoesNotFit, BadCount: bad order
    :raises OfferHasNoPrice: if the offer has no price now
    """
    check_count(count)
    offer = get_offer(code=offer_code, market=market)
    image = get_image(code=image_code, offer=offer) if image_code else None
    version = current_price(offer=offer, market=market, now=now)
    total = version.price * count
    balance = wallets.read_balance(tenant_id=tenant_id, now=now)
    return Quote.objects.create(
        tenant_id=tenant_id,
        offer=offer,
        image=image,
        market=market,
        count=count,
        price_key=version.price_key,
        price_version_id=str(version.id),
        price=version.price,
        total_per_hour=total,
        currency=version.currency,
        lines=_lines(offer=offer, price=version.price, count=count),
        balance_lasts_s=lasts_s(
            available=balance.available, burn_per_hour=balance.burn_per_hour + total
        ),
        created_at=now,
        expires_at=now + QUOTE_LASTS,
    )


def keep_or_make_quote(
    *,
    tenant_id: uuid.UUID,
    quote_id: uuid.UUID | None,
    offer_code: str,
    market: str,
    image_code: str | None,
    count: int,
    now: datetime,
) -> Quote:
    """
    Return the quote if it is for the same order, at today's price and good for some minutes yet;
    else make one. So that somebody who tries many fields does not leave a row for each letter.

    :raises CatalogError: as ``make_quote``
    """
    quotes = Quote.objects.of(tenant_id).select_related("offer")
    known = quotes.filter(pk=quote_id).first() if quote_id is not None else None
    wanted = (offer_code, market, image_code, count)
    if known is not None and (known.offer_id, known.market, known.image_id, known.count) == wanted:
        offer = get_offer(code=offer_code, market=market)
        if image_code:
            get_image(code=image_code, offer=offer)
        price = current_price(offer=offer, market=market, now=now).price
        if known.price == price and known.is_valid(at=now + QUOTE_KEPT_FOR):
            return known
    return make_quote(
        tenant_id=tenant_id,
        offer_code=offer_code,
        market=market,
        image_code=image_code,
        count=count,
        now=now,
    )


def _lines(*, offer: Offer, price: int, count: int) -> list[dict[str, Any]]:
    """Price lines of a quote. ``amount`` null: metered, no price yet, costs nothing now."""
    compute = {
        "component": "compute",
        "description": offer.name,
        "unit": "hour",
        "quantity": count,
        "unit_price": price,
        "amount": price * count,
    }
    free = [
        {
            "component": component,
            "description": str(_("metered, no price yet: costs nothing now")),
            "unit": unit,
            "quantity": None,
            "unit_price": None,
            "amount": None,
        }
        for component, unit in zip(NOT_PRICED_YET, ("gb_month", "gb"), strict=True)
    ]
    return [compute, *free]


def lasts_s(*, available: int, burn_per_hour: int) -> int | None:
    """Return for how many whole seconds the money lasts; None if nothing is spent."""
    if burn_per_hour <= 0:
        return None
    return max(0, available) * 3600 // burn_per_hour


def take_quote(
    *,
    tenant_id: uuid.UUID,
    quote_id: uuid.UUID,
    offer: Offer,
    market: str,
    image: Image,
    count: int,
    price: int,
    now: datetime,
) -> Quote:
    """
    Use a quote for an order: the order must be what was quoted, and not dearer. Call in the
    order's transaction.

    A quote may be used again while it is valid: it fixes a price, it reserves nothing.

    :raises UnknownQuote: if the tenant has no such quote
    :raises QuoteExpired: if its ten minutes are over
    :raises QuoteMismatch: if the order is for something else, or the price has risen since
    """
    quote = Quote.objects.of(tenant_id).filter(pk=quote_id).first()
    if quote is None:
        raise UnknownQuote(quote_id)
    if not quote.is_valid(at=now):
        raise QuoteExpired(quote_id, quote.expires_at)
    pairs: list[tuple[str, object, object]] = [
        ("offer", quote.offer_id, offer.code),
        ("market", quote.market, market),
        ("count", quote.count, count),
    ]
    if quote.image_id is not None:
        pairs.append(("image", quote.image_id, image.code))
    for field, quoted, ordered in pairs:
        if quoted != ordered:
            raise QuoteMismatch(quote_id, field, str(quoted), str(ordered))
    if price > quote.price:
        raise QuoteMismatch(quote_id, "price", str(quote.price), str(price))
    quote.used_at = now
    quote.save(update_fields=["used_at"])
    return quote


def forget_quotes(*, now: datetime) -> int:
    """
    Delete the quotes that nobody used and that ended long ago; return how many. One that an order
    used stays: it says which price was shown.
    """
    old = Quote.objects.filter(used_at__isnull=True, expires_at__lt=now - UNUSED_QUOTE_KEPT)
    return old.delete()[0]


def check_limit(*, total: int, limit: int | None) -> None:
    """:raises PriceAboveLimit: if the order costs more an hour than the customer wants"""
    if limit is not None and total > limit:
        raise PriceAboveLimit(total, limit)
