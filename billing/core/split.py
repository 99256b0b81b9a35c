"""
The cut of a run's ticks by segment, price version and month. Pure.

``billing.services.settle`` does the same for thousands of runs in one SQL statement; this module
says what that statement must give (tests compare them) and is what the audit re-derives with.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

from billing.core.rating import price_between
from billing.core.ticks import start_of_tick, tick_at

Ticks = tuple[int, int]  # half-open, not empty


@dataclass(frozen=True)
class PricedFrom:
    """A price version: ``price`` (micro-units an hour) during [since, until)."""

    id: object
    price_key: str
    price: int
    since: datetime
    until: datetime | None


@dataclass(frozen=True)
class SegmentShape:
    id: object
    price_key: str
    share: Fraction
    from_tick: int
    until_tick: int | None


class Piece(NamedTuple):
    """Ticks that one charge can name. ``before``: ticks counted earlier under the same price."""

    segment: object
    version: object
    period: date
    ticks: Ticks
    before: int
    amount: int


def period_of(instant: datetime, zone: ZoneInfo) -> date:
    """Return the first day of the month, in the deployment's zone, to which ``instant`` belongs."""
    return instant.astimezone(zone).date().replace(day=1)


def end_of_period(period: date, zone: ZoneInfo) -> datetime:
    """Return the instant at which the next month begins."""
    year, month = (period.year + 1, 1) if period.month == 12 else (period.year, period.month + 1)
    return datetime(year, month, 1, tzinfo=zone)


def meet(a: Ticks, b: tuple[int, int | None]) -> Ticks | None:
    """Return the common part of two ranges, None if there is none."""
    first, last = max(a[0], b[0]), a[1] if b[1] is None else min(a[1], b[1])
    return (first, last) if first < last else None


def union(ranges: Iterable[Ticks]) -> list[Ticks]:
    """Return the same ticks as few ranges in order."""
    merged: list[Ticks] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def subtract(ranges: Sequence[Ticks], taken: Iterable[Ticks]) -> list[Ticks]:
    """Return the ticks of ``ranges`` that are not in ``taken``."""
    left = union(ranges)
    for start, end in taken:
        cut: list[Ticks] = []
        for first, last in left:
            cut += [r for r in ((first, min(last, start)), (max(first, end), last)) if r[0] < r[1]]
        left = cut
    return left


def count(ranges: Iterable[Ticks]) -> int:
    return sum(last - first for first, last in ranges)


def _months(started_at: datetime, ticks: Ticks, zone: ZoneInfo) -> list[tuple[date, Ticks]]:
    """Cut a range where months begin; a tick belongs to the month in which it starts."""
    first, last = ticks
    cut = []
    while first < last:
        period = period_of(start_of_tick(started_at, first), zone)
        edge = min(last, tick_at(started_at, end_of_period(period, zone)))
        cut.append((period, (first, edge)))
        first = edge
    return cut


def split(
    due: Sequence[Ticks],
    *,
    charged: Sequence[Ticks],
    started_at: datetime,
    segments: Sequence[SegmentShape],
    versions: Sequence[PricedFrom],
    zone: ZoneInfo,
) -> list[Piece]:
    """
    Price the due ticks of one run. Ticks without a price are left out: they stay due.

    The amounts continue F from the ticks charged before under the same segment and version, so
    that any cut and any order give the same total.
    """
    pieces = []
    for segment in segments:
        for version in versions:
            if version.price_key != segment.price_key:
                continue
            since = tick_at(started_at, version.since)
            until = None if version.until is None else tick_at(started_at, version.until)
            wide = meet((segment.from_tick, 2**62), (since, until))
            reach = wide and meet(wide, (segment.from_tick, segment.until_tick))
            if reach is None:
                continue
            before = count(r for c in charged if (r := meet(c, reach)))
            for due_range in union(due):
                if (part := meet(due_range, reach)) is None:
                    continue
                for period, ticks in _months(started_at, part, zone):
                    n = ticks[1] - ticks[0]
                    amount = price_between(
                        before, before + n, price=version.price, share=segment.share
                    )
                    pieces.append(Piece(segment.id, version.id, period, ticks, before, amount))
                    before += n
    return pieces
