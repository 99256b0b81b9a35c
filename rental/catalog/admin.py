"""The operator's pages for what is on sale. Prices are billing's; quotes are only read."""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from billing.core.money import format_micro
from billing.services.prices import UnknownPrice, price_at
from rental.catalog.models import Image, Offer, Quote
from rental.catalog.services import price_key
from rental.records.admin import ReadOnlyAdmin
from scheduler.admin import AuditedAdmin


@admin.register(Offer)
class OfferAdmin(AuditedAdmin):
    """What an offer is cannot change once it is sold; its name, markets and sale can."""

    list_display = ("code", "name", "gpu_model_name", "isolation", "price_now", "active")
    list_filter = ("active", "gpu_model_name", "slice", "isolation", "region")
    search_fields = ("code", "name", "gpu_model_name")
    CHANGEABLE = ("name", "markets", "is_demo_price", "active")

    def get_readonly_fields(self, request: HttpRequest, obj: Offer | None = None) -> Any:
        if obj is None:
            return ()
        names = [field.name for field in Offer._meta.fields]
        return tuple(name for name in names if name not in self.CHANGEABLE)

    @admin.display(description=_("price per hour now"))
    def price_now(self, offer: Offer) -> str:
        now: datetime = timezone.now()
        shown = []
        for market in offer.markets:
            try:
                version = price_at(price_key=price_key(offer, market), at=now)
            except UnknownPrice:
                shown.append(f"{market}: –")
            else:
                shown.append(f"{market}: {format_micro(version.price)} {version.currency}")
        return ", ".join(shown)


@admin.register(Image)
class ImageAdmin(AuditedAdmin):
    list_display = ("code", "name", "vendor", "cuda", "min_capability", "active")
    list_filter = ("active", "vendor", "cuda")
    search_fields = ("code", "name", "ref")

    def get_readonly_fields(self, request: HttpRequest, obj: Image | None = None) -> Any:
        return ("code",) if obj else ()  # instances and quotes name it


@admin.register(Quote)
class QuoteAdmin(ReadOnlyAdmin):
    list_display = ("id", "tenant", "offer", "market", "count", "total_per_hour", "expires_at")
    list_filter = ("market",)
    list_select_related = ("tenant", "offer")
    search_fields = ("tenant__slug", "offer__code")
