"""
What an operator watches of the scheduler, as numbers of this moment. Reads only.

Three statements whatever is waiting and whatever the fleet; each gives a line for a region, a
model, a word, and never one for a tenant, a node or a card: those would be too many series.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

# A request counts under the dimension that refused most nodes; the first by name among equals.
_WAITING = """
SELECT request.region_id, request.market,
       COALESCE((SELECT key FROM jsonb_each_text(request.reasons)
                 ORDER BY value::int DESC, key LIMIT 1), 'unseen') AS reason,
       count(*), floor(extract(epoch FROM %(now)s - min(request.requested_at)))::int
FROM scheduler_request AS request
WHERE request.state = 'waiting' AND request.expires_at > %(now)s
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""

_NODES = """
SELECT zone.region_id, COALESCE(liveness.status, 'never'), node.cordoned, count(*)
FROM scheduler_node AS node
JOIN scheduler_zone AS zone ON zone.code = node.zone_id
LEFT JOIN scheduler_nodeliveness AS liveness ON liveness.node_id = node.id
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""

# A card is in one state, the first that holds. A memory slice of MIG counts as an eighth, as in
# the shares of tenants (services/rules.py).
_CARDS = """
WITH sold AS (
    SELECT gpu_id, sum((upper(part) - lower(part)) * CASE mode WHEN 'mig' THEN 125 ELSE 100 END)
           AS milli
    FROM scheduler_slice CROSS JOIN LATERAL unnest(cells) AS part
    WHERE released_at IS NULL GROUP BY gpu_id
), cards AS (
    SELECT zone.region_id AS region,
           model.name || ' ' || model.memory_mib / 1024 || ' GiB' AS model,
           COALESCE(sold.milli, 0) AS milli,
           CASE WHEN gpu.health = 'missing' THEN 'missing'
                WHEN gpu.health <> 'healthy' THEN 'unhealthy'
                WHEN liveness.status IS DISTINCT FROM 'live' THEN 'silent'
                WHEN node.cordoned THEN 'cordoned'
                WHEN sold.milli IS NULL THEN 'idle'
                WHEN sold.milli >= 1000 THEN 'full'
                ELSE 'part' END AS state
    FROM scheduler_gpu AS gpu
    JOIN scheduler_gpumodel AS model ON model.id = gpu.model_id
    JOIN scheduler_node AS node ON node.id = gpu.node_id
    JOIN scheduler_zone AS zone ON zone.code = node.zone_id
    LEFT JOIN scheduler_nodeliveness AS liveness ON liveness.node_id = node.id
    LEFT JOIN sold ON sold.gpu_id = gpu.id
)
SELECT region, model, state, count(*), sum(milli)::bigint FROM cards
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    """``reason``: what refuses most nodes, "unseen" before the first pass. ``oldest_s``: s."""

    region: str
    market: str
    reason: str
    requests: int
    oldest_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """``status``: live, suspect, lost, or never (heard)."""

    region: str
    status: str
    cordoned: bool
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLine:
    """
    ``state``: missing, unhealthy, silent, cordoned, idle, part (sold), full. ``sold_milli``:
    thousandths of these cards that somebody holds, also of those that are not well.
    """

    region: str
    model: str
    state: str
    cards: int
    sold_milli: int

    @property
    def free_milli(self) -> int:
        """What could still be placed on these cards: nothing unless they are well and open."""
        return self.cards * 1_000 - self.sold_milli if self.state in ("idle", "part") else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    waiting: list[WaitingLine]
    nodes: list[NodeLine]
    cards: list[CardLine]


def read_gauges(*, now: datetime) -> Gauges:
    """Return the numbers of ``now``; three queries."""
    return Gauges(
        waiting=[
            WaitingLine(
                region=region, market=market, reason=reason, requests=number, oldest_s=oldest
            )
            for region, market, reason, number, oldest in _rows(_WAITING, now=now)
        ],
        nodes=[
            NodeLine(region=region, status=status, cordoned=cordoned, nodes=count)
            for region, status, cordoned, count in _rows(_NODES)
        ],
        cards=[
            CardLine(region=region, model=model, state=state, cards=count, sold_milli=int(milli))
            for region, model, state, count, milli in _rows(_CARDS)
        ],
    )


def _rows(statement: str, **parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[Any] = cursor.fetchall()
    return rows
