"""What the scheduler is asked to place."""

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from rental.records.scoped import TenantScoped
from scheduler.models.nodes import Node
from scheduler.models.places import Region, Zone


class RequestState(models.TextChoices):
    WAITING = "waiting", _("waiting")
    PLACED = "placed", _("placed")
    CANCELLED = "cancelled", _("cancelled")
    EXPIRED = "expired", _("expired")


class Market(models.TextChoices):
    ON_DEMAND = "on_demand", _("on demand")
    SPOT = "spot", _("spot")


class RequestMode(models.TextChoices):
    WHOLE = "whole", _("whole GPUs")
    MIG = "mig", _("MIG instance")
    SHARE_TENANT = "share_tenant", _("share, own tenant only")
    SHARE_SHARED = "share_shared", _("share with strangers")


class Together(models.TextChoices):
    """Where all members of a gang must lie, whichever it is."""

    ANYWHERE = "", _("anywhere")
    RACK = "rack", _("in one rack")
    ZONE = "zone", _("in one zone")


class RequestQuerySet(TenantScoped["Request"]):
    def waiting(self) -> Self:
        return self.filter(state=RequestState.WAITING)


class Request(models.Model):
    """
    One instance that waits for a place, or has become an allocation.

    The shape says what one node must give: ``count`` whole GPUs, or ``tenths`` of one with
    ``vram_mib``, or a MIG instance of this ``profile`` (of any with ``vram_mib`` when empty); and
    CPU, RAM and disk. ``gpu_models``: pairs "name|MiB", any model when empty.
    ``is_failover``: the instance lost its place, or left it for maintenance: it goes first.
    ``group_id``, ``group_size``: members of one group are placed at once or not at all; that many
    must wait before any is looked at. ``group_placed``: how many of the group run already; then
    this replaces one that was lost. ``together`` to ``one_per_node``: see scheduler.core.bonds.
    ``lasts_s``: how long it runs at the most, if that is known.
    ``reasons``: nodes per dimension that refused it in the last pass, e.g. {"vram": 12}.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", models.PROTECT, related_name="+", verbose_name=_("tenant")
    )
    instance_id = models.UUIDField(_("instance"))
    group_id = models.UUIDField(_("group"))
    group_size = models.PositiveSmallIntegerField(_("group size"), default=1)
    group_placed = models.PositiveSmallIntegerField(
        _("members with a place"), default=0, db_default=0
    )
    together = models.CharField(
        _("together"), max_length=4, choices=Together.choices, blank=True, default="", db_default=""
    )
    spread_skew = models.PositiveSmallIntegerField(
        _("zones differ by at most"), null=True, blank=True
    )
    apart_label = models.SlugField(
        _("apart from its like"),
        max_length=40,
        blank=True,
        default="",
        db_default="",
        db_index=False,
    )
    one_per_node = models.BooleanField(_("one a node"), default=False, db_default=False)
    lasts_s = models.PositiveBigIntegerField(_("lasts at most, s"), null=True, blank=True)
    state = models.CharField(
        _("state"), max_length=12, choices=RequestState.choices, default=RequestState.WAITING
    )
    market = models.CharField(_("market"), max_length=16, choices=Market.choices)
    mode = models.CharField(_("mode"), max_length=16, choices=RequestMode.choices)
    gpu_models = ArrayField(
        models.CharField(max_length=80), verbose_name=_("GPU models"), default=list, blank=True
    )
    count = models.PositiveSmallIntegerField(_("GPUs"))
    tenths = models.PositiveSmallIntegerField(_("tenths of a GPU"))
    vram_mib = models.PositiveIntegerField(_("GPU memory, MiB"))
    profile = models.CharField(
        _("MIG profile"), max_length=20, blank=True, default="", db_default=""
    )
    cpu_milli = models.PositiveIntegerField(_("CPU, milli"))
    ram_mib = models.PositiveIntegerField(_("RAM, MiB"))
    disk_mib = models.PositiveIntegerField(_("disk, MiB"))
    region = models.ForeignKey(Region, models.PROTECT, related_name="+", verbose_name=_("region"))
    zone = models.ForeignKey(
        Zone, models.PROTECT, related_name="+", null=True, blank=True, verbose_name=_("zone")
    )
    residences_on = models.ForeignKey(
        Node,
        models.PROTECT,
        related_name="+",
        null=True,
        blank=True,
        verbose_name=_("disks are on"),
    )
    # The container that it becomes: above that of a place which the instance has left.
    incarnation = models.PositiveIntegerField(_("incarnation"), default=1, db_default=1)
    is_failover = models.BooleanField(_("goes first"), default=False, db_default=False)
    spec = models.JSONField(_("spec"))
    reasons = models.JSONField(_("why it waits"), default=dict, blank=True)
    requested_at = models.DateTimeField(_("requested at"))
    expires_at = models.DateTimeField(_("expires at"))
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)

    objects = RequestQuerySet.as_manager()

    class Meta:
        verbose_name = _("request")
        verbose_name_plural = _("requests")
        constraints = [
            models.UniqueConstraint(
                fields=["instance_id"],
                condition=Q(state=RequestState.WAITING),
                name="request_of_an_instance_waits_once",
            ),
            models.CheckConstraint(
                condition=Q(state__in=RequestState.values), name="request_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(mode__in=RequestMode.values), name="request_mode_is_known"
            ),
            models.CheckConstraint(condition=Q(count__gte=1), name="request_has_a_gpu"),
            models.CheckConstraint(
                condition=Q(tenths__gte=1, tenths__lte=10), name="request_is_a_part_of_ten"
            ),
            models.CheckConstraint(
                condition=Q(mode=RequestMode.MIG) | Q(profile=""),
                name="request_of_a_profile_is_for_mig",
            ),
            models.CheckConstraint(condition=Q(group_size__gte=1), name="request_group_has_one"),
            models.CheckConstraint(
                condition=Q(together__in=Together.values), name="request_together_is_known"
            ),
            models.CheckConstraint(
                condition=Q(spread_skew=None) | Q(spread_skew__gte=1, together=""),
                name="request_is_spread_or_together",
            ),
            models.CheckConstraint(
                condition=Q(incarnation__gte=1), name="request_incarnation_begins_at_one"
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("requested_at")), name="request_expires_later"
            ),
            models.CheckConstraint(
                condition=Q(state=RequestState.WAITING, decided_at=None)
                | (~Q(state=RequestState.WAITING) & Q(decided_at__isnull=False)),
                name="request_is_decided_when_it_waits_no_more",
            ),
        ]
        indexes = [
            # A pass reads waiting requests in this order; they are a sliver of the table.
            models.Index(
                fields=["requested_at", "id"],
                condition=Q(state=RequestState.WAITING),
                name="request_waiting",
            ),
            models.Index(fields=["instance_id"], name="request_of_instance"),
            models.Index(fields=["group_id"], name="request_of_group"),
        ]

    def __str__(self) -> str:
        return str(self.id)
