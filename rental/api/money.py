"""What was metered, what it cost, and what is left."""

import uuid
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from billing.models import Charge, Segment, Transfer
from billing.queries import list_charges, list_transfers
from billing.services.wallets import Balance, read_balance
from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem
from rental.api.fields import Instant, Money, Output, PageQuery, Prefixed
from rental.instances.models import Instance
from rental.records.paging import Page


class BalanceOutput(Output):
    """
    The wallet at ``as_of``. ``available`` = posted - unposted + credit limit: ``held`` guards
    starts only.
    """

    currency = serializers.CharField()
    posted = Money(help_text="What the ledger says.")
    unposted = Money(help_text="Estimate of what was used and is not yet charged.")
    held = Money(help_text="Kept aside for what starts.")
    available = Money()
    burn_per_hour = Money()
    exhausts_at = Instant(allow_null=True, help_text="When the money ends; then runs are closed.")
    as_of = Instant()


class SegmentOutput(Output):
    """A range of a run's ticks (6 s each) with one price; ``until_tick`` null: still open."""

    id = Prefixed("seg")
    run_id = Prefixed("run")
    instance_id = Prefixed("ins", source="run.instance_id")
    project_id = Prefixed("prj")
    session = serializers.IntegerField(source="run.session")
    from_tick = serializers.IntegerField()
    until_tick = serializers.IntegerField(allow_null=True)
    price_key = serializers.CharField()
    market = serializers.CharField()
    share_numerator = serializers.IntegerField()
    share_denominator = serializers.IntegerField()
    opened_at = Instant(source="run.opened_at")
    started_at = Instant(source="run.started_at", allow_null=True, help_text="Start of tick 0.")
    closed_at = Instant(source="run.closed_at", allow_null=True)
    closed_at_tick = serializers.IntegerField(source="run.closed_at_tick", allow_null=True)
    close_reason = serializers.CharField(source="run.close_reason")


class ChargeOutput(Output):
    """
    Ticks [from_unit, until_unit) of a run under one price. With n ticks after ``units_before``
    of the same segment and price: amount = F(units_before + n) - F(units_before),
    F(n) = round_half_up(n * price * share / 600, 6 digits).
    """

    id = Prefixed("chg")
    instance_id = Prefixed("ins", source="run.instance_id")
    run_id = Prefixed("run")
    segment_id = Prefixed("seg")
    project_id = Prefixed("prj")
    component = serializers.CharField()
    period = serializers.DateField(help_text="First day of the month.")
    from_unit = serializers.IntegerField(source="units.lower")
    until_unit = serializers.IntegerField(source="units.upper")
    units_before = serializers.IntegerField()
    price = Money(source="price_version.price")
    unit = serializers.CharField(source="price_version.unit")
    share_numerator = serializers.IntegerField(source="segment.share_numerator")
    share_denominator = serializers.IntegerField(source="segment.share_denominator")
    amount = Money()
    currency = serializers.CharField(source="price_version.currency")
    created_at = Instant()


class ChargeQuery(PageQuery):
    instance_id = Prefixed("ins", required=False)
    project_id = Prefixed("prj", required=False)
    created_after = Instant(required=False)
    created_before = Instant(required=False)


class TransferOutput(Output):
    """One movement of the ledger. ``change`` is what it did to the wallet; 0 if nothing."""

    id = Prefixed("trf")
    code = serializers.CharField()
    reason = serializers.CharField()
    amount = Money()
    change = serializers.SerializerMethodField()
    currency = serializers.CharField(source="debit.currency")
    debit = serializers.CharField(source="debit.kind")
    credit = serializers.CharField(source="credit.kind")
    reverses = Prefixed("trf", source="reverses_id", allow_null=True)
    effective_at = Instant()

    def get_change(self, transfer: Transfer) -> str:
        into = transfer.amount * (transfer.credit.kind == "cash")
        out_of = transfer.amount * (transfer.debit.kind == "cash")
        return Money().to_representation(into - out_of)


class BalanceDetail(TenantView):
    @operation(
        Contract(
            name="get_balance",
            summary="Get the balance, with an estimate",
            verb="billing:read",
            output=BalanceOutput,
        )
    )
    def get(self) -> Balance:
        return read_balance(tenant_id=self.tenant_id, now=self.now)


class ChargesView(TenantView):
    def check_instance(self, instance_id: uuid.UUID) -> None:
        """:raises Problem: 404 if the tenant has no such instance"""
        if not Instance.objects.of(self.tenant_id).filter(pk=instance_id).exists():
            raise Problem(404, "not_found")


class ChargeList(ChargesView):
    @operation(
        Contract(
            name="list_charges",
            summary="List charges, newest first",
            verb="billing:read",
            output=ChargeOutput,
            shape="page",
            query=ChargeQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Charge]:
        rows = list_charges(tenant_id=self.tenant_id)
        for name, lookup in (
            ("instance_id", "run__instance_id"),
            ("project_id", "project_id"),
            ("created_after", "created_at__gte"),
            ("created_before", "created_at__lt"),
        ):
            if name in query:
                rows = rows.filter(**{lookup: query[name]})
        return self.page(rows, query)


class InstanceCharges(ChargesView):
    @operation(
        Contract(
            name="list_instance_charges",
            summary="List the charges of an instance",
            verb="billing:read",
            output=ChargeOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, instance_id: uuid.UUID, query: dict[str, Any]) -> Page[Charge]:
        self.check_instance(instance_id)
        rows = list_charges(tenant_id=self.tenant_id, instance_id=instance_id)
        return self.page(rows, query)


class InstanceSegments(ChargesView):
    @operation(
        Contract(
            name="list_instance_segments",
            summary="List what was metered of an instance",
            verb="billing:read",
            output=SegmentOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, instance_id: uuid.UUID, query: dict[str, Any]) -> Page[Segment]:
        self.check_instance(instance_id)
        rows: QuerySet[Segment] = Segment.objects.of(self.tenant_id)
        rows = rows.filter(run__instance_id=instance_id).select_related("run")
        return self.page(rows, query)


class TransferList(TenantView):
    @operation(
        Contract(
            name="list_transfers",
            summary="List the ledger's movements, newest first",
            verb="billing:read",
            output=TransferOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Transfer]:
        return self.page(list_transfers(tenant_id=self.tenant_id), query)
