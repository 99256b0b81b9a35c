"""
What the cards earned: card-hours that were available, sold and held, and revenue for each.

Counted in tenth-ticks (a tenth of a card for 6 s) and in micro-units, both whole numbers, so that
the lines add up to the totals and the totals to the ledger. Definitions: ``DEFINITIONS``, which
the page shows.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from django.db import connection
from django.utils.translation import gettext_lazy as _

from billing.core.money import round_half_up
from billing.core.ticks import TICK
from rental.operate.words import TENTH_TICKS_PER_CARD_HOUR
from scheduler.core.shapes import CELLS
from scheduler.models import Gpu, GpuHealth

PERIODS: Final[dict[str, tuple[Any, timedelta]]] = {
    "day": (_("24 hours"), timedelta(days=1)),
    "week": (_("7 days"), timedelta(days=7)),
    "month": (_("30 days"), timedelta(days=30)),
}

DEFINITIONS: Final[list[tuple[Any, Any]]] = [
    (
        _("Card-hours available"),
        _(
            "Each card that its node reports now, for every hour since the node was enrolled. Time "
            "in which a node was down or cordoned is in it: nothing writes that down yet."
        ),
    ),
    (
        _("Card-hours sold"),
        _(
            "Metered ticks that were charged in the period, times the part of a card that the "
            "offer sells. Time given back is taken off. What runs now is charged once an hour, so "
            "the last hour may be missing."
        ),
    ),
    (
        _("Revenue"),
        _(
            "Charges booked in the period less those reversed in it, to the millionth. It is what "
            "the ledger's revenue account moved by, also where a tenant paid with operator credit "
            "or still owes it."
        ),
    ),
    (
        _("Revenue per card-hour sold, and per card-hour available"),
        _(
            "The first says what customers pay on average; the second what a card in the rack "
            "earns, with its idle time. Compare the second with what the card costs you an hour."
        ),
    ),
    (
        _("Held now, idle now"),
        _(
            "Tenths of cards that are placed at this moment, also while they start or stop. A card "
            "is idle when it is healthy and nobody holds any part of it."
        ),
    ),
]


@dataclass(slots=True, kw_only=True)
class Line:
    """One model, or one model on one node. Hours in tenth-ticks, money in micro-units."""

    model: str
    node: str = ""
    cards: int = 0
    idle: int = 0
    held: int = 0  # tenths of cards
    available: Fraction = field(default_factory=Fraction)
    sold: Fraction = field(default_factory=Fraction)
    revenue: int = 0

    def add(self, other: "Line") -> None:
        self.cards += other.cards
        self.idle += other.idle
        self.held += other.held
        self.available += other.available
        self.sold += other.sold
        self.revenue += other.revenue

    @property
    def per_sold(self) -> int | None:
        return _per_hour(self.revenue, self.sold)

    @property
    def per_available(self) -> int | None:
        return _per_hour(self.revenue, self.available)


def _per_hour(revenue: int, tenth_ticks: Fraction) -> int | None:
    if tenth_ticks <= 0:
        return None
    return round_half_up(max(0, revenue) * TENTH_TICKS_PER_CARD_HOUR / tenth_ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    since: datetime
    until: datetime
    total: Line
    models: list[Line]
    nodes: list[Line]


def report(*, since: datetime, until: datetime) -> Report:
    """Return the figures of charges booked in [since, until). Three queries."""
    lines: dict[tuple[str, str], Line] = {}

    def line(node: str, model: str) -> Line:
        return lines.setdefault((node, model), Line(node=node, model=model))

    held = _held_tenths()
    gpus = Gpu.objects.exclude(health=GpuHealth.MISSING).select_related("model", "node")
    for gpu in gpus.only(
        "health", "model__name", "model__memory_mib", "node__name", "node__created_at"
    ):
        one = line(gpu.node.name, str(gpu.model))
        tenths = held.get(gpu.id, 0)
        one.cards += 1
        one.held += tenths
        one.idle += not tenths and gpu.health == GpuHealth.HEALTHY
        one.available += _tenth_ticks(until - max(since, gpu.node.created_at))
    for node, model, sold, revenue in _booked(since=since, until=until):
        one = line(node, model)
        one.sold += sold
        one.revenue += revenue
    ordered = [lines[key] for key in sorted(lines)]
    total = Line(model="")
    for one in ordered:
        total.add(one)
    return Report(since=since, until=until, total=total, models=_by_model(ordered), nodes=ordered)


def _by_model(lines: Iterable[Line]) -> list[Line]:
    models: defaultdict[str, Line] = defaultdict(lambda: Line(model=""))
    for one in lines:
        models[one.model].model = one.model
        models[one.model].add(one)
    return [models[name] for name in sorted(models)]


def _tenth_ticks(time: timedelta) -> Fraction:
    micro = timedelta(microseconds=1)
    return Fraction(max(0, time // micro) * CELLS, TICK // micro)


def _held_tenths() -> dict[Any, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT s.gpu_id, sum(upper(part) - lower(part))::int
            FROM scheduler_slice s CROSS JOIN LATERAL unnest(s.cells) AS part
            WHERE s.released_at IS NULL GROUP BY s.gpu_id
            """
        )
        return dict(cursor.fetchall())


def _booked(*, since: datetime, until: datetime) -> list[tuple[str, str, Fraction, int]]:
    """Return (node, model, tenth-ticks, micro-units) of what was charged less what was reversed."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH booked AS (
                SELECT run_id, sum(upper(units) - lower(units)) AS ticks, sum(amount) AS amount
                FROM billing_charge
                WHERE created_at >= %(since)s AND created_at < %(until)s AND component = 'compute'
                GROUP BY run_id
                UNION ALL
                SELECT run_id, sum(lower(units) - upper(units)), -sum(amount)
                FROM billing_reversal
                WHERE created_at >= %(since)s AND created_at < %(until)s
                GROUP BY run_id
            )
            SELECT COALESCE(node.name, ''), COALESCE(o.gpu_model_name, ''),
                   COALESCE(o.gpu_memory_mib, 0),
                   -- Of a MIG instance: the part of the card's memory; exact, in numeric.
                   sum(ticks * CASE WHEN o.slice = 'mig' THEN o.vram_mib * 10 ELSE
                       COALESCE(o.count * o.tenths, 0) * COALESCE(o.gpu_memory_mib, 1) END),
                   sum(amount)
            FROM booked
            JOIN billing_run r ON r.id = booked.run_id
            LEFT JOIN scheduler_node node ON node.id = r.reporter
            LEFT JOIN rental_instance i ON i.id = r.instance_id
            LEFT JOIN rental_offer o ON o.code = i.offer_id
            GROUP BY 1, 2, 3
            """,
            {"since": since, "until": until},
        )
        return [
            (
                node,
                f"{name} {memory_mib // 1024} GiB" if name else "",
                Fraction(int(weighed), memory_mib or 1),
                int(amount),
            )
            for node, name, memory_mib, weighed, amount in cursor.fetchall()
        ]
