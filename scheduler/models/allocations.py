"""What runs where: allocations, the slices and disks they hold, and what agents said of them."""

from typing import Self

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Func, IntegerField, Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped
from scheduler.fields import CellsField
from scheduler.models.nodes import Gpu, Node
from scheduler.models.requests import Request


class Want(models.TextChoices):
    RUN = "run", _("run")
    STOP = "stop", _("stop")
    GONE = "gone", _("gone")


class AllocationQuerySet(TenantScoped["Allocation"]):
    def held(self) -> Self:
        """Those whose release is not confirmed: they still hold slices."""
        return self.filter(released_at=None)

    def residing(self) -> Self:
        """Those in which their instance lives: held, and not abandoned. One an instance."""
        return self.held().filter(abandoned_at=None)


class Allocation(models.Model):
    """
    One residence of an instance on a node, from placement to confirmed release.

    ``want`` to ``spec_rev`` are orders; ``phase`` to ``progress`` are what the agent observed,
    where the newest (observed_incarnation, observed_seq) wins. ``lost_at``: the operator declared
    the node dead; it was released without anybody having confirmed a wipe. ``abandoned_at``: its
    node was lost and the instance lives elsewhere; what it holds stays held until the node
    confirms ``gone``, so that nothing is sold twice. ``ends_at``: when it will be over, as far as
    anybody knows; a forecast that orders nothing. ``apart_label``: no other of its tenant with it
    is put on this node.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    request = models.ForeignKey(
        Request, models.PROTECT, related_name="allocations", verbose_name=_("request")
    )
    tenant = models.ForeignKey(
        "tenants.Tenant", models.PROTECT, related_name="+", verbose_name=_("tenant")
    )
    instance_id = models.UUIDField(_("instance"))
    node = models.ForeignKey(
        Node, models.PROTECT, related_name="allocations", verbose_name=_("node")
    )
    cpu_milli = models.PositiveIntegerField(_("CPU, milli"))
    ram_mib = models.PositiveIntegerField(_("RAM, MiB"))

    incarnation = models.PositiveIntegerField(_("incarnation"), default=1)
    run_id = models.UUIDField(_("run"))
    want = models.CharField(_("want"), max_length=4, choices=Want.choices, default=Want.RUN)
    stop_at_tick = models.BigIntegerField(_("stop at tick"), null=True, blank=True)
    spec = models.JSONField(_("spec"))
    spec_rev = models.PositiveIntegerField(_("spec revision"), default=1)

    phase = models.CharField(_("phase"), max_length=12, blank=True, default="")
    phase_at = models.DateTimeField(_("phase since"), null=True, blank=True)
    observed_incarnation = models.PositiveIntegerField(_("observed incarnation"), default=0)
    observed_seq = models.BigIntegerField(_("observed seq"), default=0)
    observed_spec_rev = models.PositiveIntegerField(_("observed spec revision"), default=0)
    exit_code = models.IntegerField(_("exit code"), null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=64, blank=True, default="")
    detail = models.TextField(_("detail"), blank=True, default="")
    endpoints = models.JSONField(_("endpoints"), default=list, blank=True)
    progress = models.JSONField(_("progress"), default=dict, blank=True)

    created_at = models.DateTimeField(_("created at"))
    released_at = models.DateTimeField(_("released at"), null=True, blank=True)
    lost_at = models.DateTimeField(_("lost with its node at"), null=True, blank=True)
    abandoned_at = models.DateTimeField(_("abandoned at"), null=True, blank=True)
    ends_at = models.DateTimeField(_("expected to end at"), null=True, blank=True)
    apart_label = models.SlugField(
        _("apart from its like"),
        max_length=40,
        blank=True,
        default="",
        db_default="",
        db_index=False,
    )

    objects = AllocationQuerySet.as_manager()

    class Meta:
        verbose_name = _("allocation")
        verbose_name_plural = _("allocations")
        constraints = [
            models.UniqueConstraint(
                fields=["instance_id"],
                condition=Q(released_at=None, abandoned_at=None),
                name="instance_is_allocated_once",
            ),
            models.CheckConstraint(
                condition=Q(abandoned_at=None) | Q(want=Want.GONE),
                name="allocation_is_abandoned_when_it_should_be_gone",
            ),
            models.CheckConstraint(
                condition=Q(want__in=Want.values), name="allocation_want_is_known"
            ),
            models.CheckConstraint(
                condition=Q(released_at=None) | Q(want=Want.GONE),
                name="allocation_is_released_when_it_should_be_gone",
            ),
            models.CheckConstraint(
                condition=Q(lost_at=None) | Q(released_at__isnull=False),
                name="allocation_is_released_when_it_is_lost",
            ),
            models.CheckConstraint(
                condition=Q(incarnation__gte=1, spec_rev__gte=1),
                name="allocation_counters_begin_at_one",
            ),
            models.CheckConstraint(
                condition=Q(stop_at_tick=None) | Q(stop_at_tick__gte=0),
                name="allocation_stops_at_a_tick",
            ),
        ]
        indexes = [
            # A node's desired set reads what the node still holds.
            models.Index(fields=["node"], condition=Q(released_at=None), name="allocation_held"),
            models.Index(fields=["instance_id"], name="allocation_of_instance"),
            # Few have a label; a pass asks on which nodes.
            models.Index(
                fields=["tenant", "apart_label"],
                condition=Q(released_at=None) & ~Q(apart_label=""),
                name="allocation_apart",
            ),
            # A pass asks which nodes have still to be cleaned; hardly any.
            models.Index(
                fields=["node"],
                condition=Q(released_at=None, abandoned_at__isnull=False),
                name="allocation_abandoned",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class SliceMode(models.TextChoices):
    WHOLE = "whole", _("whole")
    MIG = "mig", _("MIG")
    SHARE_TENANT = "share_tenant", _("share, one tenant")
    SHARE_SHARED = "share_shared", _("share, strangers")


HELD = Q(released_at=None)
STRANGERS = Q(released_at=None, mode=SliceMode.SHARE_SHARED)


class Slice(models.Model):
    """
    A sold part of one GPU. ``cells``: tenths 0..10 for shares and whole cards, memory slices for
    MIG. The constraints are what stops two passes from selling the same cell twice.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="slices", verbose_name=_("GPU"))
    allocation = models.ForeignKey(
        Allocation, models.PROTECT, related_name="slices", verbose_name=_("allocation")
    )
    tenant = models.ForeignKey(
        "tenants.Tenant", models.PROTECT, related_name="+", verbose_name=_("tenant")
    )
    mode = models.CharField(_("mode"), max_length=16, choices=SliceMode.choices)
    cells = CellsField(_("cells"))
    vram_mib = models.PositiveIntegerField(_("memory, MiB"))
    created_at = models.DateTimeField(_("created at"))
    released_at = models.DateTimeField(_("released at"), null=True, blank=True)

    objects = TenantScoped["Slice"].as_manager()

    class Meta:
        verbose_name = _("slice")
        verbose_name_plural = _("slices")
        constraints = [
            ExclusionConstraint(
                name="gpu_cells_are_sold_once",
                expressions=[("gpu", RangeOperators.EQUAL), ("cells", RangeOperators.OVERLAPS)],
                condition=HELD,
            ),
            ExclusionConstraint(
                name="gpu_has_one_mode",
                expressions=[("gpu", RangeOperators.EQUAL), ("mode", RangeOperators.NOT_EQUAL)],
                condition=HELD,
            ),
            ExclusionConstraint(
                name="gpu_of_one_tenant_has_no_stranger",
                expressions=[("gpu", RangeOperators.EQUAL), ("tenant", RangeOperators.NOT_EQUAL)],
                condition=Q(released_at=None, mode=SliceMode.SHARE_TENANT),
            ),
            # A memory limit is per process, so strangers get tiles that are equal in both ways.
            ExclusionConstraint(
                name="gpu_tiles_of_strangers_are_equal",
                expressions=[
                    ("gpu", RangeOperators.EQUAL),
                    (
                        Func(F("cells"), function="upper", output_field=IntegerField())
                        - Func(F("cells"), function="lower", output_field=IntegerField()),
                        RangeOperators.NOT_EQUAL,
                    ),
                ],
                condition=STRANGERS,
            ),
            ExclusionConstraint(
                name="gpu_memory_of_strangers_is_equal",
                expressions=[
                    ("gpu", RangeOperators.EQUAL),
                    ("vram_mib", RangeOperators.NOT_EQUAL),
                ],
                condition=STRANGERS,
            ),
            models.CheckConstraint(
                condition=Q(mode__in=SliceMode.values), name="slice_mode_is_known"
            ),
        ]
        indexes = [models.Index(fields=["gpu"], condition=HELD, name="slice_held")]

    def __str__(self) -> str:
        return f"{self.gpu_id} {self.mode} {self.cells}"


