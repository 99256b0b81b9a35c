"""What everything costs, for everybody: the price page, and the door from it to the launch page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from billing.services.prices import ANNOUNCED_AHEAD
from rental.catalog.queries import Card, list_cards, region_names
from rental.catalog.services import QUOTE_LASTS
from rental.records.clock import database_now
from rental.web import answers
from rental.web.forms.prices import PriceFilters, read_filters
from rental.web.isolation import LEVELS, Level
from rental.web.person import Person, personal

log = structlog.get_logger()

MEMORIES_GIB = (8, 16, 24, 40, 48, 80, 96, 141)


@dataclass(frozen=True, kw_only=True)
class PricesContext:
    """``here``: cards of this fleet; ``elsewhere``: those on the list that it has not."""

    here: Sequence[Card]
    elsewhere: Sequence[Card]
    filters: PriceFilters
    models: Sequence[Card]
    regions: Mapping[str, str]
    levels: Sequence[Level] = LEVELS
    memories: Sequence[int] = MEMORIES_GIB
    billing_zone: str
    announced_hours: int
    quote_minutes: int
    has_demo_prices: bool


@require_safe
def show_prices(request: HttpRequest) -> HttpResponse:
    """Show every price with its stock; nobody needs to sign in."""
    try:
        now = database_now()
        cards = list_cards(now=now)
        regions = region_names()
    except (OperationalError, InterfaceError) as error:
        log.warning("web.database_away", error=str(error))
        return answers.unavailable(request)
    filters = read_filters(request.GET)
    shown = filters.cut(cards)
    context = PricesContext(
        here=[card for card in shown if card.exists],
        elsewhere=[card for card in shown if not card.exists],
        filters=filters,
        models=cards,
        regions=regions,
        billing_zone=settings.BILLING_TIME_ZONE,
        announced_hours=int(ANNOUNCED_AHEAD.total_seconds() // 3600),
        quote_minutes=int(QUOTE_LASTS.total_seconds() // 60),
        has_demo_prices=any(card.is_demo_price for card in cards),
    )
    with timezone.override(ZoneInfo(settings.BILLING_TIME_ZONE)):
        return render(request, "web/prices/prices.html", answers.members_of(context))


@require_safe
def launch_somewhere(request: HttpRequest) -> HttpResponse:
    """Go to the launch page of the visitor's tenant; to sign-up for whoever has no account."""
    if request.user.is_authenticated:
        return _to_launch(request)
    if settings.SIGNUP_ENABLED:
        query = urlencode({"next": request.get_full_path()})
        return HttpResponseRedirect(f"{reverse('account_signup')}?{query}")
    return redirect_to_login(request.get_full_path())


@personal("GET")
def _to_launch(person: Person) -> HttpResponse:
    if person.visit is None:
        return person.redirect("no_tenant")
    query = person.request.META.get("QUERY_STRING", "")
    return person.redirect(f"{person.visit.home}launch{'?' if query else ''}{query}")
