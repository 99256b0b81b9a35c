"""Commands on their way."""

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rental.instances.models.instance import Instance
from rental.instances.models.triggers import raises_version_of_instance
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped


class OperationKind(models.TextChoices):
    CREATE = "create", _("create")
    START = "start", _("start")
    STOP = "stop", _("stop")
    RESTART = "restart", _("restart")
    RELEASE = "release", _("release")
    MOVE = "move", _("move to another node")


class OperationState(models.TextChoices):
    RUNNING = "running", _("running")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")


class Operation(models.Model):
    """
    A command on its way, with timed steps: [{"name", "started_at", "finished_at"}].

    Times inside ``steps`` are RFC 3339 text in UTC or null. A newer command ends an older one.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="operations")
    kind = models.CharField(max_length=8, choices=OperationKind.choices)
    # Set by the functions of operations.py alone.
    state = models.CharField(
        max_length=10, choices=OperationState.choices, default=OperationState.RUNNING
    )
    generation = models.PositiveIntegerField()
    steps = models.JSONField(default=list)
    percent = models.PositiveSmallIntegerField(null=True)
    error = models.JSONField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    objects = models.Manager.from_queryset(TenantScoped["Operation"])()

    class Meta:
        verbose_name = _("operation")
        verbose_name_plural = _("operations")
        constraints = [
            models.UniqueConstraint(
                fields=["instance"],
                condition=Q(state="running"),
                name="instance_runs_one_operation_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(state="running", finished_at__isnull=True)
                | (~Q(state="running") & Q(finished_at__isnull=False)),
                name="operation_that_ended_knows_when",
            ),
        ]
        indexes = [models.Index(fields=["tenant", "-id"], name="operation_of_tenant")]
        # Only old ones of instances that are no more are ever deleted.
        triggers = [raises_version_of_instance(pgtrigger.Insert | pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
