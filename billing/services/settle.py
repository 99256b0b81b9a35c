"""
Settle: from proven ticks to charges and one posting a tenant. One transaction per shard.

Safe to run twice and at once: whoever holds a tenant's wallet row sees what the other has
charged (``tally``), and finds nothing more.
"""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import connection, transaction

from billing.models import Wallet
from billing.services import ledger
from billing.services.batches import halve_on_failure
from billing.services.due import DUE, LIVE, PIECES, parameters
from billing.services.exhaust import close_ended
from billing.services.holds import place_anew
from billing.services.reckon import reckon
from billing.services.reverse import reverse_uncharged
from billing.services.runs import lock_unsettled
from billing.services.wallets import lock_wallets, open_wallet

log = structlog.get_logger()

# Runs in one transaction: long enough to be cheap a run, short enough that a start of one of its
# tenants does not wait a second for its wallet. A tenant is never split.
SHARD_RUNS: Final = 4_000

# Agents keep the last row of each stretch 35 days; what comes later is nobody's proof.
PROOF_ENDS: Final = timedelta(days=36)

# A run is settled apart from the hour while its end is young. One that waits for its last proof
# waits for weeks, and would cut all charges of its tenant into pieces of half a minute.
CLOSED_LATELY: Final = timedelta(minutes=15)

_CHARGE: Final = f"""
WITH {LIVE}, {DUE}, {PIECES},
bill AS MATERIALIZED (
    SELECT w.tenant_id, w.id AS wallet_id, w.account_id, total.amount AS total,
           GREATEST(0, LEAST(total.amount, w.posted + w.credit_limit)) AS paid,
           billing_new_id() AS posting_id, billing_new_id() AS transfer_id,
           billing_new_id() AS arrears_id
    FROM (SELECT tenant_id, sum(amount)::bigint AS amount FROM priced GROUP BY tenant_id) total
    JOIN billing_wallet w ON w.tenant_id = total.tenant_id AND w.id = ANY(%(wallets)s)
),
move AS (
    INSERT INTO billing_transfer
        (id, tenant_id, key, debit_id, credit_id, amount, code, reason, group_id, effective_at)
    SELECT transfer_id, tenant_id, 'settle/' || posting_id, account_id, %(revenue)s, paid,
           'usage', '', posting_id, %(now)s
    FROM bill WHERE paid > 0
    UNION ALL
    SELECT arrears_id, bill.tenant_id, 'settle/' || posting_id || '/arrears', a.id, %(revenue)s,
           total - paid, 'usage_arrears', '', posting_id, %(now)s
    FROM bill
    JOIN billing_account a ON a.tenant_id = bill.tenant_id AND a.kind = 'receivable'
        AND a.currency = %(currency)s
    WHERE total > paid
),
post AS (
    INSERT INTO billing_posting (id, tenant_id, total, transfer_id, arrears_id, created_at)
    SELECT posting_id, tenant_id, total,
           CASE WHEN paid > 0 THEN transfer_id END,
           CASE WHEN total > paid THEN arrears_id END, %(now)s
    FROM bill
),
charge AS (
    INSERT INTO billing_charge
        (id, period, tenant_id, project_id, run_id, segment_id, posting_id, price_version_id,
         component, units, units_before, amount, created_at)
    SELECT billing_new_id(), period, p.tenant_id, project_id, run_id, segment_id,
           bill.posting_id, version_id, 'compute', ticks, units_before, amount, %(now)s
    FROM priced p JOIN bill ON bill.tenant_id = p.tenant_id
),
tally AS (
    UPDATE billing_tally t SET charged = t.charged + new.ticks
    FROM (SELECT run_id, range_agg(ticks) AS ticks FROM priced GROUP BY run_id) new
    WHERE t.run_id = new.run_id
),
wallet AS (
    UPDATE billing_wallet w SET posted = w.posted - bill.paid, settled_at = %(now)s
    FROM bill WHERE w.id = bill.wallet_id
)
SELECT wallet_id, paid, total FROM bill
"""

