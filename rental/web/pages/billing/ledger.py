"""The ledger: every movement of money, with the balance before and after it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.db.models import QuerySet
from django.http import HttpResponse

from billing.models import Transfer
from billing.queries import LedgerLine, list_transfers, read_ledger
from rental.records import ids
from rental.records.paging import ForeignCursor, Key, take_page
from rental.web.exports import Cell, amount, csv_answer, moments, read_all
from rental.web.pages.billing.tabs import Tab, movement_words, tabs_of
from rental.web.periods import Days, read_days
from rental.web.visit import Visit, page

PAGE_ROWS: Final = 50
NEWEST: Final[Key] = ("id",)

COLUMNS: Final = (
    "time", "time_utc", "code", "kind", "change", "balance_before", "balance_after", "amount",
    "currency", "reason", "id", "reverses",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LineShown:
    """``owed``: what the movement added to what is owed, where it passed the wallet by."""

    line: LedgerLine
    words: str
    text_id: str

    @property
    def owed(self) -> int:
        return self.line.transfer.amount if self.line.transfer.code == "usage_arrears" else 0


@dataclass(frozen=True, kw_only=True)
class LedgerContext:
    lines: list[LineShown]
    days: Days
    next: str
    first: str
    csv: str
    tabs: list[Tab]
    tab: str = "transfers"
    nav: str = "billing"


def _query(days: Days, **more: str) -> str:
    chosen = {"from": days.first, "until": days.last, **more}
    text = urlencode({name: value for name, value in chosen.items() if value})
    return f"?{text}" if text else ""


def _find(visit: Visit, days: Days) -> QuerySet[Transfer]:
    found = list_transfers(tenant_id=visit.tenant.id)
    if days.since:
        found = found.filter(effective_at__gte=days.since)
    if days.until:
        found = found.filter(effective_at__lt=days.until)
    return found


@page("billing:read")
def show_transfers(visit: Visit) -> HttpResponse:
    days = read_days(visit.request.GET, ZoneInfo(visit.tenant.time_zone))
    cursor = visit.request.GET.get("after") or None
    try:
        found = take_page(
            _find(visit, days),
            key=NEWEST,
            descending=True,
            limit=PAGE_ROWS,
            cursor=cursor,
            scope=f"console:transfers:{visit.tenant.id}:{_query(days)}",
        )
    except ForeignCursor:  # a link of before the days were changed
        return visit.redirect(f"{visit.home}billing/transfers{_query(days)}")
    here = f"{visit.home}billing/transfers"
    return visit.render(
        "web/billing/ledger.html",
        LedgerContext(
            lines=[
                LineShown(
                    line=line,
                    words=movement_words(line.transfer.code),
                    text_id=ids.to_text("trf", line.transfer.id),
                )
                for line in read_ledger(found.rows)
            ],
            days=days,
            next=here + _query(days, after=found.next_cursor) if found.next_cursor else "",
            first=here + _query(days) if cursor else "",
            csv=f"{here}.csv{_query(days)}",
            tabs=tabs_of(visit),
        ),
    )


@page("billing:read")
def download_transfers(visit: Visit) -> HttpResponse:
    zone = ZoneInfo(visit.tenant.time_zone)
    days = read_days(visit.request.GET, zone)
    name = "-".join(part for part in ("ledger", visit.tenant.slug, days.first, days.last) if part)
    return csv_answer(
        visit.request,
        name=f"{name}.csv",
        header=COLUMNS,
        batches=(_cells(rows, zone) for rows in read_all(_find(visit, days), key=NEWEST)),
    )


def _cells(transfers: list[Transfer], zone: ZoneInfo) -> Iterator[tuple[Cell, ...]]:
    for line in read_ledger(transfers):
        transfer = line.transfer
        yield (
            *moments(transfer.effective_at, zone),
            transfer.code,
            movement_words(transfer.code),
            amount(line.change),
            amount(line.before),
            amount(line.after),
            amount(transfer.amount),
            transfer.debit.currency,
            transfer.reason,
            ids.to_text("trf", transfer.id),
            ids.to_text("trf", transfer.reverses_id) if transfer.reverses_id else "",
        )
