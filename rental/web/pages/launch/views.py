"""Show the launch page, work out its price while fields change, and take the order."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.utils.translation import ngettext

from billing.services.wallets import Balance
from rental.catalog.errors import UnknownQuote
from rental.catalog.queries import list_cards
from rental.instances import services
from rental.instances.models import Instance
from rental.records import ids
from rental.records.idempotency import IdempotencyKeyReused
from rental.refusals import Refusal
from rental.tenants.models import SshKey
from rental.tenants.services import add_ssh_key
from rental.tenants.ssh import parse_public_key
from rental.web.estimates import Estimate, estimate
from rental.web.forms.launch import LaunchForm, Order
from rental.web.once import FIELD as ONCE
from rental.web.once import new_key
from rental.web.pages.launch.choices import (
    CardChoice,
    Catalog,
    ImageGroup,
    Own,
    card_choices,
    image_groups,
    initial_of,
    read_catalog,
    read_own,
)
from rental.web.pages.launch.words import order_refusal
from rental.web.snippets import Snippet, snippets_of
from rental.web.visit import Visit, action, page


@dataclass(frozen=True, kw_only=True)
class EstimateContext:
    """The right side of the page. ``tells``: the words of a refused order, about the price."""

    estimate: Estimate
    snippets: Sequence[Snippet]
    tells: str = ""


@dataclass(frozen=True, kw_only=True)
class LaunchContext(EstimateContext):
    """
    The whole page. ``here``: cards of this fleet; ``elsewhere``: how many it has not;
    ``chosen_elsewhere``: they, if one of them is chosen. Else nobody waits for their drawing.
    """

    form: LaunchForm
    own: Own
    here: Sequence[CardChoice]
    elsewhere: int
    chosen_elsewhere: Sequence[CardChoice]
    images: Sequence[ImageGroup]
    once: str
    unknown_offer: bool
    balance: Balance | None
    nav: str = "launch"


@page("instances:write")
def show_launch(visit: Visit) -> HttpResponse:
    own, catalog = read_own(visit), read_catalog(visit)
    form = own.form(initial=initial_of(own, catalog, visit))
    context = _context(visit, own, catalog, form, _order_as_shown(own, form), once=new_key())
    return visit.render("web/launch/launch.html", context)


@page("instances:write")
def show_stock(visit: Visit) -> HttpResponse:
    """Say again how many there are of each offer."""
    cards = list_cards(tenant_id=visit.tenant.id, now=visit.now)
    return visit.render("web/launch/_stock.html", {"cards": cards})


@page("instances:write")
def show_elsewhere(visit: Visit) -> HttpResponse:
    """Show the cards of the price list that this fleet has not."""
    cards = list_cards(tenant_id=visit.tenant.id, now=visit.now)
    missing = card_choices([card for card in cards if not card.exists], None)
    return visit.render("web/launch/_elsewhere.html", {"cards": missing})


@action("instances:write")
def show_estimate(visit: Visit) -> HttpResponse:
    """Work out the price of what the form says now; it names the fields that it is for."""
    form = read_own(visit).form(visit.request.POST)
    form.is_valid()  # what cannot be read counts as not said
    return visit.render("web/launch/_estimate.html", _estimate(visit, form, form.order()))


@action("instances:write")
def place_order(visit: Visit) -> HttpResponse:
    """Order what the form says at the price that it shows, once for each form that was drawn."""
    own = read_own(visit)
    form = own.form(visit.request.POST)
    if not form.is_valid():
        return _draw_again(visit, own, form)
    try:
        made = visit.once(lambda: _launch(visit, form.order()))
    except Exception as error:
        refusal = order_refusal(error)
        if refusal is None:
            raise
        is_used = isinstance(error, IdempotencyKeyReused)
        return _draw_again(visit, own, form, refusal, once=new_key() if is_used else None)
    names = made["names"]
    words = ngettext("%(name)s is ordered.", "%(n)s instances are ordered.", len(names))
    visit.toast(words % {"name": names[0], "n": len(names)})
    only = f"/{made['ids'][0]}" if len(names) == 1 else ""
    return visit.redirect(f"{visit.home}instances{only}")


def _launch(visit: Visit, order: Order) -> dict[str, Any]:
    """Keep the pasted key and order, in the transaction of the form's key: all of it or nothing."""
    quote_id = _quote_id(visit)
    if quote_id is None:
        raise UnknownQuote(uuid.UUID(int=0))  # without a price that was shown nothing is ordered
    keys = order.ssh_key_ids
    if order.new_key.strip() and visit.may("ssh_keys:write"):
        keys = tuple(dict.fromkeys((*keys, _kept_key(visit, order.new_key).pk)))
    made: list[Instance] = services.create_instances(
        tenant_id=visit.tenant.id,
        project_id=order.project_id,
        offer_code=order.offer,
        image_code=order.image,
        count=order.count,
        name=order.name,
        ssh_key_ids=keys,
        command=order.command,
        env=dict(order.env),
        secrets=order.secrets,
        password_login=order.password_login,
        auto_stop_at=order.auto_stop_at,
        max_duration_s=order.max_duration_s,
        quote_id=quote_id,
        actor=visit.actor,
        now=visit.now,
        request_id=visit.request_id,
    )
    return {
        "ids": [ids.to_text("ins", instance.pk) for instance in made],
        "names": [instance.name for instance in made],
    }


