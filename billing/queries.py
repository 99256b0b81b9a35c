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
    Return transfers of one tenant, the newest first, each with the wallet's balance around it,
    whatever lies between them. One query.
    """
    if not transfers:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, after FROM (
                SELECT t.id, w.posted - COALESCE(sum(
                    CASE WHEN t.credit_id = w.account_id THEN t.amount
                         WHEN t.debit_id = w.account_id THEN -t.amount ELSE 0 END
                ) OVER (ORDER BY t.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
                AS after
                FROM billing_transfer t JOIN billing_wallet w ON w.tenant_id = t.tenant_id
                WHERE t.tenant_id = %(tenant)s AND t.id >= %(oldest)s AND w.kind = 'cash'
            ) line WHERE id = ANY(%(shown)s)
            """,
            {
                "tenant": transfers[0].tenant_id,
                "oldest": min(transfer.id for transfer in transfers),
                "shown": [transfer.id for transfer in transfers],
            },
        )
        after = dict(cursor.fetchall())
    return [
        LedgerLine(transfer=one, change=change_of(one), after=int(after[one.id]))
        for one in transfers
    ]


def spent_on(instance_id: uuid.UUID, *, now: datetime) -> int:
    """Return what the instance has cost up to ``now``: charged plus the estimate, micro-units."""
    return sum(line.amount + line.estimate for line in list_segments(instance_id, now=now))
