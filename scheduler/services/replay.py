"""Which policy would have served a region best: its last weeks, replayed. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Max

from scheduler.core.boards import POLICIES, make_board, make_policy
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import Inventory
from scheduler.core.placement import Ask
from scheduler.core.replay import Outcome, Visit, replay
from scheduler.models import Request
from scheduler.services.inventory import SHAPE_COLUMNS, load_capacity, shape_of
from scheduler.services.rules import NOBODY, load_forecast

# In which order equal outcomes are preferred: the simpler first.
SIMPLEST: Final = ("best_fit", "first_fit", "fgd", "fgdx", "fgdx_filling")
# Percentage points of refused GPU time by which a policy must be better to be worth its words.
WORTH: Final = 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    outcomes: dict[str, Outcome]
    suits: str


def replay_requests(*, region: str, days: int, now: datetime) -> Verdict:
    """
    Replay what was asked for in this region in the last days against its nodes, empty and well.

    What still runs or waits is taken to stay until ``now``; what was placed later than it was asked
    for comes when it was asked for. Disks pin nobody.

    :raises ValueError: if nothing was asked for
    """
    begin = now - timedelta(days=days)
    visits = _visits(region=region, begin=begin, now=now)
    if not visits:
        raise ValueError(f"nothing was asked for in {region} in the last {days} days")
    _, empty = load_capacity()
    nodes = [node for node in empty.nodes if node.region == region]
    forecast = load_forecast(now=now)
    outcomes = {
        name: _run(name, Inventory(nodes), forecast, visits, begin=begin, now=now)
        for name in POLICIES
    }
    return Verdict(outcomes, best_of(outcomes))


def best_of(outcomes: dict[str, Outcome]) -> str:
    """Return the policy that refused least; a simpler one unless that costs ``WORTH``."""
    least = min(outcome.refused for outcome in outcomes.values())
    return next(name for name in SIMPLEST if outcomes[name].refused <= least + WORTH)


def _run(
    name: str,
    room: Inventory,
    forecast: Forecast,
    visits: list[Visit],
    *,
    begin: datetime,
    now: datetime,
) -> Outcome:
    board = make_board(room, make_policy(name, room, forecast))
    return replay(board, visits, begin=begin.timestamp(), end=now.timestamp())


def _visits(*, region: str, begin: datetime, now: datetime) -> list[Visit]:
    rows = (
        Request.objects.filter(region_id=region, requested_at__gt=begin, requested_at__lt=now)
        .order_by("requested_at", "id")
        .annotate(left_at=Max("allocations__released_at"))
        .values_list(
            "tenant_id",
            "requested_at",
            "decided_at",
            "state",
            "left_at",
            *SHAPE_COLUMNS,
            named=True,
        )
    )
    visits = []
    for row in rows:
        ask = Ask(
            id=NOBODY,
            tenant=row.tenant_id,
            shape=shape_of(row),
            region=region,
            disk_mib=row.disk_mib,
        )
        is_over = row.state in ("cancelled", "expired")
        until = (row.decided_at if is_over else row.left_at) or now
        visits.append(Visit(row.requested_at.timestamp(), until.timestamp(), ask.kind))
    return visits
