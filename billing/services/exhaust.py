"""The only stop for money: at ``exhausts_at`` billing closes the tenant's runs itself."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Q

from billing.models import Run, RunDirty, Wallet
from billing.services.batches import halve_on_failure
from billing.services.reckon import reckon
from billing.services.runs import close_locked
from billing.services.wallets import lock_wallets

log = structlog.get_logger()

REASON: Final = "balance_exhausted"
BATCH: Final = 100  # tenants in one transaction


def _candidates(now: datetime) -> list[uuid.UUID]:
    """Tenants whose money is said to end, or with runs that ``exhausts_at`` does not know."""
    stale = Run.objects.filter(reckoned=False).values("tenant_id")
    said = Wallet.objects.filter(exhausts_at__lte=now).values("tenant_id")
    return list(
        Wallet.objects.filter(Q(tenant_id__in=stale) | Q(tenant_id__in=said))
        .order_by("tenant_id")
        .values_list("tenant_id", flat=True)
        .distinct()
    )


def close_exhausted(*, now: datetime) -> int:
    """
    Bring ``exhausts_at`` up to date where runs changed, and close the runs of tenants whose money
    has ended, at the instant in the row and not at ``now``. Return how many runs were closed.

    Each closed run is marked in ``run_dirty`` in the same transaction. Wallets that somebody
    holds are left for the next pass.
    """

    @transaction.atomic
    def act(batch: Sequence[uuid.UUID]) -> int:
        return len(close_ended(lock_wallets(batch, skip_locked=True), now=now))

    tenant_ids = _candidates(now)
    return sum(
        halve_on_failure(tenant_ids[start : start + BATCH], act, event="exhaust.failed")
        for start in range(0, len(tenant_ids), BATCH)
    )


def close_ended(wallets: Sequence[Wallet], *, now: datetime) -> list[Run]:
    """Reckon the locked wallets and close the open runs of those whose money has ended."""
    reckon(wallets, now=now)
    ended = [w for w in wallets if w.exhausts_at is not None and w.exhausts_at <= now]
    if not ended:
        return []
    instants = {w.tenant_id: w.exhausts_at for w in ended if w.exhausts_at is not None}
    runs = list(
        Run.objects.filter(tenant_id__in=instants, closed_at__isnull=True)
        .order_by("id")
        .select_for_update(no_key=True)
    )
    for run in runs:
        close_locked(run, at=instants[run.tenant_id], reason=REASON)
        log.info("run.closed", run=str(run.id), tenant=str(run.tenant_id), reason=REASON)
    RunDirty.objects.bulk_create([RunDirty(run_id=run.id) for run in runs], ignore_conflicts=True)
    reckon(ended, now=now)
    return runs
