"""Capacity that is kept for a tenant, and spot that has to make room."""

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped
from scheduler.models.allocations import Allocation
from scheduler.models.places import Region, Zone
from scheduler.models.requests import Request, RequestMode


class ReserveQuerySet(TenantScoped["Reserve"]):
    def standing(self) -> Self:
        return self.filter(cancelled_at=None)


class Reserve(models.Model):
    """
    ``places`` of one shape that are kept for a tenant while [begins_at, ends_at) lasts.

    Nobody else's on-demand request gets the last of them. Spot may lie there if ``is_lendable``,
    and leaves when the owner comes. The shape is that of a request; ``gpu_model``: "name|MiB".
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", models.PROTECT, related_name="+", verbose_name=_("tenant")
    )
    region = models.ForeignKey(Region, models.PROTECT, related_name="+", verbose_name=_("region"))
    zone = models.ForeignKey(
        Zone, models.PROTECT, related_name="+", null=True, blank=True, verbose_name=_("zone")
    )
    gpu_model = models.CharField(_("GPU model"), max_length=80)
    mode = models.CharField(_("mode"), max_length=16, choices=RequestMode.choices)
    count = models.PositiveSmallIntegerField(_("GPUs"))
    tenths = models.PositiveSmallIntegerField(_("tenths of a GPU"))
    vram_mib = models.PositiveIntegerField(_("GPU memory, MiB"))
    profile = models.CharField(_("MIG profile"), max_length=20, blank=True, default="")
    cpu_milli = models.PositiveIntegerField(_("CPU, milli"))
    ram_mib = models.PositiveIntegerField(_("RAM, MiB"))
    places = models.PositiveSmallIntegerField(_("places"))
    is_lendable = models.BooleanField(_("spot may lie there"), default=True)
    begins_at = models.DateTimeField(_("begins at"))
    ends_at = models.DateTimeField(_("ends at"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    cancelled_at = models.DateTimeField(_("cancelled at"), null=True, blank=True)

    objects = models.Manager.from_queryset(ReserveQuerySet)()

    class Meta:
        verbose_name = _("kept capacity")
        verbose_name_plural = _("kept capacity")
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gt=F("begins_at")), name="reserve_has_time"
            ),
            models.CheckConstraint(
                condition=Q(places__gte=1, count__gte=1, tenths__gte=1, tenths__lte=10),
                name="reserve_keeps_something",
            ),
            models.CheckConstraint(
                condition=Q(mode__in=RequestMode.values), name="reserve_mode_is_known"
            ),
        ]
        indexes = [
            models.Index(fields=["region"], condition=Q(cancelled_at=None), name="reserve_standing")
        ]

    def __str__(self) -> str:
        return f"{self.places} x {self.gpu_model}"


class ReclaimReason(models.TextChoices):
    ON_DEMAND = "on_demand", _("an on-demand request needs the place")
    OWNER = "owner", _("the tenant for whom the place is kept needs it")


class ReclaimQuerySet(TenantScoped["Reclaim"]):
    def standing(self) -> Self:
        """Those that will happen: neither withdrawn nor done."""
        return self.filter(withdrawn_at=None, done_at=None)


class Reclaim(models.Model):
    """
    A spot allocation has to be gone at ``reclaim_at``, so that ``request`` gets its place.

    ``tenant``: of the allocation. Withdrawn when the request needs the place no more: the row
    stays, and nothing was charged otherwise. Done when the allocation's end was accepted, by the
    deadline or by its own early exit.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", models.PROTECT, related_name="+", verbose_name=_("tenant")
    )
    allocation = models.ForeignKey(
        Allocation, models.PROTECT, related_name="reclaims", verbose_name=_("allocation")
    )
    request = models.ForeignKey(
        Request, models.PROTECT, related_name="reclaims", verbose_name=_("request")
    )
    reason = models.CharField(_("reason"), max_length=12, choices=ReclaimReason.choices)
    given_at = models.DateTimeField(_("given at"))
    reclaim_at = models.DateTimeField(_("to be gone at"))
    withdrawn_at = models.DateTimeField(_("withdrawn at"), null=True, blank=True)
    done_at = models.DateTimeField(_("done at"), null=True, blank=True)

    objects = models.Manager.from_queryset(ReclaimQuerySet)()

    class Meta:
        verbose_name = _("reclaim of spot")
        verbose_name_plural = _("reclaims of spot")
        constraints = [
            models.CheckConstraint(
                condition=Q(reclaim_at__gt=F("given_at")), name="reclaim_gives_notice"
            ),
            models.CheckConstraint(
                condition=Q(withdrawn_at=None) | Q(done_at=None),
                name="reclaim_is_withdrawn_or_done",
            ),
            models.CheckConstraint(
                condition=Q(reason__in=ReclaimReason.values), name="reclaim_reason_is_known"
            ),
            models.UniqueConstraint(
                fields=["allocation"],
                condition=Q(withdrawn_at=None, done_at=None),
                name="allocation_has_one_standing_reclaim",
            ),
        ]
        indexes = [
            models.Index(
                fields=["request"],
                condition=Q(withdrawn_at=None, done_at=None),
                name="reclaim_for_request",
            )
        ]

    def __str__(self) -> str:
        return f"{self.allocation_id} {self.reclaim_at:%Y-%m-%d %H:%M:%S}"
