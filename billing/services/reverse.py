"""
What was charged and must not have been: ticks above ``closed_at_tick``, or waived later.

Rare (a stop that overtakes a settle), so written for reading, one run at a time. Part of settle.
"""

import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction

from django.db import connection
from psycopg.types.range import Int8Range

from billing.core.rating import price_between
from billing.core.split import Ticks, count, meet
from billing.models import Charge, Reversal, Tally, Wallet
from billing.services.ledger import pay_in
from rental.records.ids import new_id, to_text


def _wrongly_charged(tenant_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[Ticks]]:
    """Return, by run, the charged ticks that lie above the closing tick or in a waiver."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT r.id, unnest(t.charged * (
                CASE WHEN r.closed_at_tick IS NULL THEN '{}'
                     ELSE int8multirange(int8range(r.closed_at_tick, NULL)) END
                + COALESCE((SELECT range_agg(w.ticks) FROM billing_waiver w WHERE w.run_id = r.id),
                           '{}'))) AS ticks
            FROM billing_run r JOIN billing_tally t ON t.run_id = r.id
            WHERE r.tenant_id = ANY(%s) AND NOT r.settled
              AND (r.closed_at_tick IS NOT NULL
                   OR EXISTS (SELECT FROM billing_waiver w WHERE w.run_id = r.id))
            """,
            [list(tenant_ids)],
        )
        wrong: dict[uuid.UUID, list[Ticks]] = {}
        for run_id, ticks in cursor.fetchall():
            wrong.setdefault(run_id, []).append((ticks.lower, ticks.upper))
        return wrong


def reverse_uncharged(wallets: Sequence[Wallet], *, now: datetime) -> None:
    """Give back what the unsettled runs of the locked wallets were wrongly charged."""
    of_tenant = {wallet.tenant_id: wallet for wallet in wallets}
    for run_id, wrong in _wrongly_charged(list(of_tenant)).items():
        _reverse(run_id, wrong, of_tenant, now=now)


def _reverse(
    run_id: uuid.UUID,
    wrong: Sequence[Ticks],
    wallets: dict[uuid.UUID, Wallet],
    *,
    now: datetime,
) -> None:
    """
    Reverse the ticks of one run. From the end, F(N) − F(N − n): what stays is F of what stays,
    and later ticks count on from there.
    """
    charges = Charge.objects.ticks_of([run_id]).select_related("segment", "price_version")
    remaining: Counter[tuple[uuid.UUID, uuid.UUID]] = Counter()
    for charge in charges:
        remaining[charge.segment_id, charge.price_version_id] += (
            charge.units.upper - charge.units.lower
        )
    for reversal in Reversal.objects.filter(run_id=run_id):
        remaining[reversal.segment_id, reversal.price_version_id] -= (
            reversal.units.upper - reversal.units.lower
        )
    for charge in sorted(charges, key=lambda c: c.units.lower, reverse=True):
        for part in wrong:
            units = meet((charge.units.lower, charge.units.upper), part)
            if units is None:
                continue
            key = (charge.segment_id, charge.price_version_id)
            last = remaining[key]
            remaining[key] -= count([units])
            covered = charge.segment.cover is not None
            amount = price_between(
                remaining[key],
                last,
                price=0 if covered else charge.price_version.price,
                share=Fraction(charge.segment.share_numerator, charge.segment.share_denominator),
            )
            _give_back(charge, units, amount, wallets[charge.tenant_id], now=now)
    tally = Tally.objects.get(run_id=run_id)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_tally SET charged = charged - %s::int8multirange WHERE run_id = %s",
            ["{" + ",".join(f"[{a},{b})" for a, b in wrong) + "}", tally.run_id],
        )


def _give_back(charge: Charge, units: Ticks, amount: int, wallet: Wallet, *, now: datetime) -> None:
    reversal_id = new_id()
    transfer = None
    if amount:
        transfer = pay_in(
            wallet,
            source="revenue",
            amount=amount,
            key=f"reversal/{reversal_id}",
            code="reversal",
            reason=f"{to_text('chg', charge.id)} ticks {units[0]}-{units[1]}",
            now=now,
        )
    Reversal.objects.create(
        id=reversal_id,
        tenant_id=charge.tenant_id,
        charge_id=charge.id,
        run_id=charge.run_id,
        segment_id=charge.segment_id,
        price_version_id=charge.price_version_id,
        units=Int8Range(*units),
        amount=amount,
        transfer=transfer,
        created_at=now,
    )
