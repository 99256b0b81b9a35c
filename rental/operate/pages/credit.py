"""Wallet credit: find the tenant, say how much and why, look at before and after, confirm."""

import uuid
from dataclasses import dataclass

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext_lazy as _

from billing.errors import BillingError
from billing.models import Transfer, Wallet
from billing.services.ledger import arrears_of
from billing.services.wallets import Balance, read_balance
from billing.services.wallets import credit as credit_wallet
from rental.operate.forms import CreditForm
from rental.operate.page import FORM, asked, show, staff_page
from rental.operate.words import exact_money
from rental.records.clock import database_now
from rental.tenants.admin import staff_actor
from rental.tenants.models import Tenant

VERB = "billing:credit"
FOUND = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a credit does: micro-units. ``paid``: what goes from it to arrears at once."""

    amount: int
    before: int
    paid: int
    owed_after: int

    @property
    def after(self) -> int:
        return self.before + self.amount - self.paid


@staff_page(VERB)
def choose(request: HttpRequest) -> HttpResponse:
    words = asked(request, "q")
    tenants = Tenant.objects.order_by("name", "slug")
    if words:
        tenants = tenants.filter(
            Q(name__icontains=words)
            | Q(slug__icontains=words)
            | Q(memberships__user__email__icontains=words)
            | Q(memberships__user__phone__contains=words)
        ).distinct()
    found = list(tenants[:FOUND])
    wallets = {
        wallet.tenant_id: wallet
        for wallet in Wallet.objects.filter(tenant__in=found, kind=Wallet.Kind.CASH)
    }
    return show(
        request,
        "credit_choose.html",
        title=_("Wallet credit"),
        q=words,
        rows=[(tenant, wallets.get(tenant.pk)) for tenant in found],
        most=FOUND,
    )


@staff_page(VERB, FORM)
def credit(request: HttpRequest, tenant: str) -> HttpResponse:
    """A form, a look at what it does (``step=look``), and the deed (``step=give``)."""
    row = get_object_or_404(Tenant, slug=tenant)
    now = database_now()
    form = CreditForm(request.POST or None, initial={"key": uuid.uuid4()})
    preview = None
    if request.method == "POST" and form.is_valid():
        if request.POST.get("step") == "give" and _given(request, row, form):
            return redirect("operate:credit_tenant", tenant)
        if not form.errors:
            preview = _preview(row, form.cleaned_data["amount"])
    return show(
        request,
        "credit.html",
        title=_("Wallet credit"),
        tenant=row,
        balance=read_balance(tenant_id=row.pk, now=now),
        owed=arrears_of([row.pk]).get(row.pk, 0),
        form=form,
        preview=preview if request.POST.get("step") != "edit" else None,
        latest=Transfer.objects.of(row.pk).filter(code="credit").order_by("-id")[:5],
    )


def _given(request: HttpRequest, tenant: Tenant, form: CreditForm) -> bool:
    """Credit once, however often the form comes; say what the wallet holds then."""
    amount = form.cleaned_data["amount"]
    now = database_now()
    try:
        credit_wallet(
            tenant_id=tenant.pk,
            amount=amount,
            reason=form.cleaned_data["reason"],
            actor=staff_actor(request),
            key=f"admin/{form.cleaned_data['key']}",
            now=now,
        )
    except BillingError:
        form.add_error(None, _("This form was used for another credit. Open the page again."))
        return False
    balance: Balance = read_balance(tenant_id=tenant.pk, now=now)
    messages.success(
        request,
        _("%(amount)s %(currency)s credited to %(tenant)s. The wallet holds %(posted)s now.")
        % {
            "amount": exact_money(amount),
            "currency": balance.currency,
            "tenant": tenant.name,
            "posted": exact_money(balance.posted),
        },
    )
    return True


def _preview(tenant: Tenant, amount: int) -> Preview:
    """The same arithmetic as ``ledger.pay_in``: what is owed is paid from the wallet at once."""
    wallet = Wallet.objects.of(tenant.pk).filter(kind=Wallet.Kind.CASH).first()
    before = wallet.posted if wallet else 0
    limit = wallet.credit_limit if wallet else 0
    owed = arrears_of([tenant.pk]).get(tenant.pk, 0)
    paid = min(owed, max(0, before + amount + limit))
    return Preview(amount=amount, before=before, paid=paid, owed_after=owed - paid)
