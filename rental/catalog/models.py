"""What is on sale: offers and images; and quotes, a price shown and kept for ten minutes."""

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped

TENTHS = 10  # the smallest share of a card is one tenth


class Market(models.TextChoices):
    ON_DEMAND = "on_demand", _("on demand")
    SPOT = "spot", _("spot")


class SliceKind(models.TextChoices):
    WHOLE = "whole", _("whole cards")
    MIG = "mig", _("MIG instance")
    SHARE = "share", _("share of a card")


class Isolation(models.TextChoices):
    """Sold by name, DESIGN §7: the customer sees who else may be on the card."""

    WHOLE = "whole", _("the card is yours alone")
    HARDWARE = "hardware", _("a partition made by the hardware")
    TENANT = "tenant", _("only your own instances share the card")
    SHARED = "shared", _("strangers may share the card")


class Offer(models.Model):
    """
    Something on sale: GPU model, slice shape, what comes with it, isolation, markets, region.

    Offers are taken off sale (``active``), never deleted: instances and quotes point at them.
    """

    code = models.SlugField(_("code"), primary_key=True, max_length=60)
    name = models.CharField(_("name"), max_length=120)
    region = models.SlugField(_("region"), max_length=40)
    gpu_model_name = models.CharField(_("GPU model"), max_length=60)
    gpu_memory_mib = models.PositiveIntegerField(_("memory of the card, MiB"))
    slice = models.CharField(_("slice"), max_length=8, choices=SliceKind.choices)
    isolation = models.CharField(_("isolation"), max_length=8, choices=Isolation.choices)
    count = models.PositiveSmallIntegerField(_("cards"), default=1)
    tenths = models.PositiveSmallIntegerField(_("tenths of a card"), default=TENTHS)
    mig_profile = models.CharField(_("MIG profile"), max_length=20, blank=True)
    vram_mib = models.PositiveIntegerField(_("GPU memory sold, MiB"))
    cpu_milli = models.PositiveIntegerField(_("CPU, thousandths of a core"))
    ram_mib = models.PositiveIntegerField(_("RAM, MiB"))
    disk_mib = models.PositiveIntegerField(_("disk, MiB"))
    markets = ArrayField(
        models.CharField(max_length=16, choices=Market.choices), verbose_name=_("markets")
    )
    is_demo_price = models.BooleanField(_("price made up for the demo"), default=False)
    active = models.BooleanField(_("on sale"), default=True)

    class Meta:
        verbose_name = _("offer")
        verbose_name_plural = _("offers")
        ordering = ["code"]
        constraints = [
            models.CheckConstraint(
                condition=Q(slice__in=SliceKind.values), name="offer_slice_is_known"
            ),
            models.CheckConstraint(
                condition=Q(isolation__in=Isolation.values), name="offer_isolation_is_known"
            ),
            models.CheckConstraint(
                condition=Q(slice="whole", isolation="whole", tenths=TENTHS)
                | Q(slice="mig", isolation="hardware", count=1)
                | Q(slice="share", isolation__in=["tenant", "shared"], count=1, tenths__lt=TENTHS),
                name="offer_isolation_fits_its_slice",
            ),
            models.CheckConstraint(
                condition=Q(count__gte=1, count__lte=16, tenths__gte=1, tenths__lte=TENTHS),
                name="offer_sells_something",
            ),
            models.CheckConstraint(
                condition=Q(vram_mib__gte=1, vram_mib__lte=F("gpu_memory_mib") * F("count")),
                name="offer_sells_no_more_memory_than_there_is",
            ),
            models.CheckConstraint(condition=~Q(markets=[]), name="offer_is_sold_on_a_market"),
        ]

    def __str__(self) -> str:
        return self.code


class Image(models.Model):
    """
    What runs inside an instance. ``ref`` names no registry: that is a setting of the room.

    ``min_capability`` is the CUDA compute capability times ten (80 = 8.0); 0 for any card.
    """

    code = models.CharField(_("code"), primary_key=True, max_length=80)
    name = models.CharField(_("name"), max_length=120)
    ref = models.CharField(_("reference"), max_length=200)
    vendor = models.CharField(_("GPU vendor"), max_length=20, default="nvidia")
    cuda = models.CharField(_("CUDA"), max_length=10, blank=True)
    frameworks = models.JSONField(_("frameworks and versions"), default=dict)
    min_capability = models.PositiveSmallIntegerField(_("least compute capability x 10"), default=0)
    active = models.BooleanField(_("offered"), default=True)

    class Meta:
        verbose_name = _("image")
        verbose_name_plural = _("images")
        ordering = ["code"]
        constraints = [
            models.UniqueConstraint(fields=["ref"], name="image_reference_is_listed_once")
        ]

    def __str__(self) -> str:
        return self.code


class QuoteQuerySet(TenantScoped["Quote"]):
    """Rows of a tenant."""


class Quote(models.Model):
    """
    A price that a tenant was shown, good for an order until ``expires_at``.

    Money in micro-units per hour. ``lines`` is what was shown, as it was shown.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="quotes")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, related_name="+")
    image = models.ForeignKey(Image, on_delete=models.PROTECT, related_name="+", null=True)
    market = models.CharField(max_length=16, choices=Market.choices)
    count = models.PositiveSmallIntegerField(default=1)
    price_key = models.CharField(max_length=160)
    # No foreign key: price versions are billing's, and the text is enough to find one again.
    price_version_id = models.CharField(max_length=40)
    price = models.BigIntegerField(help_text="micro-units per hour of one instance")
    total_per_hour = models.BigIntegerField(help_text="micro-units per hour of all instances")
    currency = models.CharField(max_length=3)
    lines = models.JSONField(default=list)
    balance_lasts_s = models.BigIntegerField(
        null=True,
        help_text="how long the balance lasts with this order; null when nothing is spent",
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    objects = models.Manager.from_queryset(QuoteQuerySet)()

    class Meta:
        verbose_name = _("quote")
        verbose_name_plural = _("quotes")
        constraints = [
            models.CheckConstraint(
                condition=Q(price__gte=0) & Q(total_per_hour=F("price") * F("count")),
                name="quote_total_is_price_times_count",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")), name="quote_expires_after_it_is_made"
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    def is_valid(self, *, at: datetime) -> bool:
        return at < self.expires_at
