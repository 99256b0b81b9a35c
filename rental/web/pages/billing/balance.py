"""The balance: what is there, what it is for, until when it lasts, how more comes in."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpResponse

from billing.models import Wallet
from billing.month import Spending, spend_month
from billing.queries import list_pots
from billing.services.ledger import arrears_of
from billing.services.wallets import Balance, read_balance
from rental.web.pages.billing.tabs import Tab, tabs_of
from rental.web.visit import Visit, page

# When beat settles: config/celery.py, "billing.settle" (a test compares).
SETTLE_MINUTE = 7


def next_settle(now: datetime) -> datetime:
    """Return when usage is next charged, apart from what stops before."""
    at = now.replace(minute=SETTLE_MINUTE, second=0, microsecond=0)
    return at if at > now else at + timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Money:
    """
    All figures about a tenant's money that pages show, read at ``balance.as_of``. Amounts in
    micro-units. ``owed``: beyond the wallets. ``gifts``: pots that are no cash.
    """

    balance: Balance
    gifts: list[Wallet]
    owed: int
    settled_at: datetime | None

    @property
    def unposted_out(self) -> int:
        """The estimate as what it does to the sum."""
        return -self.balance.unposted

    @property
    def left_s(self) -> int | None:
        """Seconds until the money ends; None if nothing burns it."""
        ends = self.balance.exhausts_at
        return None if ends is None else int((ends - self.balance.as_of).total_seconds())

    @property
    def is_over(self) -> bool:
        return self.left_s is not None and self.left_s <= 0

    @property
    def is_near(self) -> bool:
        """So near that the day of the week says which day."""
        return self.left_s is not None and self.left_s < 6 * 86_400

    @property
    def is_short(self) -> bool:
        """Under a day: the ladder of notices has begun to be urgent."""
        return self.left_s is not None and self.left_s <= 86_400


def read_money(visit: Visit) -> Money:
    """
    Read the balance as the API does. The end of the money is the row's ``exhausts_at``, at which
    billing closes the runs; it is computed nowhere else.
    """
    balance = read_balance(tenant_id=visit.tenant.id, now=visit.now)
    pots = list_pots(tenant_id=visit.tenant.id)
    return Money(
        balance=balance,
        gifts=[pot for pot in pots if pot.kind != Wallet.Kind.CASH],
        owed=arrears_of([visit.tenant.id]).get(visit.tenant.id, 0),
        settled_at=next((pot.settled_at for pot in pots if pot.kind == Wallet.Kind.CASH), None),
    )


@dataclass(frozen=True, kw_only=True)
class BalanceContext:
    balance: Balance
    money: Money
    spending: Spending
    next_settle_at: datetime
    tabs: list[Tab]
    tab: str = "balance"
    nav: str = "billing"


@page("billing:read")
def show_balance(visit: Visit) -> HttpResponse:
    money = read_money(visit)
    return visit.render(
        "web/billing/balance.html",
        BalanceContext(
            balance=money.balance,
            money=money,
            spending=spend_month(tenant_id=visit.tenant.id, now=visit.now),
            next_settle_at=next_settle(visit.now),
            tabs=tabs_of(visit),
        ),
    )
