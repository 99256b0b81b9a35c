"""Counting again what the counters say, from the rows that they stand for."""

import uuid
from dataclasses import dataclass

import structlog
from django.db import connection

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """``what``: cpu_milli, ram_mib, disk_mib of a node or vram_mib of a GPU; free, not used."""

    id: uuid.UUID
    what: str
    counted: int
    stored: int


# One statement is one snapshot, so a commit under way shows on both sides or on neither.
_RECOUNT = """
WITH counted AS (
    SELECT node.id, 'cpu_milli' AS what, node.cpu_milli_free::bigint AS stored,
           node.cpu_milli_total - coalesce((
               SELECT sum(cpu_milli) FROM scheduler_allocation AS held
               WHERE held.node_id = node.id AND held.released_at IS NULL), 0) AS counted
    FROM scheduler_node AS node
    UNION ALL
    SELECT node.id, 'ram_mib', node.ram_mib_free,
           node.ram_mib_total - coalesce((
               SELECT sum(ram_mib) FROM scheduler_allocation AS held
               WHERE held.node_id = node.id AND held.released_at IS NULL), 0)
    FROM scheduler_node AS node
    UNION ALL
    SELECT node.id, 'disk_mib', node.disk_mib_free,
           node.disk_mib_total - coalesce((
               SELECT sum(disk_mib) FROM scheduler_residence AS disk
               WHERE disk.node_id = node.id AND disk.wiped_at IS NULL), 0)
    FROM scheduler_node AS node
    UNION ALL
    SELECT gpu.id, 'vram_mib', gpu.vram_free_mib,
           gpu.memory_mib - coalesce((
               SELECT sum(vram_mib) FROM scheduler_slice AS part
               WHERE part.gpu_id = gpu.id AND part.released_at IS NULL), 0)
    FROM scheduler_gpu AS gpu
)
SELECT id, what, counted::bigint, stored FROM counted WHERE counted <> stored ORDER BY id, what
"""


def recount() -> list[Drift]:
    """
    Return and log the counters that differ from what the rows add up to. Changes nothing: a drift
    is a bug, and mending it unseen would hide it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RECOUNT)
        drifts = [
            Drift(id=row_id, what=what, counted=counted, stored=stored)
            for row_id, what, counted, stored in cursor.fetchall()
        ]
    for drift in drifts:
        log.error(
            "counter.drift",
            row=str(drift.id),
            what=drift.what,
            counted=drift.counted,
            stored=drift.stored,
        )
    return drifts
