"""What is on sale, as lists and pages read it: prices, stock, cards, images. Reads only."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.range import TimestamptzRange

from billing.models import PriceVersion
from rental.catalog.models import Image, Market, Offer
from rental.catalog.services import misfit, price_key, shape_of
from scheduler.models import GpuModel, Region
from scheduler.queries import Stock, stock_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A price that was announced: micro-units a unit, from ``at`` on."""

    price: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """What an offer costs on a market, micro-units a unit: now, since when, and what comes."""

    market: str
    unit: str
    price: int
    currency: str
    since: datetime
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class OnSale:
    """An offer with its on-demand rate and its stock."""

    offer: Offer
    rate: Rate
    stock: Stock


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """
    A GPU model and everything that is sold of it, in all regions.

    ``model``: its figures, None where nobody has entered them. ``sold``: never empty, by
    isolation (whole first), then by size.
    """

    name: str
    memory_mib: int
    model: GpuModel | None
    sold: tuple[OnSale, ...]

    @property
    def slug(self) -> str:
        """Return a text that stands for the card in an address or an id."""
        return f"{self.name.lower().replace(' ', '')}-{self.memory_mib // 1024}g"

    @property
    def cheapest(self) -> OnSale:
        return min(self.sold, key=lambda one: (one.rate.price, one.offer.code))

    @property
    def exists(self) -> bool:
        """True if some node could hold some part of it."""
        return any(one.stock.exists for one in self.sold)

    @property
    def available(self) -> int:
        """The most that could be placed now of any of its offers."""
        return max(one.stock.available for one in self.sold)

    @property
    def is_demo_price(self) -> bool:
        return any(one.offer.is_demo_price for one in self.sold)


def rates_of(offers: Iterable[Offer], *, now: datetime) -> dict[str, list[Rate]]:
    """Return the rates of each offer by its code, in order of market: one query."""
    keys = {
        price_key(offer, market): (offer.code, market)
        for offer in offers
        for market in offer.markets
    }
    found: dict[str, list[PriceVersion]] = {key: [] for key in keys}
    from_now_on = TimestamptzRange(now, None)
    versions = PriceVersion.objects.filter(price_key__in=list(keys), during__overlap=from_now_on)
    for version in versions.order_by("during"):
        found[version.price_key].append(version)
    rates: dict[str, list[Rate]] = {}
    for key in sorted(found):
        code, market = keys[key]
        rate = _rate_of(market, found[key], now=now)
        if rate is not None:
            rates.setdefault(code, []).append(rate)
    return rates


def _rate_of(market: str, versions: Sequence[PriceVersion], *, now: datetime) -> Rate | None:
    """Return the rate of one key; None if no version holds now."""
    current = next((version for version in versions if version.during.lower <= now), None)
    if current is None:
        return None
    return Rate(
        market=market,
        unit=current.unit,
        price=current.price,
        currency=current.currency,
        since=current.during.lower,
        changes=tuple(
            Change(price=version.price, at=version.during.lower)
            for version in versions
            if version.during.lower > now
        ),
    )


def stocks_of(
    offers: Sequence[Offer], *, tenant_id: uuid.UUID | None, now: datetime
) -> dict[str, Stock]:
    """Return the stock of each offer by its code, as the tenant would find it."""
    wanted = [(shape_of(offer), offer.region) for offer in offers]
    stocks = stock_of(wanted, tenant_id=tenant_id, now=now)
    return {offer.code: stock for offer, stock in zip(offers, stocks, strict=True)}


def list_cards(*, tenant_id: uuid.UUID | None = None, now: datetime) -> list[Card]:
    """
    Return what is sold on demand and has a price now, by card: first those that this fleet has,
    then the others; in each the larger memory first.

    Eight queries whatever the catalogue and the fleet, three while the stock is kept.
    """
    offers = list(Offer.objects.filter(active=True, markets__contains=[Market.ON_DEMAND]))
    rates = rates_of(offers, now=now)
    stocks = stocks_of(offers, tenant_id=tenant_id, now=now)
    models = {(model.name, model.memory_mib): model for model in GpuModel.objects.all()}
    sold: dict[tuple[str, int], list[OnSale]] = {}
    for offer in offers:
        rate = next((r for r in rates.get(offer.code, ()) if r.market == Market.ON_DEMAND), None)
        if rate is not None:
            one = OnSale(offer=offer, rate=rate, stock=stocks[offer.code])
            sold.setdefault((offer.gpu_model_name, offer.gpu_memory_mib), []).append(one)
    cards = [
        Card(
            name=name,
            memory_mib=memory_mib,
            model=models.get((name, memory_mib)),
            sold=tuple(sorted(several, key=_by_isolation_and_size)),
        )
        for (name, memory_mib), several in sold.items()
    ]
    return sorted(cards, key=lambda card: (not card.exists, -card.memory_mib, card.name))


ISOLATIONS = ("whole", "hardware", "tenant", "shared")  # from the best kept apart to the least


def _by_isolation_and_size(one: OnSale) -> tuple[int, int, int, str]:
    offer = one.offer
    return (ISOLATIONS.index(offer.isolation), offer.count, offer.vram_mib, offer.code)


def list_images() -> list[Image]:
    """Return the images that are offered."""
    return list(Image.objects.filter(active=True))


def cards_of(image: Image, cards: Iterable[Card]) -> list[str]:
    """Return the slugs of the cards on which the image runs."""
    return [card.slug for card in cards if misfit(image, card.model) is None]


def region_names() -> Mapping[str, str]:
    """Return what each region is called, by its code."""
    return {region.code: region.name or region.code for region in Region.objects.all()}
