"""Holds: the entry gate. They guard what starts, and nothing else."""

import uuid
from datetime import datetime

from django.db import connection, transaction

from billing.core.gate import held_for, least_for
from billing.errors import InsufficientBalance, TenantInArrears
from billing.models import Hold, Wallet
from billing.services.due import unposted_of
from billing.services.ledger import arrears_of
from billing.services.wallets import lock_wallet, lock_wallets

__all__ = [
    "Hold",
    "InsufficientBalance",
    "TenantInArrears",
    "free_hold",
    "place_hold",
    "place_anew",
]


@transaction.atomic
def place_hold(
    *, tenant_id: uuid.UUID, instance_id: uuid.UUID, burn_per_hour: int, now: datetime
) -> Hold:
    """
    Keep aside one hour of the instance's burn, or what is left; needs at least half an hour.

    Locks the wallet. An instance has one pending hold; asking again returns it.

    :raises TenantInArrears: if the tenant owes money
    :raises InsufficientBalance: if less than 30 minutes of the burn are left
    """
    wallet = lock_wallet(tenant_id=tenant_id, now=now)
    known = Hold.objects.of(tenant_id).filter(instance_id=instance_id, state=Hold.State.PENDING)
    if (hold := known.first()) is not None:
        return hold
    if (owed := arrears_of([tenant_id]).get(tenant_id, 0)) > 0:
        raise TenantInArrears(owed)
    unposted = unposted_of([tenant_id]).get(tenant_id, 0)
    left = wallet.posted + wallet.credit_limit - wallet.held - unposted
    amount = held_for(burn_per_hour, left=left)
    if amount is None:
        raise InsufficientBalance(needed=least_for(burn_per_hour), available=max(0, left))
    hold = Hold.objects.create(
        tenant_id=tenant_id,
        instance_id=instance_id,
        burn=burn_per_hour,
        amount=amount,
        placed_at=now,
    )
    wallet.held += hold.amount
    wallet.save(update_fields=["held"])
    return hold


@transaction.atomic
def free_hold(*, instance_id: uuid.UUID, now: datetime) -> None:
    """Give the instance's pending hold back; nothing happens if there is none. Locks the wallet."""
    pending = Hold.objects.filter(instance_id=instance_id, state=Hold.State.PENDING)
    tenant_id = pending.values_list("tenant_id", flat=True).first()
    if tenant_id is None:
        return
    (wallet,) = lock_wallets([tenant_id])
    if (hold := pending.first()) is None:  # freed while we waited for the wallet
        return
    hold.state, hold.freed_at = Hold.State.FREED, now
    hold.save(update_fields=["state", "freed_at"])
    wallet.held -= hold.amount
    wallet.save(update_fields=["held"])


def place_anew(wallets: list[Wallet]) -> None:
    """
    Fit the pending holds of the locked wallets to what settle has left: an hour of burn each,
    the oldest first. Changes rows and, in memory, ``held``.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH anew AS (
                SELECT h.id, h.tenant_id, h.amount AS was, GREATEST(0, LEAST(
                    h.burn,
                    w.posted + w.credit_limit + h.burn - sum(h.burn) OVER (
                        PARTITION BY h.tenant_id ORDER BY h.placed_at, h.id)
                ))::bigint AS amount
                FROM billing_hold h JOIN billing_wallet w ON w.tenant_id = h.tenant_id
                WHERE w.id = ANY(%s) AND h.state = 'pending'
            ), changed AS (
                UPDATE billing_hold h SET amount = anew.amount
                FROM anew WHERE h.id = anew.id AND anew.amount <> anew.was
                RETURNING h.tenant_id
            ), total AS (
                SELECT tenant_id, sum(amount)::bigint AS held FROM anew GROUP BY tenant_id
            )
            UPDATE billing_wallet w SET held = total.held FROM total
            WHERE w.tenant_id = total.tenant_id AND w.id = ANY(%s) AND w.held <> total.held
            RETURNING w.id, w.held
            """,
            [[w.id for w in wallets], [w.id for w in wallets]],
        )
        held = dict(cursor.fetchall())
    for wallet in wallets:
        wallet.held = held.get(wallet.id, wallet.held)
