"""Accounts and single transfers. Wallet rows are locked by whoever calls."""

import uuid
from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import connection

from billing.models import Account, Transfer, Wallet
from rental.records.ids import new_id


def open_account(kind: str, *, tenant_id: uuid.UUID | None = None) -> uuid.UUID:
    """Return the account of this kind, made on first use."""
    currency = settings.BILLING_CURRENCY
    found = Account.objects.filter(kind=kind, tenant=tenant_id, currency=currency)
    if (known := found.values_list("id", flat=True).first()) is not None:
        return known
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_account (id, tenant_id, kind, currency) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (tenant_id, kind, currency) DO NOTHING",
            [new_id(), tenant_id, kind, currency],
        )
    return found.values_list("id", flat=True).get()


def arrears_of(tenant_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return what tenants owe beyond their wallets, micro-units; who owes nothing is left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT a.tenant_id, (
                COALESCE((SELECT sum(amount) FROM billing_transfer WHERE debit_id = a.id), 0)
              - COALESCE((SELECT sum(amount) FROM billing_transfer WHERE credit_id = a.id), 0)
            )::bigint AS owed
            FROM billing_account a
            WHERE a.kind = 'receivable' AND a.tenant_id = ANY(%s)
            """,
            [list(tenant_ids)],
        )
        return {tenant: owed for tenant, owed in cursor.fetchall() if owed}


def pay_in(
    wallet: Wallet,
    *,
    source: str,
    amount: int,
    key: str,
    code: str,
    reason: str,
    now: datetime,
    group_id: uuid.UUID | None = None,
) -> Transfer:
    """
    Move money from an operator's account into the locked wallet, and from there at once to what
    the tenant owes. Changes ``wallet.posted`` in memory and in the database.
    """
    group_id = group_id or new_id()
    transfer = Transfer.objects.create(
        tenant_id=wallet.tenant_id,
        key=key,
        debit_id=open_account(source),
        credit_id=wallet.account_id,
        amount=amount,
        code=code,
        reason=reason,
        group_id=group_id,
        effective_at=now,
    )
    wallet.posted += amount
    owed = arrears_of([wallet.tenant_id]).get(wallet.tenant_id, 0)
    paid = min(owed, max(0, wallet.posted + wallet.credit_limit))
    if paid > 0:
        Transfer.objects.create(
            tenant_id=wallet.tenant_id,
            key=f"{key}/arrears",
            debit_id=wallet.account_id,
            credit_id=open_account(Account.Kind.RECEIVABLE, tenant_id=wallet.tenant_id),
            amount=paid,
            code="arrears_paid",
            group_id=group_id,
            effective_at=now,
        )
        wallet.posted -= paid
    wallet.save(update_fields=["posted"])
    return transfer
