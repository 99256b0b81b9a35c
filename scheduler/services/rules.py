"""What a pass decides by: each region's policy, what tenants hold, what is expected. Reads only."""

import uuid
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Count

from scheduler.core.forecast import Forecast
from scheduler.core.kinds import Kind
from scheduler.core.placement import Ask, Rules
from scheduler.core.queue import Use
from scheduler.models import Region, Request
from scheduler.services.inventory import SHAPE_COLUMNS, shape_of

# Policies that look at what is expected look this far back.
EXPECTED_FROM: Final = timedelta(days=28)
NEEDS_FORECAST: Final = frozenset({"fgd", "fgdx", "fgdx_filling"})
NOBODY: Final = uuid.UUID(int=0)

_HELD: Final = """
WITH parts AS (
    SELECT tenant_id,
           sum(CASE mode WHEN 'mig' THEN (upper(cells) - lower(cells)) * 125
                         ELSE (upper(cells) - lower(cells)) * 100 END) AS milli,
           sum(vram_mib) AS vram
    FROM scheduler_slice WHERE released_at IS NULL GROUP BY tenant_id
), nodes AS (
    SELECT tenant_id, sum(cpu_milli) AS cpu, sum(ram_mib) AS ram
    FROM scheduler_allocation WHERE released_at IS NULL GROUP BY tenant_id
)
SELECT nodes.tenant_id, coalesce(parts.milli, 0), coalesce(parts.vram, 0), nodes.cpu, nodes.ram
FROM nodes LEFT JOIN parts ON parts.tenant_id = nodes.tenant_id
"""
_TOTAL: Final = """
SELECT coalesce((SELECT count(*) * 1000 FROM scheduler_gpu), 0),
       coalesce((SELECT sum(memory_mib) FROM scheduler_gpu), 0),
       coalesce((SELECT sum(cpu_milli_total) FROM scheduler_node), 0),
       coalesce((SELECT sum(ram_mib_total) FROM scheduler_node), 0)
"""


def load_rules(*, now: datetime) -> Rules:
    """Three queries; one more where some region's policy looks at what is expected."""
    regions = Region.objects.values_list("code", "policy", "failover_reserve_nodes")
    policies, reserves = {}, {}
    for code, policy, reserve in regions:
        policies[code], reserves[code] = policy, reserve
    needs = NEEDS_FORECAST & set(policies.values())
    forecast = load_forecast(now=now) if needs else Forecast((), ())
    return replace(load_turns(), policies=policies, forecast=forecast, reserves=reserves)


def load_turns() -> Rules:
    """Return no more than says whose turn it is; two queries."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD)
        held = {tenant_id: Use(*map(int, parts)) for tenant_id, *parts in cursor.fetchall()}
        cursor.execute(_TOTAL)
        total = Use(*map(int, cursor.fetchone()))
    return Rules(held=held, total=total)


def load_reserves() -> dict[str, int]:
    """Return how many nodes each region keeps for what loses its place; one query."""
    kept = Region.objects.filter(failover_reserve_nodes__gt=0)
    return dict(kept.values_list("code", "failover_reserve_nodes"))


def load_forecast(*, now: datetime) -> Forecast:
    """
    Return how often each kind was asked for in the last four weeks, whole fleet, whatever became
    of it. Who asked and where does not matter: a forecast says what an idle card is wanted for.
    """
    rows = (
        Request.objects.filter(requested_at__gt=now - EXPECTED_FROM)
        .order_by()
        .values(*SHAPE_COLUMNS, "region_id")
        .annotate(times=Count("id"))
        .values_list(*SHAPE_COLUMNS, "region_id", "times", named=True)
    )
    counts: Counter[Kind] = Counter()
    for row in rows:
        ask = Ask(
            id=NOBODY,
            tenant=NOBODY,
            shape=shape_of(row),
            region=row.region_id,
            disk_mib=row.disk_mib,
        )
        if ask.kind.mode != "mig":
            counts[ask.kind] += row.times
    # A fleet that nobody has asked anything of yet: one whole card is as good a guess as any.
    return Forecast.of(counts or {Kind(): 1})
