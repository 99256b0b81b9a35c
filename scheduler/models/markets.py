"""Spot that has to make room."""

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped
from scheduler.models.allocations import Allocation
from scheduler.models.requests import Request


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
