"""Wallets: open, lock, credit, read."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection, transaction

from billing.errors import TransferKeyReused
from billing.models import Account, Transfer, Wallet
from billing.services import ledger
from billing.services.due import unposted_of
from billing.services.reckon import reckon
from rental.records.audit import Actor, record_event
from rental.records.ids import new_id, to_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """
    A wallet at ``as_of``; amounts in micro-units. ``unposted``: an estimate of what is proven and
    not yet charged. ``available`` = posted + credit limit − unposted; ``held`` guards starts only.
    """

    posted: int
    held: int
    unposted: int
    available: int
    credit_limit: int
    burn_per_hour: int
    exhausts_at: datetime | None
    currency: str
    as_of: datetime


@transaction.atomic
def open_wallet(*, tenant_id: uuid.UUID, now: datetime) -> Wallet:
    """Return the tenant's cash wallet, made on first use with its two accounts."""
    del now  # a wallet has no birthday; services take it all the same
    currency = settings.BILLING_CURRENCY
    found = Wallet.objects.of(tenant_id).filter(kind=Wallet.Kind.CASH, currency=currency)
    if (wallet := found.first()) is not None:
        return wallet
    ledger.open_account(Account.Kind.RECEIVABLE, tenant_id=tenant_id)
    account = ledger.open_account(Account.Kind.CASH, tenant_id=tenant_id)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_wallet (id, tenant_id, kind, currency, scope, account_id, posted,"
            " held, credit_limit, burn) VALUES (%s, %s, 'cash', %s, '', %s, 0, 0, 0, 0)"
            " ON CONFLICT (tenant_id, kind, currency) DO NOTHING",
            [new_id(), tenant_id, currency, account],
        )
    return found.get()


def lock_wallet(*, tenant_id: uuid.UUID, now: datetime) -> Wallet:
    """Return the tenant's wallet, locked: the first lock of whoever touches money or instances."""
    open_wallet(tenant_id=tenant_id, now=now)
    return lock_wallets([tenant_id])[0]


def lock_wallets(tenant_ids: Iterable[uuid.UUID], *, skip_locked: bool = False) -> list[Wallet]:
    """Lock the cash wallets of the tenants in order of tenant."""
    return list(
        Wallet.objects.filter(
            tenant_id__in=list(tenant_ids),
            kind=Wallet.Kind.CASH,
            currency=settings.BILLING_CURRENCY,
        )
        .order_by("tenant_id")
        .select_for_update(no_key=True, skip_locked=skip_locked)
    )


@transaction.atomic
def credit(
    *, tenant_id: uuid.UUID, amount: int, reason: str, actor: Actor, key: str, now: datetime
) -> Transfer:
    """
    Put ``amount`` micro-units into the tenant's wallet; arrears are paid from it first.

    Asking again with the same ``key`` returns the first transfer and changes nothing.

    :raises ValueError: if the amount is not positive or there is no reason
    :raises TransferKeyReused: if the key belongs to another transfer
    """
    if amount <= 0:
        raise ValueError("a credit is a positive amount")
    if not reason.strip():
        raise ValueError("a credit has a reason")
    wallet = lock_wallet(tenant_id=tenant_id, now=now)
    if (known := Transfer.objects.filter(key=key).first()) is not None:
        if (known.credit_id, known.amount, known.code) != (wallet.account_id, amount, "credit"):
            raise TransferKeyReused(key)
        return known
    before = wallet.posted
    transfer = ledger.pay_in(
        wallet,
        source=Account.Kind.ISSUED,
        amount=amount,
        key=key,
        code="credit",
        reason=reason,
        now=now,
    )
    reckon([wallet], now=now)
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="wallet.credited",
        subject=to_text("trf", transfer.id),
        before={"posted": before},
        after={"posted": wallet.posted, "amount": amount, "reason": reason},
        now=now,
    )
    return transfer


def read_balance(*, tenant_id: uuid.UUID, now: datetime) -> Balance:
    """Return the balance with its estimate; nothing of everything before money was first moved."""
    currency = settings.BILLING_CURRENCY
    wallets = Wallet.objects.of(tenant_id).filter(kind=Wallet.Kind.CASH, currency=currency)
    wallet = wallets.first() or Wallet(tenant_id=tenant_id, currency=currency)
    unposted = unposted_of([tenant_id]).get(tenant_id, 0)
    return Balance(
        posted=wallet.posted,
        held=wallet.held,
        unposted=unposted,
        available=wallet.posted + wallet.credit_limit - unposted,
        credit_limit=wallet.credit_limit,
        burn_per_hour=wallet.burn,
        exhausts_at=wallet.exhausts_at,
        currency=wallet.currency,
        as_of=now,
    )
