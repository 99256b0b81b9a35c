"""When operators work on nodes."""

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from scheduler.models.nodes import Node


class MaintenanceWindowQuerySet(models.QuerySet["MaintenanceWindow"]):
    def announced(self) -> Self:
        """Those that are still to come."""
        return self.filter(begun_at=None, cancelled_at=None)


class MaintenanceWindow(models.Model):
    """
    The node is worked on during [begins_at, ends_at). Announced ahead; at ``begins_at`` the node
    is drained. Afterwards the operator uncordons it. Rows stay: they say what was announced.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="windows", verbose_name=_("node"))
    begins_at = models.DateTimeField(_("begins at"))
    ends_at = models.DateTimeField(_("ends at"))
    reason = models.CharField(_("reason"), max_length=200)
    announced_at = models.DateTimeField(_("announced at"))
    begun_at = models.DateTimeField(_("begun at"), null=True, blank=True)
    cancelled_at = models.DateTimeField(_("cancelled at"), null=True, blank=True)

    objects = models.Manager.from_queryset(MaintenanceWindowQuerySet)()

    class Meta:
        verbose_name = _("maintenance window")
        verbose_name_plural = _("maintenance windows")
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("begins_at")), name="window_has_time"),
            models.CheckConstraint(
                condition=Q(begun_at=None) | Q(cancelled_at=None),
                name="window_is_cancelled_before_it_begins",
            ),
            models.UniqueConstraint(
                fields=["node"],
                condition=Q(begun_at=None, cancelled_at=None),
                name="node_has_one_window_to_come",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} {self.begins_at:%Y-%m-%d %H:%M}"
