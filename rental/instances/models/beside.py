"""What stands beside an instance: notices of what will happen, and how to reach it."""

from typing import Self

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rental.instances.models.instance import Instance
from rental.instances.models.triggers import raises_version_of_instance
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped


class NoticeKind(models.TextChoices):
    BALANCE = "balance", _("the balance runs out")
    MAINTENANCE = "maintenance", _("its node is worked on")
    SPOT = "spot", _("its place is needed")


class NoticeQuerySet(TenantScoped["Notice"]):
    def standing(self) -> Self:
        return self.filter(withdrawn_at__isnull=True)


class Notice(models.Model):
    """
    Something will happen to an instance at ``deadline``. Kept after it was withdrawn.

    ``threshold_s`` is the step of the ladder that was crossed (72 h, 24 h, 1 h, 10 min).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=16, choices=NoticeKind.choices)
    threshold_s = models.PositiveIntegerField(default=0)
    at = models.DateTimeField()
    deadline = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)

    objects = models.Manager.from_queryset(NoticeQuerySet)()

    class Meta:
        verbose_name = _("notice")
        verbose_name_plural = _("notices")
        constraints = [
            models.UniqueConstraint(
                fields=["instance", "kind"],
                condition=Q(withdrawn_at__isnull=True),
                name="instance_has_one_standing_notice_of_a_kind",
            )
        ]
        triggers = [raises_version_of_instance(pgtrigger.Insert | pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.kind} {self.deadline:%Y-%m-%d %H:%M}"


class Endpoint(models.Model):
    """
    How to reach a running instance; rows go when it stops and may differ after a start.
    ``workspace``: the path of the workspace for whoever comes in here, empty if the node is silent.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="endpoints")
    kind = models.CharField(max_length=16)
    host = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    user = models.CharField(max_length=64, blank=True)
    host_key_fingerprint = models.CharField(max_length=100, blank=True)
    workspace = models.CharField(max_length=1024, blank=True, default="", db_default="")
    opened_at = models.DateTimeField()

    objects = models.Manager.from_queryset(TenantScoped["Endpoint"])()

    class Meta:
        verbose_name = _("endpoint")
        verbose_name_plural = _("endpoints")
        constraints = [
            models.UniqueConstraint(
                fields=["instance", "kind", "host", "port"], name="endpoint_is_listed_once"
            ),
            models.CheckConstraint(
                condition=Q(port__gte=1, port__lte=65535), name="endpoint_port_is_a_port"
            ),
        ]
        triggers = [
            raises_version_of_instance(pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete)
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.port}"
