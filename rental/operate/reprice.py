"""Many prices at once, by a percentage: what each becomes, and publishing all of them or none."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from billing.core.money import round_half_up
from billing.services.prices import publish_price
from rental.operate.forms import LARGEST_PRICE
from rental.operate.prices import Priced, fault_of
from rental.records.audit import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A price before and after, in micro-units. ``fault``: why it cannot be; "" if it can."""

    priced: Priced
    before: int
    after: int
    fault: Any

    @property
    def amount(self) -> int:
        return self.after - self.before


def changed(price: int, *, percent: Decimal, rounding: int) -> int:
    """
    Return what a price becomes, to the next multiple of ``rounding``.

        round_half_up(price [micro-units/h] x (100 + percent) / 100 / rounding) x rounding
    """
    exact = Fraction(price) * (100 + Fraction(percent)) / 100
    return round_half_up(exact / rounding) * rounding


def changes_of(
    rows: Iterable[Priced], *, percent: Decimal, rounding: int, begins_at: datetime, now: datetime
) -> list[Change]:
    """Return what becomes of each row; those that have no price are left out."""
    return [
        _change(
            row,
            row.before,
            changed(row.before, percent=percent, rounding=rounding),
            begins_at=begins_at,
            now=now,
        )
        for row in rows
        if row.before is not None
    ]


def _change(row: Priced, before: int, after: int, *, begins_at: datetime, now: datetime) -> Change:
    words: Any = ""
    if after == 0 and before:
        words = _("It would cost nothing.")
    elif after > LARGEST_PRICE:
        words = _("It would be more than 1,000,000.")
    elif after != before:
        fault = fault_of(row, after, begins_at=begins_at, now=now)
        words = fault[1] if fault else ""
    return Change(priced=row, before=before, after=after, fault=words)


def fingerprint(changes: Sequence[Change]) -> str:
    """Return what a look showed, in short: a second look at other prices differs."""
    shown = "|".join(f"{one.priced.key} {one.before} {one.after}" for one in changes)
    return hashlib.sha256(shown.encode()).hexdigest()


@transaction.atomic
def publish_changes(
    changes: Sequence[Change], *, begins_at: datetime, actor: Actor, now: datetime
) -> int:
    """
    Publish each price that changes, as one is published alone; return how many.

    :raises PriceNotAllowed: if one of them is refused; then none is published
    """
    moving = [one for one in changes if one.amount]
    for one in sorted(moving, key=lambda change: change.priced.key):  # the order of their locks
        publish_price(
            price_key=one.priced.key,
            currency=settings.BILLING_CURRENCY,
            price=one.after,
            effective_at=begins_at,
            actor=actor,
            now=now,
        )
    return len(moving)
