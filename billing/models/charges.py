"""What was charged: postings (one a tenant and settle), charges, and their reversals."""

import uuid
from collections.abc import Iterable
from typing import ClassVar, Self

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import BigIntegerRangeField, RangeOperators
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from billing.models.ledger import Transfer
from billing.models.prices import PriceVersion
from billing.models.runs import Run, Segment
from rental.records.append_only import AppendOnly
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped


class Posting(AppendOnly):
    """
    What one settle took from one tenant. ``transfer`` is the wallet's part, ``arrears`` what the
    wallet lacked (to ``receivable``); each NULL when it is 0.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    total = models.BigIntegerField()
    transfer = models.OneToOneField(
        Transfer, null=True, blank=True, on_delete=models.PROTECT, related_name="posting"
    )
    arrears = models.OneToOneField(
        Transfer, null=True, blank=True, on_delete=models.PROTECT, related_name="posting_in_arrears"
    )
    created_at = models.DateTimeField()

    objects: ClassVar = TenantScoped.as_manager()

    class Meta(AppendOnly.Meta):
        verbose_name = _("posting")
        verbose_name_plural = _("postings")
        constraints = [
            models.CheckConstraint(condition=Q(total__gte=0), name="a_posting_is_not_negative"),
            models.CheckConstraint(
                condition=Q(total=0, transfer__isnull=True, arrears__isnull=True)
                | (Q(total__gt=0) & (Q(transfer__isnull=False) | Q(arrears__isnull=False))),
                name="a_posting_moves_its_total",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.total}"


class ChargeRows(TenantScoped["Charge"]):
    def ticks_of(self, run_ids: Iterable[uuid.UUID]) -> Self:
        """
        Return what the ticks of the runs were charged. Naming the component is what lets the
        index of ``no_tick_is_charged_twice`` serve: there is no other by run.
        """
        return self.filter(run_id__in=list(run_ids), component=Charge.Component.COMPUTE)


class Charge(AppendOnly):
    """
    A priced range of a run's ticks in one period under one price version.

    ``amount = F(units_before + n) − F(units_before)`` with n the ticks in ``units``: the customer
    can recompute it from this row and its price. Nothing has a foreign key to charge, and its own
    are not checked by the database (five look-ups a row would halve the speed of settle, its only
    writer); ``audit_ledger`` checks them. In the database the key is (id, period), migration 0002,
    so that the table can be cut by period later.
    """

    class Component(models.TextChoices):
        COMPUTE = "compute", _("compute")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    period = models.DateField()
    tenant = models.ForeignKey(
        "tenants.Tenant",
        on_delete=models.PROTECT,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    project_id = models.UUIDField()
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="charges", db_constraint=False, db_index=False
    )
    segment = models.ForeignKey(
        Segment, on_delete=models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    posting = models.ForeignKey(
        Posting, on_delete=models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    price_version = models.ForeignKey(
        PriceVersion,
        on_delete=models.PROTECT,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    component = models.CharField(
        max_length=12, choices=Component.choices, default=Component.COMPUTE, db_collation="C"
    )
    units = BigIntegerRangeField()
    units_before = models.BigIntegerField()
    amount = models.BigIntegerField()
    created_at = models.DateTimeField()

    objects: ClassVar = ChargeRows.as_manager()

    class Meta(AppendOnly.Meta):
        verbose_name = _("charge")
        verbose_name_plural = _("charges")
        constraints = [
            # One constraint a component and not the component as a third column: it is the
            # dearest part of settle, and a column more makes it a fifth dearer.
            ExclusionConstraint(
                name="no_tick_is_charged_twice",
                expressions=[("run", RangeOperators.EQUAL), ("units", RangeOperators.OVERLAPS)],
                condition=Q(component="compute"),
            ),
            models.CheckConstraint(
                condition=Q(units__isempty=False)
                & Q(units__startswith__gte=0)
                & Q(units_before__gte=0)
                & Q(amount__gte=0),
                name="a_charge_is_for_something",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "id"], name="charge_page"),
            # What was booked in a period, of all tenants: rows lie in the order of their making,
            # and a block range costs settle nothing that can be measured.
            BrinIndex(fields=["created_at"], name="charge_booked", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.units} {self.amount}"


class Reversal(AppendOnly):
    """
    A part of a charge that is given back: ticks above ``closed_at_tick``, or waived later.

    The amounts follow the same cumulative rule, from the end: F(N) − F(N − n), so that what
    remains is F of what remains. ``transfer`` is NULL when the amount is 0.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    charge_id = models.UUIDField()
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="reversals")
    segment = models.ForeignKey(Segment, on_delete=models.PROTECT, related_name="+", db_index=False)
    price_version = models.ForeignKey(
        PriceVersion, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    units = BigIntegerRangeField()
    amount = models.BigIntegerField()
    transfer = models.ForeignKey(
        Transfer, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    created_at = models.DateTimeField()

    objects: ClassVar = TenantScoped.as_manager()

    class Meta(AppendOnly.Meta):
        verbose_name = _("reversal")
        verbose_name_plural = _("reversals")
        indexes = [models.Index(fields=["tenant", "id"], name="reversal_page")]
        constraints = [
            ExclusionConstraint(
                name="no_unit_is_reversed_twice",
                expressions=[
                    ("run", RangeOperators.EQUAL),
                    ("units", RangeOperators.OVERLAPS),
                ],
            ),
            models.CheckConstraint(
                condition=Q(units__isempty=False) & Q(amount__gte=0),
                name="a_reversal_is_for_something",
            ),
            models.CheckConstraint(
                condition=Q(amount=0) | Q(transfer__isnull=False),
                name="a_reversal_moves_its_amount",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.units} −{self.amount}"