class ResidenceKind(models.TextChoices):
    SYSTEM = "system", _("system disk")
    WORKSPACE = "workspace", _("workspace")


class ResidenceWant(models.TextChoices):
    KEEP = "keep", _("keep")
    GONE = "gone", _("gone")


class ResidenceQuerySet(TenantScoped["Residence"]):
    def present(self) -> Self:
        """Those with bytes that count: their space is taken."""
        return self.filter(wiped_at=None)

    def residing(self) -> Self:
        """Those that are their instance's disks; they pin it to their node."""
        return self.present().filter(abandoned_at=None)


class Residence(models.Model):
    """
    Bytes of an instance on a node. It holds node disk from creation to confirmed wipe, whatever
    its instance does, and pins the instance to the node. ``lost_at``: the operator declared the
    node dead; ``wiped_at`` then says since when it counts no more, and nobody wiped it.
    ``abandoned_at``: the instance has left it and has another; it is to be wiped, and holds its
    space until it is.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    instance_id = models.UUIDField(_("instance"))
    tenant = models.ForeignKey(
        "tenants.Tenant", models.PROTECT, related_name="+", verbose_name=_("tenant")
    )
    node = models.ForeignKey(
        Node, models.PROTECT, related_name="residences", verbose_name=_("node")
    )
    kind = models.CharField(_("kind"), max_length=12, choices=ResidenceKind.choices)
    disk_mib = models.PositiveIntegerField(_("disk, MiB"))
    used_bytes = models.BigIntegerField(_("used, bytes"), default=0)
    want = models.CharField(
        _("want"), max_length=4, choices=ResidenceWant.choices, default=ResidenceWant.KEEP
    )
    created_at = models.DateTimeField(_("created at"))
    wiped_at = models.DateTimeField(_("wiped at"), null=True, blank=True)
    lost_at = models.DateTimeField(_("lost with its node at"), null=True, blank=True)
    abandoned_at = models.DateTimeField(_("abandoned at"), null=True, blank=True)

    objects = ResidenceQuerySet.as_manager()

    class Meta:
        verbose_name = _("residence")
        verbose_name_plural = _("residences")
        constraints = [
            models.UniqueConstraint(
                fields=["instance_id", "kind"],
                condition=Q(wiped_at=None, abandoned_at=None),
                name="instance_has_one_disk_of_a_kind",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=ResidenceKind.values), name="residence_kind_is_known"
            ),
            models.CheckConstraint(
                condition=Q(wiped_at=None) | Q(want=ResidenceWant.GONE),
                name="residence_is_wiped_when_it_should_be_gone",
            ),
            models.CheckConstraint(
                condition=Q(lost_at=None) | Q(wiped_at__isnull=False),
                name="residence_counts_no_more_when_it_is_lost",
            ),
            models.CheckConstraint(
                condition=Q(abandoned_at=None) | Q(want=ResidenceWant.GONE),
                name="residence_is_abandoned_when_it_should_be_gone",
            ),
        ]
        indexes = [
            models.Index(fields=["node"], condition=Q(wiped_at=None), name="residence_held"),
            models.Index(
                fields=["node"],
                condition=Q(wiped_at=None, abandoned_at__isnull=False),
                name="residence_abandoned",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.instance_id} {self.kind}"


class AllocationDirty(models.Model):
    """
    An allocation that the floor above has to look at; crossing 4 of DESIGN §2.

    Take rows with FOR UPDATE SKIP LOCKED in the **first** statement, before locking anything
    else, and delete them in the same transaction: writers here take the row before the
    allocation, so the order is dirty row, (instance), allocation, everywhere.
    """

    allocation = models.OneToOneField(
        Allocation, models.CASCADE, primary_key=True, related_name="+", db_constraint=False
    )
    marked_at = models.DateTimeField()

    class Meta:
        verbose_name = _("allocation to look at")
        verbose_name_plural = _("allocations to look at")


class QuarantineEvent(models.Model):
    """
    Something of ours that a node runs and no desired set names. Reported, never ended.

    The ids are the agent's words, not keys: the rows may not exist.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(
        Node, models.PROTECT, related_name="quarantine", verbose_name=_("node")
    )
    allocation_id = models.CharField(_("allocation"), max_length=64)
    instance_id = models.CharField(_("instance"), max_length=64)
    incarnation = models.PositiveIntegerField(_("incarnation"))
    run_id = models.CharField(_("run"), max_length=64, blank=True, default="")
    alive = models.BooleanField(_("alive"), default=True)
    first_seen_at = models.DateTimeField(_("first seen at"))
    last_seen_at = models.DateTimeField(_("last seen at"))

    class Meta:
        verbose_name = _("container in quarantine")
        verbose_name_plural = _("containers in quarantine")
        constraints = [
            models.UniqueConstraint(
                fields=["node", "allocation_id", "incarnation"],
                name="quarantine_names_a_container_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.allocation_id} on {self.node_id}"
