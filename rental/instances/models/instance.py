"""What a customer has."""

from datetime import datetime, timedelta
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.catalog.models import Market
from rental.instances.models.triggers import VERSION_IS_SAID, VERSION_RISES
from rental.instances.states import (
    ALLOWANCE,
    MAY_HAVE_TIMERS,
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


class OnNodeLoss(models.TextChoices):
    """What becomes of an instance whose node is lost."""

    KEEP = "keep", _("keep it there and wait for the node")
    REPLACE = "replace", _("start it again on another node")


# Said in the same words by the index and by the pass that reads it: so the planner takes it.
HAS_TIMERS = Q(state__in=[str(state) for state in MAY_HAVE_TIMERS]) & (
    Q(auto_stop_at__isnull=False)
    | Q(max_duration_s__isnull=False)
    | Q(auto_release_at__isnull=False)
)


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
    ``session`` with every start from stopped or failed (timers are bound to it), ``version`` by the
    database with every change that shows (triggers.py; what is in memory after a save may be
    older). Invoices point at instances, so one is deleted by state and never as a row.
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
    password_login = models.BooleanField(_("password log-in"), default=False, db_default=False)

    on_node_loss = models.CharField(
        _("when its node is lost"),
        max_length=8,
        choices=OnNodeLoss.choices,
        default=OnNodeLoss.KEEP,
        db_default=OnNodeLoss.KEEP,
    )
    # May it be stopped and started elsewhere when its node is drained?
    migrate_ok = models.BooleanField(_("may be moved"), default=True, db_default=True)

    version = models.BigIntegerField(default=1, db_default=1, editable=False)

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
                condition=Q(on_node_loss__in=OnNodeLoss.values),
                name="instance_on_node_loss_is_known",
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
            # The pass of deadlines asks every 5 s who has a timer; few do.
            models.Index(
                fields=["id"],
                condition=HAS_TIMERS,
                name="instance_timer",
            ),
        ]
        triggers = [VERSION_RISES, VERSION_IS_SAID]

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
