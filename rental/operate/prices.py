"""The price list with what is announced, and whom a new price reaches."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Q

from billing.models import PriceVersion
from rental.catalog.models import Offer
from rental.catalog.services import price_key
from rental.instances.models import Instance
from rental.instances.states import COMING_UP
from rental.instances.states import InstanceState as S

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
