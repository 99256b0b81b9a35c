"""Asking for a place, and taking the question back."""

import uuid
from datetime import datetime

import msgspec
from django.conf import settings
from django.db import connection, transaction

from agents.protocol import AllocationSpec
from scheduler.core.bonds import Bond
from scheduler.core.shapes import CELLS, Shape, fault_of
from scheduler.errors import ImpossibleGang, ImpossibleShape
from scheduler.models import Request, RequestState

__all__ = ["Bond", "Shape", "cancel_request", "change_request", "open_request"]


@transaction.atomic
def open_request(
    *,
    request_id: uuid.UUID,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    shape: Shape,
    market: str,
    region: str,
    spec: AllocationSpec,
    residences_on: uuid.UUID | None = None,
    zone: str | None = None,
    incarnation: int = 1,
    is_failover: bool = False,
    bond: Bond | None = None,
    lasts_s: int | None = None,
    now: datetime,
) -> Request:
    """
    Queue an instance for placement. It waits up to ``SCHEDULER_REQUEST_TTL``, then expires. One
    that lost its place (``is_failover``) goes first; its container has the given ``incarnation``.

    Disks that the instance already has somewhere pin it there, whether ``residences_on`` names
    the node or not.

    With a ``bond`` it is a member of a gang: none is placed before all ``bond.size`` wait, and
    then all or none. ``bond.placed`` says how many run already; then this replaces one that was
    lost. ``lasts_s``: how long it runs at the most, if that is known.

    :raises ImpossibleShape: if no node can ever give the shape
    :raises ImpossibleGang: if the rules contradict each other or those of the other members, or
        all members wait already
    :raises IntegrityError: if the instance waits already, or the id is taken
    """
    if fault := fault_of(shape):
        raise ImpossibleShape(fault)
    bond = bond or Bond(group=request_id)
    _check_bond(bond, tenant_id=tenant_id, region=region, market=market)
    return Request.objects.create(
        id=request_id,
        tenant_id=tenant_id,
        instance_id=instance_id,
        group_id=bond.group,
        group_size=bond.size,
        group_placed=bond.placed,
        together=bond.together,
        spread_skew=bond.spread_skew,
        apart_label=bond.apart,
        one_per_node=bond.one_per_node,
        lasts_s=lasts_s,
        market=market,
        mode=shape.mode,
        gpu_models=[f"{name}|{memory_mib}" for name, memory_mib in shape.gpu_models],
        count=shape.count,
        tenths=shape.tenths if shape.mode in ("share_tenant", "share_shared") else CELLS,
        vram_mib=shape.vram_mib,
        profile=shape.profile,
        cpu_milli=shape.cpu_milli,
        ram_mib=shape.ram_mib,
        disk_mib=shape.disk_mib,
        region_id=region,
        zone_id=zone,
        residences_on_id=residences_on,
        incarnation=incarnation,
        is_failover=is_failover,
        spec=msgspec.to_builtins(spec),
        requested_at=now,
        expires_at=now + settings.SCHEDULER_REQUEST_TTL,
    )


def _check_bond(bond: Bond, *, tenant_id: uuid.UUID, region: str, market: str) -> None:
    """:raises ImpossibleGang: see ``open_request``"""
    if bond.size < 1:
        raise ImpossibleGang("a gang has a member at least")
    if bond.spread_skew is not None and (bond.together or bond.spread_skew < 1):
        raise ImpossibleGang("spread over zones, by one at least, or together: not both")
    if bond.size == 1 and not bond.placed:
        return
    waiting = Request.objects.waiting().filter(group_id=bond.group)
    others = waiting.values_list(
        "tenant_id",
        "region_id",
        "market",
        "together",
        "spread_skew",
        "apart_label",
        "one_per_node",
        "group_size",
    )
    alike = (
        tenant_id,
        region,
        market,
        bond.together,
        bond.spread_skew,
        bond.apart,
        bond.one_per_node,
    )
    rows = list(others)
    if any(row[:-1] != alike for row in rows):
        raise ImpossibleGang("the members of a gang have one tenant, region, market and rules")
    if not bond.placed and (len(rows) >= bond.size or any(row[-1] != bond.size for row in rows)):
        raise ImpossibleGang(f"a gang of {bond.size} has {len(rows)} members already, or others")


@transaction.atomic
def cancel_request(*, instance_id: uuid.UUID, now: datetime) -> bool:
    """
    Take the instance's waiting request back. False if none waits (any more): a pass that holds
    the row is waited for, and when it placed the instance, its allocation is what must go.

    With a member of a gang the requests of all others are taken back that wait with it: without
    it none could be placed. What becomes of their instances, the caller decides.
    """
    # Waits for the rows' locks, by id, and reads their states again when it has them.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH held AS (
                SELECT id FROM scheduler_request
                WHERE state = 'waiting' AND group_id IN (
                    SELECT group_id FROM scheduler_request
                    WHERE instance_id = %s AND state = 'waiting')
                ORDER BY id FOR NO KEY UPDATE
            )
            UPDATE scheduler_request AS request SET state = %s, decided_at = %s
            FROM held WHERE held.id = request.id RETURNING request.instance_id
            """,
            [instance_id, RequestState.CANCELLED.value, now],
        )
        return instance_id in {cancelled for (cancelled,) in cursor.fetchall()}


@transaction.atomic
def change_request(*, instance_id: uuid.UUID, spec: AllocationSpec, now: datetime) -> bool:
    """
    Store a new spec with the instance's waiting request, which keeps its turn. False if none waits
    (any more): when a pass placed it meanwhile, its allocation is what must change.
    """
    waiting = Request.objects.filter(instance_id=instance_id, state=RequestState.WAITING)
    return waiting.update(spec=msgspec.to_builtins(spec)) == 1