def _kept_key(visit: Visit, text: str) -> SshKey:
    """Return the tenant's row of a pasted key, made if there is none. :raises MalformedSshKey:"""
    parsed = parse_public_key(text)
    known = SshKey.objects.of(visit.tenant.id).live().filter(fingerprint=parsed.fingerprint).first()
    return known or add_ssh_key(
        tenant=visit.tenant,
        user=visit.user,
        name=parsed.comment,
        public_key=text,
        actor=visit.actor,
        now=visit.now,
    )


# --- drawing


def _draw_again(
    visit: Visit,
    own: Own,
    form: LaunchForm,
    refusal: Refusal | None = None,
    once: str | None = None,
) -> HttpResponse:
    """Show the form as it was filled in, with what is wrong beside its field."""
    tells = ""
    if refusal is not None:
        if refusal.field in form.fields:
            form.add_error(refusal.field, refusal.words)
        else:
            tells = refusal.words
    once = once or visit.request.POST.get(ONCE, "")
    context = _context(visit, own, read_catalog(visit), form, form.order(), once=once, tells=tells)
    template = "web/launch/_form.html" if visit.is_htmx else "web/launch/launch.html"
    return visit.render(template, context, status=422)


def _context(
    visit: Visit,
    own: Own,
    catalog: Catalog,
    form: LaunchForm,
    order: Order,
    *,
    once: str,
    tells: str = "",
) -> LaunchContext:
    right = _estimate(visit, form, order, tells=tells)
    _mark(form, right.estimate.refusal)
    chosen = catalog.find(order.offer)
    asked = visit.request.GET.get("offer")
    here = [card for card in catalog.cards if card.exists]
    elsewhere = card_choices([card for card in catalog.cards if not card.exists], chosen)
    return LaunchContext(
        **vars(right),
        form=form,
        own=own,
        here=card_choices(here, chosen),
        elsewhere=len(elsewhere),
        chosen_elsewhere=elsewhere if any(one.is_chosen for one in elsewhere) else [],
        images=image_groups(catalog.images, catalog.cards, catalog.card_of(chosen)),
        once=once,
        unknown_offer=bool(asked) and catalog.find(asked) is None,
        balance=right.estimate.balance,
    )


def _estimate(visit: Visit, form: LaunchForm, order: Order, *, tells: str = "") -> EstimateContext:
    found = estimate(
        order,
        tenant_id=visit.tenant.id,
        quote_id=_quote_id(visit),
        stands_for=form.stands_for,
        refusal_of=order_refusal,
        now=visit.now,
    )
    if found.refusal is not None:  # says itself why there is no price, or no order
        tells = ""
    root = visit.request.build_absolute_uri("/").rstrip("/")
    limit = found.quote.total_per_hour if found.quote else None
    return EstimateContext(
        estimate=found, snippets=snippets_of(order, root=root, limit=limit), tells=tells
    )


def _mark(form: LaunchForm, refusal: Refusal | None) -> None:
    """Say beside the field, too, why a form that was sent has no price."""
    if form.is_bound and refusal and refusal.field in form.fields and not form.errors:
        form.add_error(refusal.field, refusal.words)


def _quote_id(visit: Visit) -> uuid.UUID | None:
    try:
        return ids.from_text("quo", visit.request.POST.get("quote_id", ""))
    except ids.MalformedId:
        return None


def _order_as_shown(own: Own, form: LaunchForm) -> Order:
    """Return the order that the fields of a fresh page stand for."""
    shown = own.form({name: value for name, value in form.initial.items() if value})
    shown.is_valid()
    return shown.order()
