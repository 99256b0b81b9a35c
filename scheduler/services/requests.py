"""Asking for a place, and taking the question back."""

import uuid
from datetime import datetime

import msgspec
from django.conf import settings
from django.db import transaction

from agents.protocol import AllocationSpec
from scheduler.core.shapes import CELLS, Shape, fault_of
from scheduler.errors import ImpossibleShape
from scheduler.models import Request, RequestState

__all__ = ["Shape", "cancel_request", "change_request", "open_request"]


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
    now: datetime,
) -> Request:
    """
    Queue an instance for placement. It waits up to ``SCHEDULER_REQUEST_TTL``, then expires. One
    that lost its place (``is_failover``) goes first; its container has the given ``incarnation``.

    Disks that the instance already has somewhere pin it there, whether ``residences_on`` names
    the node or not.

    :raises ImpossibleShape: if no node can ever give the shape
    :raises IntegrityError: if the instance waits already, or the id is taken
    """
    if fault := fault_of(shape):
        raise ImpossibleShape(fault)
    return Request.objects.create(
        id=request_id,
        tenant_id=tenant_id,
        instance_id=instance_id,
        group_id=request_id,
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


@transaction.atomic
def cancel_request(*, instance_id: uuid.UUID, now: datetime) -> bool:
    """
    Take the instance's waiting request back. False if none waits (any more): a pass that holds
    the row is waited for, and when it placed the instance, its allocation is what must go.
    """
    # Waits for the row's lock and reads the state again: the WHERE is checked on the new version.
    changed = Request.objects.filter(instance_id=instance_id, state=RequestState.WAITING).update(
        state=RequestState.CANCELLED, decided_at=now
    )
    return changed == 1


@transaction.atomic
def change_request(*, instance_id: uuid.UUID, spec: AllocationSpec, now: datetime) -> bool:
    """
    Store a new spec with the instance's waiting request, which keeps its turn. False if none waits
    (any more): when a pass placed it meanwhile, its allocation is what must change.
    """
    waiting = Request.objects.filter(instance_id=instance_id, state=RequestState.WAITING)
    return waiting.update(spec=msgspec.to_builtins(spec)) == 1
