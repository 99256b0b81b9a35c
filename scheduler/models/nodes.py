"""Machines, their agents, their GPUs, and how long each has been silent."""

from typing import Any

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from scheduler.models.places import GpuModel, Zone


class EnrolmentToken(models.Model):
    """A right to enrol agents in one zone. Only the SHA-256 of the secret is kept."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    zone = models.ForeignKey(Zone, models.PROTECT, related_name="+", verbose_name=_("zone"))
    uses_left = models.PositiveIntegerField(_("uses left"))
    expires_at = models.DateTimeField(_("expires at"))
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("enrolment token")
        verbose_name_plural = _("enrolment tokens")


class Agent(models.Model):
    """What dials the gateway and speaks for one or more nodes."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(_("name"), max_length=64, unique=True)
    digest = models.BinaryField(max_length=32, editable=False)
    enrolled_at = models.DateTimeField(_("enrolled at"))
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """
    A machine. ``version`` rises in every transaction that changes what the node may hold or what
    may be placed on it; agents obey no lower one and passes commit against it.

    The ``*_free`` columns are counters: lowered when an allocation is committed, raised when its
    release is confirmed. Liveness is not here: it changes every second and would fight with them.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(_("name"), max_length=64, unique=True)
    zone = models.ForeignKey(Zone, models.PROTECT, related_name="nodes", verbose_name=_("zone"))
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="nodes", verbose_name=_("agent"))
    version = models.BigIntegerField(_("version"), default=1)
    cordoned = models.BooleanField(_("cordoned"), default=False)
    drained = models.BooleanField(_("to be drained"), default=False)
    drain_by = models.DateTimeField(_("to be empty by"), null=True, blank=True)
    shared_allowed = models.BooleanField(_("strangers may share a card"), default=False)
    rack = models.SlugField(
        _("rack"),
        max_length=40,
        blank=True,
        default="",
        db_default="",
        db_index=False,
        help_text=_("Nodes of one zone with the same rack are close to each other."),
    )
    facts = models.JSONField(_("facts"), default=dict, blank=True)
    cpu_milli_total = models.IntegerField(_("CPU, milli"), default=0)
    cpu_milli_free = models.IntegerField(_("CPU free, milli"), default=0)
    ram_mib_total = models.IntegerField(_("RAM, MiB"), default=0)
    ram_mib_free = models.IntegerField(_("RAM free, MiB"), default=0)
    disk_mib_total = models.BigIntegerField(_("disk, MiB"), default=0)
    disk_mib_free = models.BigIntegerField(_("disk free, MiB"), default=0)
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("node")
        verbose_name_plural = _("nodes")
        constraints = [
            models.CheckConstraint(
                condition=Q(cpu_milli_free__gte=0, cpu_milli_free__lte=F("cpu_milli_total")),
                name="node_cpu_is_not_oversold",
            ),
            models.CheckConstraint(
                condition=Q(ram_mib_free__gte=0, ram_mib_free__lte=F("ram_mib_total")),
                name="node_ram_is_not_oversold",
            ),
            models.CheckConstraint(
                condition=Q(disk_mib_free__gte=0, disk_mib_free__lte=F("disk_mib_total")),
                name="node_disk_is_not_oversold",
            ),
            models.CheckConstraint(
                condition=Q(drained=False) | Q(cordoned=True), name="node_is_drained_when_cordoned"
            ),
            models.CheckConstraint(
                condition=Q(drain_by=None) | Q(drained=True), name="node_is_empty_by_when_drained"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class LivenessStatus(models.TextChoices):
    LIVE = "live", _("live")
    SUSPECT = "suspect", _("suspect")
    LOST = "lost", _("lost")


class NodeLiveness(models.Model):
    """When a node was last heard and what was declared of it. Written once a second."""

    node = models.OneToOneField(
        Node, models.CASCADE, primary_key=True, related_name="liveness", verbose_name=_("node")
    )
    boot_id = models.CharField(_("boot"), max_length=64, blank=True, default="")
    seq = models.BigIntegerField(_("seq"), default=0)
    received_at = models.DateTimeField(_("last heard at"))
    status = models.CharField(
        _("status"), max_length=8, choices=LivenessStatus.choices, default=LivenessStatus.LIVE
    )
    status_at = models.DateTimeField(_("status since"))

    class Meta:
        verbose_name = _("node liveness")
        verbose_name_plural = _("node liveness")
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=LivenessStatus.values), name="node_liveness_status_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} {self.status}"


class GatewayFlush(models.Model):
    """
    Proof that a gateway listened. ``hole_at``: when it last came back after more than 3 s of not
    writing here; silence of nodes from before does not count.
    """

    gateway_id = models.CharField(_("gateway"), primary_key=True, max_length=128)
    started_at = models.DateTimeField(_("started at"))
    flushed_at = models.DateTimeField(_("flushed at"))
    hole_at = models.DateTimeField(_("last hole ended at"), null=True, blank=True)

    class Meta:
        verbose_name = _("gateway flush")
        verbose_name_plural = _("gateway flushes")


class ControlPlane(models.Model):
    """
    The one row of epochs. ``control_epoch`` is raised by a restore or failover of the database,
    ``scheduler_epoch`` fences passes: one that loaded under another epoch commits nothing.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    control_epoch = models.BigIntegerField(_("control epoch"), default=1)
    control_epoch_at = models.DateTimeField(_("control epoch since"), null=True, blank=True)
    scheduler_epoch = models.BigIntegerField(_("scheduler epoch"), default=1)

    class Meta:
        verbose_name = _("control plane")
        verbose_name_plural = _("control plane")
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="there_is_one_control_plane"),
        ]

    @classmethod
    def load(cls) -> "ControlPlane":
        """Return the one row; it is made on first use."""
        row = cls.objects.filter(pk=1).first()
        return row or cls.objects.get_or_create(pk=1)[0]


