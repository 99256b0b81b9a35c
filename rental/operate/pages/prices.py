"""Prices: the list, and publishing one or many after a look at whom they reach."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from billing.core.money import format_micro
from billing.errors import PriceNotAllowed
from billing.services.prices import ANNOUNCED_AHEAD, publish_price
from rental.catalog.models import Market, Offer
from rental.catalog.services import price_key
from rental.operate.forms import PercentForm, PriceForm
from rental.operate.page import FORM, may, show, staff_page
from rental.operate.prices import Priced, earliest_rise, fault_of, list_prices, reach_of
from rental.operate.reprice import Change, changes_of, fingerprint, publish_changes
from rental.operate.words import exact_money, moment
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
        earliest_rise=earliest_rise(now=now),
        rises_above=None
        if priced.before is None or priced.market == Market.SPOT
        else format_micro(priced.before),
    )


def _new_price(form: PriceForm, priced: Priced, *, now: datetime) -> NewPrice:
    begins_at = form.begins_at(now=now)
    return NewPrice(
        price=form.cleaned_data["price"],
        before=priced.before,
        begins_at=begins_at,
        is_at_once=form.cleaned_data["effective_at"] is None,
    )


def _check(form: PriceForm, priced: Priced, new: NewPrice, *, now: datetime) -> None:
    """Say beside the field what would be refused; a rise that is too early gets its moment."""
    fault = fault_of(priced, new.price, begins_at=new.begins_at, now=now)
    if fault:
        form.add_error(*fault)
    if priced.is_rise(new.price) and new.begins_at < now + ANNOUNCED_AHEAD:
        form.fill_in(earliest_rise(now=now))


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
            "time": moment(new.begins_at),
        },
    )
    return True


@staff_page(WRITE, FORM)
def change_many(request: HttpRequest) -> HttpResponse:
    """
    A percentage for the prices that are ticked, or for all on sale: a form, a look at old and new
    (``step=look``), and publishing all of them or none (``step=publish``).
    """
    now = database_now()
    keys = (request.POST if request.method == "POST" else request.GET).getlist("key")
    rows = _chosen(keys, now=now)
    form = PercentForm(request.POST or None)
    changes: list[Change] = []
    begins_at = now
    if request.method == "POST" and form.is_valid():
        begins_at = form.begins_at(now=now)
        changes = _look(form, rows, begins_at=begins_at, now=now)
        if request.POST.get("step") == "publish" and _all_published(
            request, form, changes, begins_at=begins_at, now=now
        ):
            return redirect("operate:prices")
    is_shown = not form.has_error("effective_at") and request.POST.get("step") != "edit"
    return show(
        request,
        "change_prices.html",
        title=_("Change many prices"),
        form=form,
        rows=rows,
        keys=keys,
        changes=changes if is_shown else [],
        moving=[one for one in changes if one.amount],
        has_fault=any(one.fault for one in changes),
        seen=fingerprint(changes),
        begins_at=begins_at if form.is_bound and form.data.get("effective_at") else None,
        currency=settings.BILLING_CURRENCY,
        earliest_rise=earliest_rise(now=now),
    )


def _chosen(keys: list[str], *, now: datetime) -> list[Priced]:
    """Return the rows of these price keys; without any, all that are on sale and have a price."""
    rows = [row for row in list_prices(now=now) if row.before is not None]
    if not keys:
        return [row for row in rows if row.offer.active]
    return [row for row in rows if row.key in keys]


def _look(
    form: PercentForm, rows: list[Priced], *, begins_at: datetime, now: datetime
) -> list[Change]:
    """Return what becomes of the rows; a rise that is too early is said beside the field."""
    changes = changes_of(
        rows,
        percent=form.cleaned_data["percent"],
        rounding=form.cleaned_data["rounding"],
        begins_at=begins_at,
        now=now,
    )
    has_rise = any(one.priced.is_rise(one.after) for one in changes)
    if begins_at < now:
        form.add_error("effective_at", _("A price never holds before it is published."))
    elif has_rise and begins_at < now + ANNOUNCED_AHEAD:
        words = _("A rise is announced at least 24 hours ahead: %(time)s or later.")
        form.add_error("effective_at", words % {"time": moment(now + ANNOUNCED_AHEAD)})
        form.fill_in(earliest_rise(now=now))
    return changes


def _all_published(
    request: HttpRequest,
    form: PercentForm,
    changes: list[Change],
    *,
    begins_at: datetime,
    now: datetime,
) -> bool:
    """Publish what was looked at; say so if a price has changed since, and change nothing."""
    if form.errors or any(one.fault for one in changes):
        return False
    if request.POST.get("seen") != fingerprint(changes):
        form.add_error(None, _("Prices have changed since you looked. Nothing was published."))
        return False
    try:
        done = publish_changes(changes, begins_at=begins_at, actor=staff_actor(request), now=now)
    except PriceNotAllowed as error:
        form.add_error(None, str(error))
        return False
    words = ngettext(
        "%(n)s price changes from %(time)s on.", "%(n)s prices change from %(time)s on.", done
    )
    messages.success(request, words % {"n": done, "time": moment(begins_at)})
    return True
