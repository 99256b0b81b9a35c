"""
What is given back goes to the counters and onto the shelf again.

Everything here finds its rows locked, in the order of the house, and raises the nodes' versions.
"""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence

import structlog
from django.db import connection

from scheduler.models import Allocation, Residence

log = structlog.get_logger()


def give_back(allocations: Sequence[Allocation]) -> None:
    """Return what released allocations held to the counters, and their slices to the shelf."""
    if not allocations:
        return
    needs: defaultdict[uuid.UUID, list[int]] = defaultdict(lambda: [0, 0, 0])
    for allocation in allocations:
        needs[allocation.node_id][0] += allocation.cpu_milli
        needs[allocation.node_id][1] += allocation.ram_mib
    _give_to_nodes(needs)
    _give_to_gpus([allocation.id for allocation in allocations])
    for allocation in allocations:
        log.info(
            "allocation.released",
            allocation=str(allocation.id),
            instance=str(allocation.instance_id),
            node=str(allocation.node_id),
        )


def give_disks_back(residences: Sequence[Residence]) -> None:
    """Return the space of disks that are no more to their nodes."""
    if not residences:
        return
    needs: defaultdict[uuid.UUID, list[int]] = defaultdict(lambda: [0, 0, 0])
    for residence in residences:
        needs[residence.node_id][2] += residence.disk_mib
    _give_to_nodes(needs)


def _give_to_nodes(needs: Mapping[uuid.UUID, Sequence[int]]) -> None:
    """Raise the counters (CPU, RAM, disk) and versions of locked nodes."""
    nodes = sorted(needs)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduler_node AS node
            SET version = version + 1,
                cpu_milli_free = cpu_milli_free + freed.cpu,
                ram_mib_free = ram_mib_free + freed.ram,
                disk_mib_free = disk_mib_free + freed.disk
            FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[])
                AS freed (id, cpu, ram, disk)
            WHERE node.id = freed.id
            """,
            [nodes, *([needs[node][i] for node in nodes] for i in range(3))],
        )


def _give_to_gpus(allocation_ids: Sequence[uuid.UUID]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH freed AS (
                UPDATE scheduler_slice AS part SET released_at = held.released_at
                FROM scheduler_allocation AS held
                WHERE held.id = ANY(%s::uuid[]) AND part.allocation_id = held.id
                  AND part.released_at IS NULL
                RETURNING part.gpu_id, part.vram_mib
            )
            UPDATE scheduler_gpu AS gpu SET vram_free_mib = vram_free_mib + freed_sum.vram_mib
            FROM (SELECT gpu_id, sum(vram_mib) AS vram_mib FROM freed GROUP BY gpu_id) AS freed_sum
            WHERE gpu.id = freed_sum.gpu_id
            """,
            [list(allocation_ids)],
        )
