"""Days and months in addresses: ``from``, ``until`` (a day, included) and ``month``."""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.http import QueryDict


@dataclass(frozen=True, kw_only=True, slots=True)
class Days:
    """What a list is narrowed to: [since, until). The texts are what the form shows again."""

    since: datetime | None = None
    until: datetime | None = None
    first: str = ""
    last: str = ""


def read_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if 1971 <= day.year <= 9000 else None


def read_days(query: QueryDict, zone: ZoneInfo) -> Days:
    """Return the days of the tenant's calendar that were asked for; nonsense narrows nothing."""
    first, last = read_day(query.get("from", "")), read_day(query.get("until", ""))
    return Days(
        since=_midnight(first, zone) if first else None,
        until=_midnight(last + timedelta(days=1), zone) if last else None,
        first=first.isoformat() if first else "",
        last=last.isoformat() if last else "",
    )


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def read_month(text: str, *, otherwise: date) -> date:
    """Return the first day of the month "2026-03"."""
    day = read_day(f"{text}-01") if re.fullmatch(r"\d{4}-\d{2}", text) else None
    return day or otherwise


def months_back(latest: date, *, since: date) -> list[date]:
    """Return the months from ``latest`` back to the one of ``since``, at most three years."""
    months = [latest.replace(day=1)]
    while months[-1] > since and len(months) < 36:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months
