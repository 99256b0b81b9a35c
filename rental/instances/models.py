"""Instances, their operations, notices and endpoints."""

from datetime import datetime, timedelta
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.catalog.models import Market
from rental.instances.states import (
    ALLOWANCE,
    InstanceState,
    StateWord,
    check_transition,
    state_word,
)
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped

S = InstanceState


class DesiredState(models.TextChoices):
    RUNNING = "running", _("running")
    STOPPED = "stopped", _("stopped")
    DELETED = "deleted", _("deleted")


class Mode(models.TextChoices):
    GPU = "gpu", _("with GPU")
    NO_GPU = "no_gpu", _("without GPU")


class Health(models.TextChoices):
    OK = "ok", _("ok")
    DEGRADED = "degraded", _("degraded")
    UNREACHABLE = "unreachable", _("unreachable")
    UNKNOWN = "unknown", _("unknown")


class InstanceQuerySet(TenantScoped["Instance"]):
    def present(self) -> Self:
        """Leave out what has been deleted."""
        return self.exclude(state=S.DELETED)

    def locked(self) -> Self:
        """Lock the rows, by id. Order: wallet, then instance, then what the scheduler has."""
        return self.select_for_update(of=("self",), no_key=True).order_by("pk")


class Instance(models.Model):
    """
    What a customer has; keeps id, name, slug and disk over stop, start and migration.

    Few states, many orthogonal facts. ``generation`` rises with every accepted command,
    ``session`` with every start from stopped or failed (timers are bound to it). Invoices point
    at instances, so one is deleted by state and never as a row.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="instances")
    project = models.ForeignKey(
        "tenants.Project", on_delete=models.PROTECT, related_name="instances"
    )
    name = models.CharField(_("name"), max_length=64)
    slug = models.SlugField(_("slug"), max_length=40, unique=True)

    state = models.CharField(
        _("state"), max_length=16, choices=InstanceState.choices, default=S.QUEUED
    )
    state_at = models.DateTimeField(_("since"))
    state_reason = models.JSONField(default=dict, blank=True)
    desired_state = models.CharField(
        max_length=8, choices=DesiredState.choices, default=DesiredState.RUNNING
    )
    mode = models.CharField(max_length=8, choices=Mode.choices, default=Mode.GPU)
    health = models.CharField(
        _("health"), max_length=12, choices=Health.choices, default=Health.UNKNOWN
    )
    health_reason = models.CharField(max_length=60, blank=True)
    locks = ArrayField(models.CharField(max_length=16), default=list, blank=True)
    protected = models.BooleanField(_("protected from release"), default=False)
    deadline_at = models.DateTimeField(null=True, blank=True)

    offer = models.ForeignKey("rental.Offer", on_delete=models.PROTECT, related_name="instances")
    image = models.ForeignKey("rental.Image", on_delete=models.PROTECT, related_name="instances")
    market = models.CharField(max_length=16, choices=Market.choices, default=Market.ON_DEMAND)
    price_key = models.CharField(max_length=160)
    region = models.SlugField(max_length=40)
    # The shape as it was sold; an offer that changes later changes no instance.
    shape = models.JSONField(default=dict)
    disk_mib = models.PositiveIntegerField(_("disk, MiB"))
    command = ArrayField(models.TextField(), default=list, blank=True)
    env = models.JSONField(default=dict, blank=True)
    # Names only; what they hold is put into the order when it is sent (secrets.py).
    secrets = ArrayField(models.CharField(max_length=128), default=list, blank=True)
    ports = models.JSONField(default=list, blank=True)
    ssh_key_ids = ArrayField(models.UUIDField(), default=list, blank=True)

    generation = models.PositiveIntegerField(default=1)
    observed_generation = models.PositiveIntegerField(default=0)
    session = models.PositiveIntegerField(default=1)

    # Bound to ``timers_session``: a start begins without them.
    auto_stop_at = models.DateTimeField(null=True, blank=True)
    auto_release_at = models.DateTimeField(null=True, blank=True)
    max_duration_s = models.PositiveIntegerField(null=True, blank=True)
    timers_session = models.PositiveIntegerField(default=1)
    session_ready_at = models.DateTimeField(null=True, blank=True)

    # The one that counts now; null while nothing is asked or placed. No foreign keys: these
    # rows belong to lower floors, which never learn of instances.
    request_id = models.UUIDField(null=True, blank=True)
    allocation_id = models.UUIDField(null=True, blank=True)
    run_id = models.UUIDField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    first_ready_at = models.DateTimeField(null=True, blank=True)

    created_by = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField(_("created"))
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = models.Manager.from_queryset(InstanceQuerySet)()

    class Meta:
        verbose_name = _("instance")
        verbose_name_plural = _("instances")
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=InstanceState.values), name="instance_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(desired_state__in=DesiredState.values),
                name="instance_desired_state_is_known",
            ),
            models.CheckConstraint(
                condition=Q(health__in=Health.values), name="instance_health_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=sorted(ALLOWANCE)) | Q(deadline_at__isnull=False),
                name="instance_in_a_passing_state_has_a_deadline",
            ),
            models.CheckConstraint(
                condition=Q(state="deleted", deleted_at__isnull=False)
                | (~Q(state="deleted") & Q(deleted_at__isnull=True)),
                name="instance_deleted_knows_when",
            ),
            models.CheckConstraint(
                condition=Q(observed_generation__lte=F("generation")),
                name="instance_observes_no_future_generation",
            ),
            models.CheckConstraint(
                condition=Q(session__gte=1) & Q(timers_session__lte=F("session")),
                name="instance_timers_belong_to_a_session",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="instance_of_tenant"),
            # The pass of deadlines reads passing states only; they are a sliver of the table.
            models.Index(
                fields=["deadline_at"],
                condition=Q(state__in=sorted(ALLOWANCE)),
                name="instance_deadline",
            ),
            models.Index(
                fields=["state"],
                condition=~Q(state__in=["stopped", "failed", "deleted"]),
                name="instance_live",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.slug})"

    @property
    def word(self) -> StateWord:
        """One of the seven words that people read."""
        return state_word(self.state)

    def move_to(
        self,
        target: InstanceState,
        *,
        at: datetime,
        reason: dict[str, Any] | None = None,
        allowance: timedelta | None = None,
    ) -> None:
        """
        The only way an instance changes state. Call on a locked row.

        :param allowance: how long the state may last, where the table's figure does not hold
        :raises IllegalTransition: if the table of states has no such move
        """
        check_transition(InstanceState(self.state), target)
        self.state = target
        self.state_at = at
        self.state_reason = reason or {}
        lasting = allowance if allowance is not None else ALLOWANCE.get(target)
        self.deadline_at = at + lasting if lasting is not None else None
        if target is S.DELETED:
            self.deleted_at = at
        self.save(update_fields=["state", "state_at", "state_reason", "deadline_at", "deleted_at"])


class OperationKind(models.TextChoices):
    CREATE = "create", _("create")
    START = "start", _("start")
    STOP = "stop", _("stop")
    RESTART = "restart", _("restart")
    RELEASE = "release", _("release")


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

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class NoticeKind(models.TextChoices):
    BALANCE = "balance", _("the balance runs out")


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

    def __str__(self) -> str:
        return f"{self.kind} {self.deadline:%Y-%m-%d %H:%M}"


class Endpoint(models.Model):
    """How to reach a running instance; rows go when it stops and may differ after a start."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="endpoints")
    kind = models.CharField(max_length=16)
    host = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    user = models.CharField(max_length=64, blank=True)
    host_key_fingerprint = models.CharField(max_length=100, blank=True)
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

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.port}"


class Secret(models.Model):
    """
    A value that a tenant's instances get as the variable ``name``. Written and read by secrets.py
    alone; nobody is ever shown it again.

    ``ciphertext``: nonce, then AES-256-GCM of the value, bound to this row. ``key_id``: which key.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(_("name"), max_length=128)
    ciphertext = models.BinaryField()
    key_id = models.CharField(max_length=16)
    created_at = models.DateTimeField(_("created"))
    updated_at = models.DateTimeField(_("changed"))

    objects = models.Manager.from_queryset(TenantScoped["Secret"])()

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="secret_has_one_value_a_name")
        ]

    def __str__(self) -> str:
        return self.name
