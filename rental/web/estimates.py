"""What an order would cost, as the launch page shows it: by the quote that create takes."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from billing.core.gate import held_for_several, least_for_several
from billing.core.money import round_half_up
from billing.core.rating import price_of_ticks
from billing.errors import InsufficientBalance, TenantInArrears
from billing.services.ledger import arrears_of
from billing.services.wallets import Balance, read_balance
from rental.catalog.models import Market, Quote
from rental.catalog.queries import stocks_of
from rental.catalog.services import keep_or_make_quote, lasts_s
from rental.refusals import Refusal
from rental.web.forms.launch import Order
from scheduler.queries import Stock

HOURS_PER_DAY: Final = 24
HOURS_PER_MONTH: Final = 30 * HOURS_PER_DAY  # a help to compare by; months are billed as they are
LONGEST: Final = timedelta(days=366)  # beyond it an instant says nothing


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """
    Amounts in micro-units, for the whole order. ``stands_for``: the fields that it answers for.

    ``quote``: None if there is nothing to quote; then ``refusal`` says why. ``refusal`` beside a
    quote: the price is known, but the order would be refused. ``held``: None if too little is left.
    """

    stands_for: str
    quote: Quote | None = None
    refusal: Refusal | None = None
    stock: Stock | None = None
    balance: Balance | None = None
    held: int | None = None
    lasts_s: int | None = None
    lasts_until: datetime | None = None
    max_duration_s: int | None = None

    @property
    def can_launch(self) -> bool:
        return self.quote is not None and self.refusal is None

    @property
    def per_hour(self) -> int:
        return self.quote.total_per_hour if self.quote else 0

    @property
    def per_day(self) -> int:
        return self.per_hour * HOURS_PER_DAY

    @property
    def per_month(self) -> int:
        return self.per_hour * HOURS_PER_MONTH

    @property
    def per_tick(self) -> int:
        """Return what the first tick of one instance costs."""
        return price_of_ticks(1, price=self.quote.price, share=Fraction(1)) if self.quote else 0

    @property
    def at_most(self) -> int | None:
        """Return what the order costs until the timer stops it; None without one."""
        if self.max_duration_s is None:
            return None
        return round_half_up(Fraction(self.per_hour * self.max_duration_s, 3600))

    @property
    def starting_now(self) -> int:
        """Return how many of the order can be placed now, as far as anybody can tell."""
        if self.quote is None or self.stock is None:
            return 0
        if self.stock.is_at_least:
            return self.quote.count
        return min(self.quote.count, self.stock.available)

    @property
    def queued(self) -> int:
        return self.quote.count - self.starting_now if self.quote else 0

    @property
    def needed(self) -> int:
        """Return what must be free for the order to be taken."""
        if self.quote is None:
            return 0
        return least_for_several(self.quote.price, count=self.quote.count)


def estimate(
    order: Order,
    *,
    tenant_id: uuid.UUID,
    quote_id: uuid.UUID | None,
    stands_for: str,
    refusal_of: Callable[[Exception], Refusal | None],
    now: datetime,
) -> Estimate:
    """
    Return what the order would cost, with the quote that fixes the price for ten minutes.

    What the catalogue refuses becomes ``refusal``: the page says it where the price would stand.
    """
    try:
        quote = keep_or_make_quote(
            tenant_id=tenant_id,
            quote_id=quote_id,
            offer_code=order.offer,
            market=Market.ON_DEMAND,
            image_code=order.image,
            count=order.count,
            now=now,
        )
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return Estimate(stands_for=stands_for, refusal=refusal)
    balance = read_balance(tenant_id=tenant_id, now=now)
    stock = stocks_of([quote.offer], tenant_id=tenant_id, now=now)[quote.offer_id]
    lasts = lasts_s(
        available=balance.available, burn_per_hour=balance.burn_per_hour + quote.total_per_hour
    )
    return Estimate(
        stands_for=stands_for,
        quote=quote,
        refusal=_gate(quote, balance, refusal_of=refusal_of),
        stock=stock,
        balance=balance,
        held=held_for_several(
            quote.price, count=quote.count, left=balance.available - balance.held
        ),
        lasts_s=lasts,
        lasts_until=_instant(now, lasts),
        max_duration_s=order.max_duration_s,
    )


def _gate(
    quote: Quote, balance: Balance, *, refusal_of: Callable[[Exception], Refusal | None]
) -> Refusal | None:
    """Return why billing would refuse the order now, None if it would not."""
    if owed := arrears_of([quote.tenant_id]).get(quote.tenant_id, 0):
        return refusal_of(TenantInArrears(owed))
    left = balance.available - balance.held
    if held_for_several(quote.price, count=quote.count, left=left) is None:
        needed = least_for_several(quote.price, count=quote.count)
        return refusal_of(InsufficientBalance(needed=needed, available=max(0, left)))
    return None


def _instant(now: datetime, seconds: int | None) -> datetime | None:
    if seconds is None or seconds > LONGEST.total_seconds():
        return None
    return now + timedelta(seconds=seconds)
