"""What other rooms read of billing."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.db import connection
from django.db.models import QuerySet

from billing.core.rating import burn_per_hour
from billing.models import Account, Charge, PriceVersion, Run, Segment, Transfer, Wallet
from billing.services.due import due_by_segment


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentLine:
    """
    A segment as a customer reads it. Amounts in micro-units; ``price``: of an hour of it now,
    None without one. ``amount`` is charged, ``estimate`` proven and not charged yet.
    """

    segment: Segment
    run: Run
    proven_ticks: int
    charged_ticks: int
    price: int | None
    amount: int
    estimate: int


def list_segments(instance_id: uuid.UUID, *, now: datetime) -> list[SegmentLine]:
    """Return the segments of the instance with ticks, price and amounts, the newest first."""
    segments = list(
        Segment.objects.filter(run__instance_id=instance_id)
        .select_related("run")
        .order_by("-run__opened_at", "-from_tick")
    )
    if not segments:
        return []
    charged = _charged_by_segment([segment.run_id for segment in segments])
    due = due_by_segment(tenant_id=segments[0].tenant_id, instance_id=instance_id)
    prices = {
        version.price_key: version.price
        for version in PriceVersion.objects.filter(
            price_key__in={segment.price_key for segment in segments}, during__contains=now
        )
    }
    lines = []
    for segment in segments:
        charged_ticks, amount = charged.get(segment.id, (0, 0))
        due_ticks, estimate = due.get(segment.id, (0, 0))
        price = prices.get(segment.price_key)
        share = Fraction(segment.share_numerator, segment.share_denominator)
        lines.append(
            SegmentLine(
                segment=segment,
                run=segment.run,
                proven_ticks=charged_ticks + due_ticks,
                charged_ticks=charged_ticks,
                price=None if price is None else burn_per_hour(price=price, share=share),
                amount=amount,
                estimate=estimate,
            )
        )
    return lines


def _charged_by_segment(run_ids: list[uuid.UUID]) -> dict[uuid.UUID, tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT segment_id, sum(ticks)::bigint, sum(amount)::bigint FROM (
                SELECT segment_id, upper(units) - lower(units) AS ticks, amount
                FROM billing_charge WHERE component = 'compute' AND run_id = ANY(%(runs)s)
                UNION ALL
                SELECT segment_id, lower(units) - upper(units), -amount
                FROM billing_reversal WHERE run_id = ANY(%(runs)s)
            ) line GROUP BY segment_id
            """,
            {"runs": run_ids},
        )
        return {segment: (ticks, amount) for segment, ticks, amount in cursor.fetchall()}


def list_charges(*, tenant_id: uuid.UUID, instance_id: uuid.UUID | None = None) -> QuerySet[Charge]:
    """Return the tenant's charges with run, segment and price, the newest first."""
    charges: QuerySet[Charge] = (
        Charge.objects.of(tenant_id)
        .select_related("run", "segment", "price_version")
        .order_by("-id")
    )
    return charges if instance_id is None else charges.filter(run__instance_id=instance_id)


def list_transfers(*, tenant_id: uuid.UUID) -> QuerySet[Transfer]:
    """Return the ledger's movements for the tenant with their accounts, the newest first."""
    transfers: QuerySet[Transfer] = Transfer.objects.of(tenant_id)
    return transfers.select_related("debit", "credit").order_by("-id")


def list_pots(*, tenant_id: uuid.UUID) -> list[Wallet]:
    """Return the tenant's pots of money, cash first; none before money was first touched."""
    return list(Wallet.objects.of(tenant_id).order_by("kind", "id"))


def change_of(transfer: Transfer) -> int:
    """Return what a transfer (with its accounts) did to the cash wallet, micro-units."""
    into = transfer.amount * (transfer.credit.kind == Account.Kind.CASH)
    return into - transfer.amount * (transfer.debit.kind == Account.Kind.CASH)


def balance_after(transfer: Transfer) -> int:
    """Return what the tenant's cash wallet held after the transfer, micro-units. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT w.posted - COALESCE((
                SELECT sum(CASE WHEN t.credit_id = w.account_id THEN t.amount
                                WHEN t.debit_id = w.account_id THEN -t.amount ELSE 0 END)
                FROM billing_transfer t WHERE t.tenant_id = w.tenant_id AND t.id > %(id)s
            ), 0)
            FROM billing_wallet w WHERE w.tenant_id = %(tenant)s AND w.kind = 'cash'
            """,
            {"tenant": transfer.tenant_id, "id": transfer.id},
        )
        row = cursor.fetchone()
    return 0 if row is None else int(row[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerLine:
    """A transfer with what it did to the cash wallet and what was there before and after it."""

    transfer: Transfer
    change: int
    after: int

    @property
    def before(self) -> int:
        return self.after - self.change


def read_ledger(transfers: Sequence[Transfer]) -> list[LedgerLine]:
    """
    Return neighbouring transfers of one tenant, the newest first, with the wallet's balance along
    them. One query.
    """
    lines: list[LedgerLine] = []
    after = balance_after(transfers[0]) if transfers else 0
    for transfer in transfers:
        line = LedgerLine(transfer=transfer, change=change_of(transfer), after=after)
        lines.append(line)
        after = line.before
    return lines


def spent_on(instance_id: uuid.UUID, *, now: datetime) -> int:
    """Return what the instance has cost up to ``now``: charged plus the estimate, micro-units."""
    return sum(line.amount + line.estimate for line in list_segments(instance_id, now=now))
