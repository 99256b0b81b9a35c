"""Prices: the list, and publishing a new one after a look at whom it reaches."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import formats, timezone
from django.utils.translation import gettext_lazy as _

from billing.errors import PriceNotAllowed
from billing.services.prices import ANNOUNCED_AHEAD, publish_price
from rental.catalog.models import Market, Offer
from rental.catalog.services import price_key
from rental.operate.forms import PriceForm
from rental.operate.page import FORM, may, show, staff_page
from rental.operate.prices import Priced, list_prices, reach_of
from rental.operate.words import exact_money
from rental.records.clock import database_now
from rental.tenants.admin import staff_actor

READ, WRITE = "billing:read", "billing:write"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrice:
    """``price`` micro-units an hour; ``before``: what it follows, None for a first price."""

    price: int
    before: int | None
    begins_at: datetime
    is_at_once: bool

    @property
    def change(self) -> int | None:
        return None if self.before is None else self.price - self.before


@staff_page(READ)
def prices(request: HttpRequest) -> HttpResponse:
    rows = list_prices(now=database_now())
    return show(
        request,
        "prices.html",
        title=_("Prices"),
        rows=rows,
        currency=settings.BILLING_CURRENCY,
        made_up=sum(1 for row in rows if row.offer.is_demo_price and row.offer.active),
        may_write=may(request, WRITE),
    )


@staff_page(WRITE, FORM)
def publish(request: HttpRequest, offer: str, market: str) -> HttpResponse:
    """A form, a look (``step=look``), and publishing (``step=publish``)."""
    row = get_object_or_404(Offer, pk=offer)
    if market not in row.markets:
        raise Http404
    now = database_now()
    (priced,) = (one for one in list_prices(now=now) if one.key == price_key(row, market))
    form = PriceForm(request.POST or None)
    new = None
    if request.method == "POST" and form.is_valid():
        new = _new_price(form, priced, now=now)
        _check(form, priced, new, now=now)
        is_sure = not form.errors and request.POST.get("step") == "publish"
        if is_sure and _published(request, form, priced, new, now=now):
            return redirect("operate:prices")
    return show(
        request,
        "publish_price.html",
        title=_("New price"),
        priced=priced,
        form=form,
        new=new if not form.errors and request.POST.get("step") != "edit" else None,
        reach=reach_of(priced.key),
        currency=settings.BILLING_CURRENCY,
        earliest_rise=now + ANNOUNCED_AHEAD,
    )


def _new_price(form: PriceForm, priced: Priced, *, now: datetime) -> NewPrice:
    follows = priced.next or priced.now
    begins_at = form.begins_at(now=now)
    return NewPrice(
        price=form.cleaned_data["price"],
        before=follows.price if follows else None,
        begins_at=begins_at,
        is_at_once=form.cleaned_data["effective_at"] is None,
    )


def _check(form: PriceForm, priced: Priced, new: NewPrice, *, now: datetime) -> None:
    """Say beside the field what the service would refuse; the service decides all the same."""
    if new.begins_at < now:
        form.add_error("effective_at", _("A price never holds before it is published."))
    elif new.change == 0:
        form.add_error("price", _("That is the price already."))
    elif priced.next and new.begins_at <= priced.next.during.lower:
        form.add_error(
            "effective_at",
            _("Another price is announced from %(time)s on: a new one can only follow it.")
            % {"time": _moment(priced.next.during.lower)},
        )
    elif _is_rise(new, priced) and new.begins_at < now + ANNOUNCED_AHEAD:
        form.add_error(
            "effective_at",
            _("A rise is announced at least 24 hours ahead: %(time)s or later.")
            % {"time": _moment(now + ANNOUNCED_AHEAD)},
        )


def _is_rise(new: NewPrice, priced: Priced) -> bool:
    """Spot prices move with load; their rises are not announced."""
    return new.change is not None and new.change > 0 and priced.market != Market.SPOT


def _moment(at: datetime) -> str:
    return formats.date_format(timezone.localtime(at), "Y-m-d H:i")


def _published(
    request: HttpRequest, form: PriceForm, priced: Priced, new: NewPrice, *, now: datetime
) -> bool:
    try:
        publish_price(
            price_key=priced.key,
            currency=settings.BILLING_CURRENCY,
            price=new.price,
            effective_at=new.begins_at,
            actor=staff_actor(request),
            now=now,
        )
    except PriceNotAllowed as error:
        form.add_error(None, str(error))
        return False
    messages.success(
        request,
        _("%(offer)s costs %(price)s %(currency)s an hour from %(time)s on.")
        % {
            "offer": priced.offer.name,
            "price": exact_money(new.price),
            "currency": settings.BILLING_CURRENCY,
            "time": _moment(new.begins_at),
        },
    )
    return True