# A run is settled once nothing can ever come. Its row is locked.
_SETTLED: Final = """
UPDATE billing_run r SET settled = true
FROM billing_tally t
WHERE r.tenant_id = ANY(%(tenants)s) AND NOT r.settled AND r.closed_at IS NOT NULL
  AND t.run_id = r.id
  AND (r.started_at IS NULL OR r.closed_at_tick = 0 OR r.closed_at < %(proof_ends)s
       OR int8multirange(int8range(0, r.closed_at_tick)) <@ (
           t.charged + COALESCE((
               SELECT range_agg(w.ticks) FROM billing_waiver w WHERE w.run_id = r.id), '{}')))
"""


def plan_shards(
    tenant_ids: Iterable[uuid.UUID] | None = None, *, closed_since: datetime | None = None
) -> list[list[uuid.UUID]]:
    """Group tenants with unsettled runs, in order of id, so that a shard has about SHARD_RUNS."""
    condition = "" if closed_since is None else "AND closed_at >= %(closed_since)s"
    chosen = "" if tenant_ids is None else "AND tenant_id = ANY(%(tenants)s)"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT tenant_id, count(*) FROM billing_run WHERE NOT settled {condition} {chosen}"
            " GROUP BY tenant_id ORDER BY tenant_id",
            {
                "tenants": None if tenant_ids is None else list(tenant_ids),
                "closed_since": closed_since,
            },
        )
        counted = cursor.fetchall()
    shards: list[list[uuid.UUID]] = []
    runs = SHARD_RUNS
    for tenant_id, count in counted:
        if runs + count > SHARD_RUNS and (runs >= SHARD_RUNS or shards[-1]):
            shards.append([])
            runs = 0
        shards[-1].append(tenant_id)
        runs += count
    return shards


def settle(*, now: datetime, tenant_ids: Iterable[uuid.UUID] | None = None) -> int:
    """
    Charge what is proven and due, of all tenants or of those named. Return how many were posted.

    A tenant that fails is logged and left to the next pass; the others go on.
    """
    return _settle_shards(plan_shards(tenant_ids), now=now)


def settle_closed(*, now: datetime) -> int:
    """Settle the tenants that have runs which closed lately and are not settled yet."""
    return _settle_shards(plan_shards(closed_since=now - CLOSED_LATELY), now=now)


def _settle_shards(shards: Sequence[Sequence[uuid.UUID]], *, now: datetime) -> int:
    def act(tenant_ids: Sequence[uuid.UUID]) -> int:
        return settle_shard(tenant_ids, now=now)

    return sum(halve_on_failure(shard, act, event="settle.failed") for shard in shards)


@transaction.atomic
def settle_shard(tenant_ids: Sequence[uuid.UUID], *, now: datetime) -> int:
    """Settle a few tenants in one transaction. Locks their wallets, then their unsettled runs."""
    wallets = lock_wallets(tenant_ids)
    if len(wallets) < len(tenant_ids):
        for tenant_id in tenant_ids:
            open_wallet(tenant_id=tenant_id, now=now)
        wallets = lock_wallets(tenant_ids)
    lock_unsettled(tenant_ids)
    ending = [w for w in wallets if w.exhausts_at is not None and w.exhausts_at <= now]
    if ending:  # what was used after the end of the money is never charged
        close_ended(ending, now=now)
    reverse_uncharged(wallets, now=now)
    by_id = {wallet.id: wallet for wallet in wallets}
    posted = _charge(by_id, now=now)
    with connection.cursor() as cursor:
        cursor.execute(_SETTLED, {"tenants": list(tenant_ids), "proof_ends": now - PROOF_ENDS})
    place_anew(wallets)
    reckon(wallets, now=now, unposted={})
    return posted


def _charge(wallets: dict[uuid.UUID, Wallet], *, now: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            _CHARGE,
            parameters([wallet.tenant_id for wallet in wallets.values()])
            | {
                "wallets": list(wallets),
                "revenue": ledger.open_account("revenue"),
                "now": now,
            },
        )
        bills = cursor.fetchall()
    for wallet_id, paid, total in bills:
        wallet = wallets[wallet_id]
        wallet.posted -= paid
        if total > paid:
            log.warning("wallet.in_arrears", tenant=str(wallet.tenant_id), amount=total - paid)
    return len(bills)
