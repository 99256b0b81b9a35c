"""What each node should hold, as the gateway sends it. Reads only, one query a question."""

import uuid
from collections.abc import Sequence

import msgspec
import structlog
from django.db import connection

from agents import protocol

log = structlog.get_logger()


_ORDERS = msgspec.json.Decoder(list[protocol.Order])
_RESIDENCES = msgspec.json.Decoder(list[protocol.ResidenceOrder])


def node_versions(node_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, tuple[int, int]]:
    """Return (control_epoch, node_version) of each of the nodes that exists."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, coalesce((SELECT control_epoch FROM scheduler_controlplane), 1), version
            FROM scheduler_node WHERE id = ANY(%s::uuid[])
            """,
            [list(node_ids)],
        )
        return {node_id: (epoch, version) for node_id, epoch, version in cursor.fetchall()}


# One statement is one snapshot: a version can never be told with the orders of an older one.
# Names inside json_build_object are those of protocol.Order, SliceSpec and ResidenceOrder.
_DESIRED = """
SELECT node.id,
       coalesce((SELECT control_epoch FROM scheduler_controlplane), 1),
       node.version,
       coalesce((
           SELECT json_agg(json_build_object(
               'allocation', held.id, 'instance', held.instance_id, 'run', held.run_id,
               'incarnation', held.incarnation, 'spec_rev', held.spec_rev, 'want', held.want,
               'stop_at_tick', held.stop_at_tick, 'spec', held.spec,
               'network', (
                   SELECT net.cidr FROM scheduler_privatenetwork AS net
                   WHERE net.tenant_id = held.tenant_id AND net.region_id = zone.region_id),
               'slices', (
                   SELECT coalesce(json_agg(json_build_object(
                       'gpu_uuid', gpu.uuid, 'mode', part.mode,
                       'from_cell', lower(part.cells), 'until_cell', upper(part.cells),
                       'vram_mib', part.vram_mib) ORDER BY gpu.index, part.id), '[]')
                   FROM scheduler_slice AS part JOIN scheduler_gpu AS gpu ON gpu.id = part.gpu_id
                   WHERE part.allocation_id = held.id AND part.released_at IS NULL)
               ) ORDER BY held.id)
           FROM scheduler_allocation AS held
           WHERE held.node_id = node.id AND held.released_at IS NULL), '[]')::text,
       coalesce((
           SELECT json_agg(json_build_object(
               'residence', disk.id, 'instance', disk.instance_id, 'kind', disk.kind,
               'disk_mib', disk.disk_mib, 'want', disk.want) ORDER BY disk.id)
           FROM scheduler_residence AS disk
           WHERE disk.node_id = node.id AND disk.wiped_at IS NULL), '[]')::text
FROM scheduler_node AS node JOIN scheduler_zone AS zone ON zone.code = node.zone_id
WHERE node.id = ANY(%s::uuid[])
ORDER BY node.id
"""


def desired_sets(node_ids: Sequence[uuid.UUID]) -> list[protocol.Desired]:
    """
    Return the desired set of each of the nodes that exists, by id: every allocation whose release
    and every residence whose wipe is not confirmed. A node with a stored spec that this code cannot
    read is left out and logged: no set is better than one from which an order is missing.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DESIRED, [list(node_ids)])
        rows = cursor.fetchall()
    sets = []
    for node_id, epoch, version, orders, residences in rows:
        try:
            wanted = protocol.Desired(
                node=str(node_id),
                control_epoch=epoch,
                node_version=version,
                orders=_ORDERS.decode(orders),
                residences=_RESIDENCES.decode(residences),
            )
        except msgspec.ValidationError:
            log.exception("desired.unreadable", node=str(node_id))
        else:
            sets.append(wanted)
    return sets
