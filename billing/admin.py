"""The operator's pages for prices, wallets, runs and charges: to be read; actions call services."""

import uuid
from datetime import datetime
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from billing.core.money import format_micro, parse_micro
from billing.errors import BillingError
from billing.models import Charge, Hold, Posting, PriceVersion, Run, Segment, Transfer, Wallet
from billing.services.wallets import credit
from rental.records.admin import ReadOnlyAdmin, ReadOnlyInline
from rental.tenants.admin import staff_actor
from rental.tenants.models import User

# A slip of the keyboard should not become a fortune; more is credited in steps.
LARGEST_CREDIT = 1_000_000_000_000  # micro-units: one million


def _money(name: str, label: Any) -> Any:
    """Return a column that shows the amount in ``name`` as money and sorts by it."""

    @admin.display(description=label, ordering=name)
    def column(row: Any) -> str:
        return format_micro(getattr(row, name))

    return column


class CreditForm(forms.Form):
    """``key`` is made with the page, so that a form sent twice credits once."""

    amount = forms.CharField(label=_("Amount"), max_length=24, widget=UnfoldAdminTextInputWidget)
    reason = forms.CharField(label=_("Reason"), max_length=500, widget=UnfoldAdminTextareaWidget)
    key = forms.UUIDField(widget=forms.HiddenInput)

    def clean_amount(self) -> int:
        try:
            amount = parse_micro(self.cleaned_data["amount"])
        except ValueError:
            raise forms.ValidationError(_("An amount has at most six decimal places.")) from None
        if not 0 < amount <= LARGEST_CREDIT:
            raise forms.ValidationError(_("Between 0 and 1,000,000."))
        return amount


@admin.register(Wallet)
class WalletAdmin(ReadOnlyAdmin):
    list_display = (
        "tenant",
        "kind",
        _money("posted", _("posted")),
        _money("held", _("held")),
        _money("burn", _("per hour")),
        "exhausts_at",
        "settled_at",
    )
    list_select_related = ("tenant",)
    search_fields = ("tenant__name", "tenant__slug")
    actions_detail = ("credit_wallet",)

    def has_credit_permission(self, request: HttpRequest, _object_id: object = None) -> bool:
        return bool(cast(User, request.user).has_staff_verb("billing:credit"))

    @action(  # type: ignore[untyped-decorator]
        description=_("Credit wallet"), url_path="credit", permissions=["credit"]
    )
    def credit_wallet(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for amount and reason, then call the service; who, why and how much is audited."""
        if not self.has_credit_permission(request):
            raise PermissionDenied
        wallet = get_object_or_404(Wallet.objects.select_related("tenant"), pk=object_id)
        form = CreditForm(request.POST or None, initial={"key": uuid.uuid4()})
        if request.method == "POST" and form.is_valid():
            try:
                _credit(wallet, form, request, now=timezone.now())
            except BillingError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, _("The wallet was credited."))
                return redirect("admin:billing_wallet_change", object_id)
        context = self.admin_site.each_context(request) | {
            "title": _("Credit wallet"),
            "wallet": wallet,
            "posted": format_micro(wallet.posted),
            "form": form,
            "opts": Wallet._meta,
        }
        return render(request, "billing/credit_wallet.html", context)


def _credit(wallet: Wallet, form: CreditForm, request: HttpRequest, *, now: datetime) -> None:
    credit(
        tenant_id=wallet.tenant_id,
        amount=form.cleaned_data["amount"],
        reason=form.cleaned_data["reason"],
        actor=staff_actor(request),
        key=f"admin/{form.cleaned_data['key']}",
        now=now,
    )


@admin.register(PriceVersion)
class PriceVersionAdmin(ReadOnlyAdmin):
    list_display = ("price_key", _money("price", _("price")), "currency", "unit", "during")
    search_fields = ("price_key",)
    ordering = ("price_key", "-during")


class SegmentInline(ReadOnlyInline):
    model = Segment
    fields = ("from_tick", "until_tick", "price_key", "market", "project")


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "tenant",
        "instance_id",
        "opened_at",
        "started_at",
        "closed_at",
        "closed_at_tick",
        "close_reason",
        "suspect",
        "settled",
    )
    list_filter = ("suspect", "settled", "close_reason")
    list_select_related = ("tenant",)
    search_fields = ("=id", "=instance_id", "=allocation_id")
    inlines = (SegmentInline,)
    show_full_result_count = False  # counting a large table costs more than the page


@admin.register(Charge)
class ChargeAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "tenant",
        "run",
        "component",
        "units",
        "period",
        _money("amount", _("amount")),
        "created_at",
    )
    list_select_related = ("tenant", "run")
    search_fields = ("=run__id", "=run__instance_id")
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(Posting)
class PostingAdmin(ReadOnlyAdmin):
    list_display = ("id", "tenant", _money("total", _("total")), "created_at")
    list_select_related = ("tenant",)
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(Transfer)
class TransferAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "tenant",
        "code",
        "debit",
        "credit",
        _money("amount", _("amount")),
        "reason",
        "effective_at",
    )
    list_filter = ("code",)
    list_select_related = ("tenant", "debit", "credit")
    search_fields = ("=id", "=key", "tenant__slug")
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    list_display = (
        "instance_id",
        "tenant",
        _money("amount", _("amount")),
        "state",
        "placed_at",
        "freed_at",
    )
    list_filter = ("state",)
    list_select_related = ("tenant",)
    search_fields = ("=instance_id",)
