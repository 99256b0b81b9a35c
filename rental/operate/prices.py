"""The price list with what is announced, whom a new price reaches, and what would be refused."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, Q
from django.utils.translation import gettext_lazy as _

from billing.models import PriceVersion
from billing.services.prices import ANNOUNCED_AHEAD
from rental.catalog.models import Market, Offer
from rental.catalog.services import price_key
from rental.instances.models import Instance
from rental.instances.states import COMING_UP
from rental.instances.states import InstanceState as S
from rental.operate.words import moment

USES_IT: Final = (S.RUNNING, S.MIGRATING, *COMING_UP)  # pays, or soon will
MAY_START: Final = (S.QUEUED, S.STOPPING, S.STOPPED, S.FAILED)  # pays once it runs (again)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """An offer on one market. ``now``: the price in force; ``next``: one that is announced."""

    offer: Offer
    market: str
    key: str
    now: PriceVersion | None
    next: PriceVersion | None
    running: int

    @property
    def before(self) -> int | None:
        """What a new price follows: one that is announced, or else the one in force."""
        version = self.next or self.now
        return None if version is None else version.price

    def is_rise(self, price: int) -> bool:
        """Spot prices move with load; their rises are not announced."""
        return self.before is not None and price > self.before and self.market != Market.SPOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whom a price reaches: instances that run or come up, those that may start again, tenants."""

    running: int
    resting: int
    tenants: int


def list_prices(*, now: datetime) -> list[Priced]:
    """Return every offer on each of its markets, on sale first. Three queries."""
    offers = list(Offer.objects.order_by("-active", "gpu_model_name", "gpu_memory_mib", "code"))
    keys = {
        price_key(offer, market): (offer, market) for offer in offers for market in offer.markets
    }
    in_force: dict[str, PriceVersion] = {}
    announced: dict[str, PriceVersion] = {}
    standing = Q(during__upper_inf=True) | Q(during__endswith__gt=now)
    for version in PriceVersion.objects.filter(standing, price_key__in=keys).order_by("during"):
        if version.during.lower <= now:
            in_force[version.price_key] = version
        else:
            announced.setdefault(version.price_key, version)
    running = dict(
        Instance.objects.filter(state__in=USES_IT, price_key__in=keys)
        .values_list("price_key")
        .annotate(Count("id"))
    )
    return [
        Priced(
            offer=offer,
            market=market,
            key=key,
            now=in_force.get(key),
            next=announced.get(key),
            running=running.get(key, 0),
        )
        for key, (offer, market) in keys.items()
    ]


def reach_of(key: str) -> Reach:
    """Return how many instances and tenants a new price of ``key`` reaches. One query."""
    pays, rests = Q(state__in=USES_IT), Q(state__in=MAY_START)
    return Reach(
        **Instance.objects.filter(pays | rests, price_key=key).aggregate(
            running=Count("id", filter=pays),
            resting=Count("id", filter=rests),
            tenants=Count("tenant_id", distinct=True),
        )
    )


def earliest_rise(*, now: datetime) -> datetime:
    """
    Return a moment for a rise that is still allowed ten minutes later, when it was looked at and is
    published: the next quarter of an hour from there.
    """
    soonest = now + ANNOUNCED_AHEAD + timedelta(minutes=10)
    begun = timedelta(minutes=soonest.minute % 15, seconds=soonest.second)
    return soonest.replace(microsecond=0) - begun + timedelta(minutes=15)


def fault_of(
    priced: Priced, price: int, *, begins_at: datetime, now: datetime
) -> tuple[str, Any] | None:
    """
    Return (field, words) for what the service would refuse, None for what it takes. The service
    decides all the same.
    """
    if begins_at < now:
        return "effective_at", _("A price never holds before it is published.")
    if price == priced.before:
        return "price", _("That is the price already.")
    if priced.next and begins_at <= priced.next.during.lower:
        words = _("Another price is announced from %(time)s on: a new one can only follow it.")
        return "effective_at", words % {"time": moment(priced.next.during.lower)}
    if priced.is_rise(price) and begins_at < now + ANNOUNCED_AHEAD:
        words = _("A rise is announced at least 24 hours ahead: %(time)s or later.")
        return "effective_at", words % {"time": moment(now + ANNOUNCED_AHEAD)}
    return None
