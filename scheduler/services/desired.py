"""What each node should hold, as the gateway sends it. Reads only, one query a question."""

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog
from django.db import connection

from agents import protocol
from scheduler.models import Want

log = structlog.get_logger()

_ORDERS = msgspec.json.Decoder(list[protocol.Order])
_RESIDENCES = msgspec.json.Decoder(list[protocol.ResidenceOrder])
# Orders that start nothing: the node needs no spec to obey them.
ENDS = frozenset({Want.STOP, Want.GONE})
# The node version at which an allocation was last called unreadable by this process.
_SAID: dict[str, int] = {}


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
    and every residence whose wipe is not confirmed.

    An allocation whose stored spec this code cannot read is left out and logged: absence is never
    an order, so what runs goes on, and the node's other orders are not held up. That it is to end
    is sent all the same, for an end needs no spec.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DESIRED, [list(node_ids)])
        rows = cursor.fetchall()
    return [
        protocol.Desired(
            node=str(node_id),
            control_epoch=epoch,
            node_version=version,
            orders=_read_orders(orders, version=version),
            residences=_RESIDENCES.decode(residences),
        )
        for node_id, epoch, version, orders, residences in rows
    ]


def _read_orders(text: str, *, version: int) -> list[protocol.Order]:
    try:
        return _ORDERS.decode(text)
    except msgspec.ValidationError:
        return [
            order
            for raw in msgspec.json.decode(text)
            if (order := _read_order(raw, version=version)) is not None
        ]


def _read_order(raw: dict[str, Any], *, version: int) -> protocol.Order | None:
    """Return one order, with the least of specs if it only ends something, or None."""
    try:
        return msgspec.convert(raw, protocol.Order)
    except msgspec.ValidationError as error:
        _say_unreadable(raw, version=version, why=str(error))
    if raw["want"] not in ENDS:
        return None
    least = protocol.AllocationSpec(instance=raw["instance"], name="", slug="", image="")
    return msgspec.convert(raw | {"spec": msgspec.to_builtins(least)}, protocol.Order)


def _say_unreadable(raw: dict[str, Any], *, version: int, why: str) -> None:
    """Log it once per version: the same set may be asked for every second."""
    if _SAID.get(raw["allocation"]) == version:
        return
    _SAID[raw["allocation"]] = version
    log.error(
        "allocation.spec_unreadable",
        allocation=raw["allocation"],
        instance=raw["instance"],
        want=raw["want"],
        version=version,
        error=why,
    )
