"""
The operator's pages for prices, wallets, runs and charges: to be read. Wallets are credited and
prices published on pages of ``rental.operate``, through services.
"""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from billing.core.money import format_micro
from billing.models import Charge, Hold, Posting, PriceVersion, Run, Segment, Transfer, Wallet
from rental.records.admin import SEE_ALSO, ReadOnlyAdmin, ReadOnlyInline, linked, links


def _money(name: str, label: Any) -> Any:
    """Return a column that shows the amount in ``name`` as money and sorts by it."""

    @admin.display(description=label, ordering=name)
    def column(row: Any) -> str:
        return format_micro(getattr(row, name))

    return column


@admin.register(Wallet)
class WalletAdmin(ReadOnlyAdmin):
    list_display = (
        linked("tenant", _("tenant")),
        "kind",
        _money("posted", _("posted")),
        _money("held", _("held")),
        _money("burn", _("per hour")),
        "exhausts_at",
        "settled_at",
    )
    list_select_related = ("tenant",)
    search_fields = ("tenant__name", "tenant__slug")
    readonly_fields = ("see_also",)

    @admin.display(description=SEE_ALSO)
    def see_also(self, wallet: Wallet) -> str:
        slug = wallet.tenant.slug
        return links(
            (_("credit it"), "operate:credit", f"?q={slug}"),
            (_("transfers"), "admin:billing_transfer_changelist", f"?q={slug}"),
            (_("holds"), "admin:billing_hold_changelist", f"?q={slug}"),
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
        linked("tenant", _("tenant")),
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
    search_fields = ("=id", "=instance_id", "=allocation_id", "tenant__slug")
    inlines = (SegmentInline,)
    show_full_result_count = False  # counting a large table costs more than the page


@admin.register(Charge)
class ChargeAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        linked("tenant", _("tenant")),
        linked("run", _("run")),
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
    list_display = ("id", linked("tenant", _("tenant")), _money("total", _("total")), "created_at")
    list_select_related = ("tenant",)
    search_fields = ("=id", "tenant__slug")
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(Transfer)
class TransferAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        linked("tenant", _("tenant")),
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
    search_fields = ("=instance_id", "tenant__slug")
