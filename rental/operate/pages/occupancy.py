"""Occupancy and revenue, as a page and as CSV."""

import csv
from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from billing.core.money import format_micro
from rental.operate.occupancy import DEFINITIONS, PERIODS, Line, Report, report
from rental.operate.page import show, staff_page
from rental.operate.words import card_hours
from rental.records.clock import database_now

READ = "billing:read"


def _asked(request: HttpRequest, *, now: datetime) -> tuple[str, Report]:
    name = request.GET.get("period", "day")
    name = name if name in PERIODS else "day"
    return name, report(since=now - PERIODS[name][1], until=now)


@staff_page(READ)
def occupancy(request: HttpRequest) -> HttpResponse:
    period, found = _asked(request, now=database_now())
    return show(
        request,
        "occupancy.html",
        title=_("Occupancy and revenue"),
        report=found,
        period=period,
        periods=PERIODS,
        definitions=DEFINITIONS,
        currency=settings.BILLING_CURRENCY,
    )


HEADER = (
    "node", "gpu_model", "cards", "idle_cards_now", "held_cards_now", "card_hours_available",
    "card_hours_sold", "revenue", "revenue_per_card_hour_sold", "revenue_per_card_hour_available",
    "currency", "since", "until",
)  # fmt: skip


@staff_page(READ)
def occupancy_csv(request: HttpRequest) -> HttpResponse:
    """One row for each model on each node; money with all its six decimal places."""
    period, found = _asked(request, now=database_now())
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="occupancy-{period}.csv"'
    writer = csv.writer(response)
    writer.writerow(HEADER)
    writer.writerows(_rows(found))
    return response


def _rows(found: Report) -> Iterator[list[object]]:
    for line in found.nodes:
        yield [
            line.node,
            line.model,
            line.cards,
            line.idle,
            f"{line.held // 10}.{line.held % 10}",
            card_hours(line.available).replace(",", ""),
            card_hours(line.sold).replace(",", ""),
            format_micro(line.revenue),
            _micro(line.per_sold),
            _micro(line.per_available),
            settings.BILLING_CURRENCY,
            found.since.isoformat(),
            found.until.isoformat(),
        ]


def _micro(amount: int | None) -> str:
    return "" if amount is None else format_micro(amount)


__all__ = ["HEADER", "Line", "occupancy", "occupancy_csv"]
