"""
What is due, in SQL: proven ∩ [0, closed_at_tick) − waived − charged, cut and priced.

The one statement behind settle, the estimate of a balance and the lines of an instance. It must
give what ``billing.core.split`` gives (tests/billing/test_sql_equals_core.py).
"""

import uuid
from collections.abc import Collection
from datetime import date
from typing import Any, Final

from django.conf import settings
from django.db import connection

# Runs in question; parameter ``tenants``. Only what is not settled can have anything due.
LIVE: Final = """
live AS MATERIALIZED (
    SELECT id, tenant_id, instance_id, started_at, closed_at_tick
    FROM billing_run
    WHERE tenant_id = ANY(%(tenants)s) AND NOT settled AND started_at IS NOT NULL
),
waived AS (
    SELECT w.run_id, range_agg(w.ticks) AS ticks
    FROM billing_waiver w JOIN live ON live.id = w.run_id GROUP BY w.run_id
)"""

# Proven and not charged yet.
DUE: Final = """
due AS MATERIALIZED (
    SELECT live.*, tally.charged, unnest(
        seen.ticks * int8multirange(int8range(0, live.closed_at_tick))
        - tally.charged - COALESCE(waived.ticks, '{}')) AS ticks
    FROM live
    JOIN billing_tally tally ON tally.run_id = live.id
    JOIN (
        SELECT s.run_id, range_agg(int8range(s.from_tick, s.until_tick)) AS ticks
        FROM billing_stretch s JOIN live ON live.id = s.run_id GROUP BY s.run_id
    ) seen ON seen.run_id = live.id
    LEFT JOIN waived ON waived.run_id = live.id
)"""

# Not proven yet, of closed runs: from the last proven tick to the closing one.
TAILS: Final = """
due AS MATERIALIZED (
    SELECT live.*, tally.charged, unnest(
        int8multirange(int8range(
            LEAST(live.closed_at_tick, COALESCE(seen.until_tick, 0)), live.closed_at_tick))
        - tally.charged - COALESCE(waived.ticks, '{}')) AS ticks
    FROM live
    JOIN billing_tally tally ON tally.run_id = live.id
    LEFT JOIN (
        SELECT s.run_id, max(s.until_tick) AS until_tick
        FROM billing_stretch s JOIN live ON live.id = s.run_id GROUP BY s.run_id
    ) seen ON seen.run_id = live.id
    LEFT JOIN waived ON waived.run_id = live.id
    WHERE live.closed_at_tick IS NOT NULL
)"""

# Cut by segment, price version and month of the deployment's calendar, and priced. A tick's month
# and version are those of its start; ticks without a price give no piece and stay due.
PIECES: Final = """
band AS MATERIALIZED (
    SELECT v.id, v.price_key, v.price, v.during, month::date AS period,
           v.during * tstzrange(month AT TIME ZONE %(zone)s,
                                (month + interval '1 month') AT TIME ZONE %(zone)s) AS span
    FROM (
        SELECT min(started_at + lower(ticks) * interval '6 seconds') AS since,
               max(started_at + upper(ticks) * interval '6 seconds') AS until
        FROM due
    ) AS edge
    CROSS JOIN LATERAL generate_series(
        date_trunc('month', edge.since AT TIME ZONE %(zone)s),
        edge.until AT TIME ZONE %(zone)s, interval '1 month') AS month
    JOIN billing_priceversion v
        ON v.currency = %(currency)s
        AND v.during && tstzrange(edge.since, edge.until)
        AND v.during && tstzrange(month AT TIME ZONE %(zone)s,
                                  (month + interval '1 month') AT TIME ZONE %(zone)s)
),
cut AS MATERIALIZED (
    SELECT due.id AS run_id, due.tenant_id, due.instance_id, due.charged,
           g.id AS segment_id, g.project_id, g.share_numerator, g.share_denominator,
           band.id AS version_id, band.period,
           CASE WHEN g.cover IS NULL THEN band.price ELSE 0 END AS price,
           due.ticks * int8range(g.from_tick, g.until_tick)
               * int8range(billing_tick_at(due.started_at, lower(band.span)),
                           billing_tick_at(due.started_at, upper(band.span))) AS ticks,
           int8range(g.from_tick, g.until_tick)
               * int8range(billing_tick_at(due.started_at, lower(band.during)),
                           billing_tick_at(due.started_at, upper(band.during))) AS reach
    FROM due
    JOIN billing_segment g ON g.run_id = due.id
    JOIN band ON band.price_key = g.price_key
),
counted AS MATERIALIZED (
    SELECT cut.*, upper(ticks) - lower(ticks) AS n,
           (SELECT COALESCE(sum(upper(r) - lower(r)), 0)
            FROM unnest(charged * int8multirange(reach)) AS r)
           + sum(upper(ticks) - lower(ticks)) OVER (
               PARTITION BY segment_id, version_id ORDER BY lower(ticks)) AS until
    FROM cut WHERE NOT isempty(ticks)
),
priced AS MATERIALIZED (
    SELECT run_id, tenant_id, instance_id, segment_id, project_id, version_id, period, ticks, n,
           (until - n)::bigint AS units_before,
           billing_price_of_ticks(until::bigint, price, share_numerator, share_denominator)
           - billing_price_of_ticks((until - n)::bigint, price, share_numerator, share_denominator)
           AS amount
    FROM counted
)"""


def parameters(tenant_ids: Collection[uuid.UUID]) -> dict[str, Any]:
    return {
        "tenants": list(tenant_ids),
        "zone": settings.BILLING_TIME_ZONE,
        "currency": settings.BILLING_CURRENCY,
    }


def _sum_by_tenant(
    source: str, extra: str, tenant_ids: Collection[uuid.UUID]
) -> dict[uuid.UUID, int]:
    if not tenant_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {LIVE}, {source}, {PIECES}"
            f" SELECT tenant_id, (sum(amount) + {extra})::bigint FROM priced GROUP BY tenant_id",
            parameters(tenant_ids),
        )
        return dict(cursor.fetchall())


def unposted_of(tenant_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return what is proven and not charged yet, micro-units; tenants with nothing apart."""
    return _sum_by_tenant(DUE, "0", tenant_ids)


def unposted_by_period(*, tenant_id: uuid.UUID) -> dict[date, int]:
    """Return what the tenant has proven and not charged yet, micro-units, by month."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {LIVE}, {DUE}, {PIECES}"
            " SELECT period, sum(amount)::bigint FROM priced GROUP BY period",
            parameters([tenant_id]),
        )
        return dict(cursor.fetchall())


def tails_of(tenant_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    """
    Return at most what closed runs may still cost by ticks that nobody has proven yet; one
    micro-unit is added per piece, for its rounding.
    """
    return _sum_by_tenant(TAILS, "count(*)", tenant_ids)


def due_by_segment(
    *, tenant_id: uuid.UUID, instance_id: uuid.UUID
) -> dict[uuid.UUID, tuple[int, int]]:
    """Return (ticks, micro-units) proven and not charged yet, by segment of the instance."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {LIVE}, {DUE}, {PIECES}"
            " SELECT segment_id, sum(n)::bigint, sum(amount)::bigint FROM priced"
            " WHERE instance_id = %(instance)s GROUP BY segment_id",
            parameters([tenant_id]) | {"instance": instance_id},
        )
        return {segment: (ticks, amount) for segment, ticks, amount in cursor.fetchall()}
