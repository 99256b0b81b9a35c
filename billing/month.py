"""
What a month has cost: up to now, and by instance, project or day. Reads only.

Months and days are cut by BILLING_TIME_ZONE, as the charges themselves. A charge that a cut goes
through is spread evenly over its ticks and the running share is rounded, so that parts add up to
their charge, and every grouping of a month to the same total, to the last micro-unit.
"""

import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal, TypedDict
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from billing.core.split import end_of_period, period_of
from billing.models import Charge, Reversal
from billing.queries import list_charges
from billing.services.due import unposted_by_period
from rental.records.ids import first_id_at

Grouping = Literal["instance", "project", "day"]

# Ids of charges begin with the time at which they were made, which is after their ticks. They are
# what the index of a tenant's charges is ordered by, so that a month reads no more than it must;
# the slack is for clocks.
_SLACK: Final = timedelta(days=1)

# Charged ticks, and those that were given back, of the tenant's charges since ``oldest``.
_LINES: Final = """
WITH line AS (
    SELECT c.run_id, c.project_id, c.period, c.units, c.amount, 1 AS sign
    FROM billing_charge c
    WHERE c.tenant_id = %(tenant)s AND c.id >= %(oldest)s AND c.period = ANY(%(periods)s)
    UNION ALL
    SELECT c.run_id, c.project_id, c.period, v.units, v.amount, -1
    FROM billing_reversal v JOIN billing_charge c ON c.id = v.charge_id
    WHERE v.tenant_id = %(tenant)s AND v.id >= %(oldest)s AND c.period = ANY(%(periods)s)
)"""

# The share of the first k of n ticks, half up: div(2 * amount * k + n, 2n).
_BEFORE: Final = """
SELECT line.*, div(2::numeric * amount * k + n, 2::numeric * n) AS share FROM (
    SELECT line.*, upper(units) - lower(units) AS n,
           GREATEST(0, LEAST(upper(units) - lower(units),
               billing_tick_at(r.started_at, %(until)s) - lower(units))) AS k
    FROM line JOIN billing_run r ON r.id = line.run_id
) line"""

_KEYS: Final[dict[Grouping, str]] = {
    "instance": "r.instance_id",
    "project": "line.project_id",
    "day": "part.day",
}

# One part a line, or one a day of it. ``part.units``: its ticks; their share is the difference of
# two running shares.
_WHOLE: Final = "SELECT NULL::date AS day, line.units"
_DAILY: Final = """
SELECT day::date, line.units * int8range(
    billing_tick_at(r.started_at, day AT TIME ZONE %(zone)s),
    billing_tick_at(r.started_at, (day + interval '1 day') AT TIME ZONE %(zone)s)) AS units
FROM generate_series(
    date_trunc('day', (r.started_at + lower(line.units) * interval '6 s') AT TIME ZONE %(zone)s),
    (r.started_at + (upper(line.units) - 1) * interval '6 s') AT TIME ZONE %(zone)s,
    interval '1 day') AS day"""