class GpuHealth(models.TextChoices):
    HEALTHY = "healthy", _("healthy")
    UNHEALTHY = "unhealthy", _("unhealthy")
    MISSING = "missing", _("missing")  # its node said hello without it


class Gpu(models.Model):
    """One physical device. ``vram_free_mib`` is a counter like those of its node."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="gpus", verbose_name=_("node"))
    uuid = models.CharField(_("UUID"), max_length=96, unique=True)
    serial = models.CharField(_("serial number"), max_length=64, blank=True, default="")
    model = models.ForeignKey(
        GpuModel, models.PROTECT, related_name="gpus", verbose_name=_("model")
    )
    index = models.PositiveSmallIntegerField(_("index"))
    memory_mib = models.PositiveIntegerField(_("memory, MiB"))
    vram_free_mib = models.IntegerField(_("memory free, MiB"))
    numa = models.SmallIntegerField(_("NUMA node"), default=0)
    nvlink_group = models.SmallIntegerField(_("NVLink group"), null=True, blank=True)
    mig_capable = models.BooleanField(_("can do MIG"), default=False)
    health = models.CharField(
        _("health"), max_length=12, choices=GpuHealth.choices, default=GpuHealth.HEALTHY
    )
    health_reason = models.CharField(_("why"), max_length=200, blank=True, default="")

    class Meta:
        verbose_name = _("GPU")
        verbose_name_plural = _("GPUs")
        constraints = [
            models.CheckConstraint(
                condition=Q(vram_free_mib__gte=0, vram_free_mib__lte=F("memory_mib")),
                name="gpu_memory_is_not_oversold",
            ),
            models.CheckConstraint(
                condition=Q(health__in=GpuHealth.values), name="gpu_health_is_known"
            ),
        ]

    def __str__(self) -> str:
        return self.uuid

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self._state.adding and self.vram_free_mib is None:
            self.vram_free_mib = self.memory_mib
        super().save(*args, **kwargs)
