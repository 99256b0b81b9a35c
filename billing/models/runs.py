"""What was metered: runs, what agents saw of them, and how their ticks are priced."""

from typing import ClassVar

from django.contrib.postgres.fields import BigIntegerRangeField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from billing.models.fields import Int8MultiRange
from rental.records.append_only import AppendOnly
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped


class Run(models.Model):
    """
    One billable life of an allocation in one shape. Tick k is [started_at + 6k s, +6 s).

    The id is minted by the server. Only ``reporter`` (a node) may report it. ``settled``: nothing
    can be charged to it any more. ``reckoned``: the wallet's ``exhausts_at`` knows the run as it
    is; opening, starting and closing clear it (they hold no wallet lock), a pass sets it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="runs", db_index=False
    )
    project = models.ForeignKey(
        "tenants.Project", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    instance_id = models.UUIDField()
    allocation_id = models.UUIDField()
    reporter = models.UUIDField()
    session = models.IntegerField(default=1)
    opened_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_at_tick = models.BigIntegerField(null=True, blank=True)
    close_reason = models.CharField(max_length=40, blank=True)
    suspect = models.BooleanField(default=False)
    settled = models.BooleanField(default=False)
    reckoned = models.BooleanField(default=False)

    objects: ClassVar = TenantScoped.as_manager()

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        constraints = [
            models.UniqueConstraint(
                fields=["allocation_id"],
                condition=Q(closed_at__isnull=True),
                name="one_open_run_an_allocation",
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closed_at_tick__isnull=True)
                | Q(closed_at__isnull=False, closed_at_tick__gte=0),
                name="a_closed_run_says_at_which_tick",
            ),
            models.CheckConstraint(
                condition=Q(settled=False) | Q(closed_at__isnull=False),
                name="a_settled_run_is_closed",
            ),
            models.CheckConstraint(
                condition=Q(started_at__isnull=True) | Q(started_at__gte=F("opened_at")),
                name="a_run_starts_after_it_opened",
            ),
        ]
        indexes = [
            # Settle and the balance read unsettled runs only; they are a sliver of the table.
            models.Index(fields=["tenant", "id"], condition=Q(settled=False), name="run_unsettled"),
            models.Index(
                fields=["tenant"],
                condition=Q(settled=False, closed_at__isnull=False),
                name="run_closed_unsettled",
            ),
            # The flusher looks for runs that wait for their first readiness report.
            models.Index(
                fields=["id"],
                condition=Q(started_at__isnull=True, closed_at__isnull=True),
                name="run_not_started",
            ),
            models.Index(fields=["tenant"], condition=Q(reckoned=False), name="run_not_reckoned"),
            models.Index(fields=["instance_id", "id"], name="run_of_instance"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Stretch(models.Model):
    """
    What the agent saw of a run without a break: [from_tick, until_tick), bytes cumulative.

    The maximum per (run, from_tick) is kept. No foreign key and no other index: this is the one
    hot table, written by the gateways' flushers and locked by nobody else.
    """

    pk = models.CompositePrimaryKey("run_id", "from_tick")
    run_id = models.UUIDField()
    from_tick = models.BigIntegerField()
    until_tick = models.BigIntegerField()
    net_out = models.BigIntegerField(default=0)
    net_in = models.BigIntegerField(default=0)
    received_at = models.DateTimeField()

    class Meta:
        verbose_name = _("stretch")
        verbose_name_plural = _("stretches")
        constraints = [
            models.CheckConstraint(
                condition=Q(from_tick__gte=0, until_tick__gt=F("from_tick")),
                name="a_stretch_has_ticks",
            ),
            models.CheckConstraint(
                condition=Q(net_out__gte=0, net_in__gte=0), name="bytes_are_not_negative"
            ),
        ]


class Segment(models.Model):
    """
    A range of a run's ticks with one price key, market, project and cover; cut by the server.

    ``share``: the part of the offer that is sold, as an exact fraction.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="segments", db_index=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    project = models.ForeignKey(
        "tenants.Project", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    from_tick = models.BigIntegerField(default=0)
    until_tick = models.BigIntegerField(null=True, blank=True)
    price_key = models.CharField(max_length=200)
    market = models.CharField(max_length=16)
    share_numerator = models.IntegerField(default=1)
    share_denominator = models.IntegerField(default=1)
    cover = models.UUIDField(null=True, blank=True)

    objects: ClassVar = TenantScoped.as_manager()

    class Meta:
        verbose_name = _("segment")
        verbose_name_plural = _("segments")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "from_tick"], name="one_segment_begins_at_a_tick"
            ),
            models.CheckConstraint(
                condition=Q(from_tick__gte=0)
                & (Q(until_tick__isnull=True) | Q(until_tick__gt=F("from_tick"))),
                name="a_segment_has_ticks",
            ),
            models.CheckConstraint(
                condition=Q(share_numerator__gt=0, share_denominator__gt=0),
                name="a_share_is_positive",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.price_key} from {self.from_tick}"


class Tally(models.Model):
    """
    The ticks of a run that are charged (and not reversed). One row a run, apart from it, so that
    settle reads what is new without reading old charges; ``audit_ledger`` re-derives it.
    """

    run = models.OneToOneField(
        Run, primary_key=True, on_delete=models.PROTECT, related_name="tally"
    )
    charged = Int8MultiRange()

    class Meta:
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")


class Waiver(AppendOnly):
    """Ticks of a run that are never charged, and why; the audit log says who said so."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="waivers")
    ticks = BigIntegerRangeField()
    reason = models.TextField()
    created_at = models.DateTimeField()

    objects: ClassVar = TenantScoped.as_manager()

    class Meta(AppendOnly.Meta):
        verbose_name = _("waiver")
        verbose_name_plural = _("waivers")
        constraints = [
            models.CheckConstraint(
                condition=Q(ticks__isempty=False) & Q(ticks__startswith__gte=0),
                name="a_waiver_has_ticks",
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.ticks}"


class RunDirty(models.Model):
    """A run that billing changed by itself; rental.instances looks and deletes the row."""

    run_id = models.UUIDField(primary_key=True)

    class Meta:
        verbose_name = _("changed run")
        verbose_name_plural = _("changed runs")