_GROUPS: Final = """
SELECT key, sum(ticks) FILTER (WHERE sign = 1), sum(amount) FILTER (WHERE sign = 1),
       COALESCE(sum(ticks) FILTER (WHERE sign = -1), 0),
       COALESCE(sum(amount) FILTER (WHERE sign = -1), 0)
FROM (
    SELECT {key} AS key, line.sign, upper(part.units) - lower(part.units) AS ticks,
           div(2::numeric * line.amount * (upper(part.units) - lower(line.units)) + w.n, 2 * w.n)
           - div(2::numeric * line.amount * (lower(part.units) - lower(line.units)) + w.n, 2 * w.n)
           AS amount
    FROM line
    JOIN billing_run r ON r.id = line.run_id
    CROSS JOIN LATERAL (SELECT (upper(line.units) - lower(line.units))::numeric AS n) w
    CROSS JOIN LATERAL ({part}) part
    WHERE NOT isempty(part.units) {condition}
) piece
GROUP BY key
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """
    What the month has cost up to now, micro-units. ``charged`` is less what was given back;
    ``estimate``: used in this month and not charged yet. ``before``: what the month before had
    been charged for its ticks up to the same day and hour, ``before_until``.
    """

    period: date
    charged: int
    estimate: int
    before_period: date
    before_until: datetime
    before: int

    @property
    def spent(self) -> int:
        return self.charged + self.estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """
    One line of a month's table. ``key``: an instance, a project, or a day. Amounts in micro-units,
    ``returned`` positive; ``ticks`` are those that stayed charged.
    """

    key: Any
    ticks: int
    charged: int
    returned: int

    @property
    def total(self) -> int:
        return self.charged - self.returned


class Chosen(TypedDict):
    """Which charges: of a tenant and a month, of one instance or project if there is one."""

    tenant_id: uuid.UUID
    period: date
    instance_id: uuid.UUID | None
    project_id: uuid.UUID | None


def billing_zone() -> ZoneInfo:
    """Return the zone that cuts months and days for everybody."""
    return ZoneInfo(settings.BILLING_TIME_ZONE)


def start_of_period(period: date) -> datetime:
    return datetime(period.year, period.month, 1, tzinfo=billing_zone())


def previous_period(period: date) -> date:
    return (period - timedelta(days=1)).replace(day=1)


def same_moment_before(now: datetime) -> datetime:
    """
    Return the moment of the month before that has the day and the hour of ``now``; its end, where
    that month is shorter.
    """
    zone = billing_zone()
    local = now.astimezone(zone)
    previous = previous_period(local.date().replace(day=1))
    # Of one zone, so both are differences of what the clock on the wall shows.
    into_month = local - datetime(local.year, local.month, 1, tzinfo=zone)
    same = datetime(previous.year, previous.month, 1, tzinfo=zone) + into_month
    return min(same, end_of_period(previous, zone))


def spend_month(*, tenant_id: uuid.UUID, now: datetime) -> Spending:
    """Return what this month has cost so far, beside the same days of the month before."""
    period = period_of(now, billing_zone())
    before = previous_period(period)
    until = same_moment_before(now)
    with connection.cursor() as cursor:
        cursor.execute(
            f"{_LINES} SELECT COALESCE(sum(sign * amount) FILTER (WHERE period = %(period)s), 0),"
            " COALESCE(sum(sign * share) FILTER (WHERE period = %(before)s), 0)"
            f" FROM ({_BEFORE}) line",
            {
                "tenant": tenant_id,
                "oldest": _oldest(before),
                "periods": [period, before],
                "period": period,
                "before": before,
                "until": until,
            },
        )
        charged, charged_before = cursor.fetchone()
    return Spending(
        period=period,
        charged=int(charged),
        estimate=unposted_by_period(tenant_id=tenant_id).get(period, 0),
        before_period=before,
        before_until=until,
        before=int(charged_before),
    )


def group_month(
    *,
    tenant_id: uuid.UUID,
    period: date,
    by: Grouping,
    instance_id: uuid.UUID | None = None,
    project_id: uuid.UUID | None = None,
) -> list[Group]:
    """
    Return what the tenant was charged for the month, days in their order, else the dearest first.
    One query.
    """
    condition = ""
    if instance_id is not None:
        condition += " AND r.instance_id = %(instance)s"
    if project_id is not None:
        condition += " AND line.project_id = %(project)s"
    statement = _GROUPS.format(
        key=_KEYS[by], part=_DAILY if by == "day" else _WHOLE, condition=condition
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"{_LINES} {statement}",
            {
                "tenant": tenant_id,
                "oldest": _oldest(period),
                "periods": [period],
                "zone": settings.BILLING_TIME_ZONE,
                "instance": instance_id,
                "project": project_id,
            },
        )
        rows = cursor.fetchall()
    groups = [
        Group(key=key, ticks=int(n or 0) - int(back), charged=int(a or 0), returned=int(returned))
        for key, n, a, back, returned in rows
    ]
    if by == "day":
        return sorted(groups, key=lambda group: group.key)
    return sorted(groups, key=lambda group: (-group.total, group.key))


def list_month(
    *,
    tenant_id: uuid.UUID,
    period: date,
    instance_id: uuid.UUID | None = None,
    project_id: uuid.UUID | None = None,
) -> QuerySet[Charge]:
    """Return the charges of the month with run, segment and price, the newest first."""
    charges = list_charges(tenant_id=tenant_id, instance_id=instance_id)
    charges = charges.filter(period=period, id__gte=_oldest(period))
    return charges if project_id is None else charges.filter(project_id=project_id)


def list_returns(
    *,
    tenant_id: uuid.UUID,
    period: date,
    instance_id: uuid.UUID | None = None,
    project_id: uuid.UUID | None = None,
) -> QuerySet[Reversal]:
    """Return what was given back of the month's charges with run and price, the newest first."""
    charges = list_month(
        tenant_id=tenant_id, period=period, instance_id=instance_id, project_id=project_id
    )
    found: QuerySet[Reversal] = Reversal.objects.of(tenant_id).filter(
        id__gte=_oldest(period), charge_id__in=charges.order_by().values("id")
    )
    return found.select_related("run", "segment", "price_version").order_by("-id")


def _oldest(period: date) -> uuid.UUID:
    return first_id_at(start_of_period(period) - _SLACK)
