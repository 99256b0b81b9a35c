"""
Notices to spot: given where an on-demand request fits nowhere else, withdrawn where it needs the
place no more, done when the spot is on its way out.

Who has to leave, scheduler.core.preempt says. The floor above tells the instance and ends it at
``reclaim_at``; nothing is ended here. A request for which somebody was told to leave chooses before
others from then on (``Ask.is_promised``), so that nobody else gets the place.
"""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction

from rental.records.ids import new_id
from scheduler.core.cells import bits_of
from scheduler.core.placement import Ask
from scheduler.core.preempt import Spot, Victims, plan_victims
from scheduler.models import Allocation, Reclaim, Request, RequestState, Slice, Want
from scheduler.models.requests import Market
from scheduler.services.inventory import load_inventory, load_waiting
from scheduler.services.liveness import mark_dirty

log = structlog.get_logger()


def level_reclaims(*, now: datetime) -> int:
    """
    Bring the notices level with what waits and what lives; return how many changed. Safe to repeat
    and to run twice at once. Call after a pass: what fits has its place then.
    """
    changed = close_reclaims(now=now) + withdraw_reclaims(now=now)
    if _spots().exists():
        changed += _give(now=now)
    return changed


@transaction.atomic
def close_reclaims(*, now: datetime) -> int:
    """Note which spots are on their way out, by the deadline or before it."""
    gone = Reclaim.objects.standing().exclude(allocation__want=Want.RUN)
    ids = list(gone.order_by("id").select_for_update(no_key=True, of=("self",)).values_list("id"))
    return Reclaim.objects.filter(id__in=[one for (one,) in ids]).update(done_at=now)


def passed_deadline(allocation_id: uuid.UUID, *, now: datetime) -> datetime | None:
    """Return when this spot had to be gone, if that is over and was not taken back."""
    rows = Reclaim.objects.filter(allocation_id=allocation_id, withdrawn_at=None)
    return rows.filter(reclaim_at__lte=now).values_list("reclaim_at", flat=True).first()


@transaction.atomic
def withdraw_reclaims(*, now: datetime) -> int:
    """Let those stay whose place is not needed any more. The row stays: it was said."""
    idle = Reclaim.objects.standing().exclude(request__state=RequestState.WAITING)
    allocations = sorted(idle.values_list("allocation_id", flat=True))
    if not allocations:
        return 0
    mark_dirty(allocations, now=now)
    rows = idle.filter(allocation_id__in=allocations).order_by("id")
    ids = [one.id for one in rows.select_for_update(no_key=True, of=("self",))]
    Reclaim.objects.filter(id__in=ids).update(withdrawn_at=now)
    log.info("spot.withdrawn", allocations=[str(one) for one in allocations])
    return len(ids)


def _spots() -> Any:
    """Spot that runs or comes up, and has not been told to leave."""
    told = Reclaim.objects.standing().values("allocation_id")
    living = Allocation.objects.residing().filter(want=Want.RUN, request__market=Market.SPOT)
    return living.exclude(id__in=told)


def _give(*, now: datetime) -> int:
    # Somebody is leaving for these: until his place is free, nobody can say whether it is enough.
    leaving = Reclaim.objects.filter(withdrawn_at=None, allocation__released_at=None)
    served = dict(leaving.values_list("allocation_id", "request_id"))
    waiting = load_waiting(now=now).values()
    asks = [
        one.ask
        for one in waiting
        if one.reasons and _may_reclaim(one.ask) and one.ask.id not in served.values()
    ]
    if not asks:
        return 0
    told: defaultdict[uuid.UUID, list[Spot]] = defaultdict(list)
    for spot in _load(Allocation.objects.filter(id__in=served), now=now):
        told[served[spot.allocation]].append(spot)
    found = plan_victims(
        [(ask.id, ask.kind) for ask in asks],
        load_inventory(),
        load_spots(now=now),
        [(one.ask.kind, told[one.ask.id]) for one in waiting if one.ask.id in told],
    )
    return sum(_write(request_id, victims, now=now) for request_id, victims in found)


def _may_reclaim(ask: Ask) -> bool:
    """Spot asks nobody to leave, and nobody does who waits for his own last place. No gangs yet."""
    return ask.market == Market.ON_DEMAND and ask.bond is None and not ask.is_releasing


def load_spots(*, now: datetime) -> list[Spot]:
    """Return who could be told to leave."""
    return _load(_spots(), now=now)


def _load(allocations: Any, *, now: datetime) -> list[Spot]:
    parts: defaultdict[uuid.UUID, list[Any]] = defaultdict(list)
    rows = list(
        allocations.values_list(
            *("id", "tenant_id", "node_id", "cpu_milli", "ram_mib", "created_at"),
            *("request__group_id", "request__group_size", "request__mode", "request__tenths"),
            named=True,
        )
    )
    slices = Slice.objects.filter(released_at=None, allocation_id__in=[row.id for row in rows])
    for part in slices.values_list("allocation_id", "gpu_id", "cells", "vram_mib", named=True):
        parts[part.allocation_id].append(part)
    return [_spot(row, parts[row.id], now=now) for row in rows if parts[row.id]]


def _spot(row: Any, parts: Sequence[Any], *, now: datetime) -> Spot:
    whole = row.request__mode == "whole"
    return Spot(
        allocation=row.id,
        tenant=row.tenant_id,
        node=row.node_id,
        mode=row.request__mode,
        parts=tuple((part.gpu_id, bits_of(part.cells), part.vram_mib) for part in parts),
        milli=sum(1_000 if whole else 100 * row.request__tenths for _ in parts),
        cpu_milli=row.cpu_milli,
        ram_mib=row.ram_mib,
        ran_s=max(0, int((now - row.created_at).total_seconds())),
        gang=row.request__group_id if row.request__group_size > 1 else None,
    )


@transaction.atomic
def _write(request_id: uuid.UUID, victims: Victims, *, now: datetime) -> int:
    """Tell all of these, or none: if one has left or was told meanwhile, the next pass decides."""
    allocations = [spot.allocation for spot in victims.spots]
    mark_dirty(allocations, now=now)
    waiting = Request.objects.waiting().filter(id=request_id)
    if not waiting.select_for_update(no_key=True, skip_locked=True).exists():
        return 0
    living = _spots().filter(id__in=allocations).order_by("id")
    here = living.select_for_update(no_key=True, skip_locked=True, of=("self",))
    if len(list(here)) != len(allocations):
        return 0
    reclaim_at = now + settings.SCHEDULER_SPOT_NOTICE
    Reclaim.objects.bulk_create(
        Reclaim(
            id=new_id(),
            tenant_id=spot.tenant,
            allocation_id=spot.allocation,
            request_id=request_id,
            given_at=now,
            reclaim_at=reclaim_at,
        )
        for spot in victims.spots
    )
    log.info(
        "spot.reclaimed",
        request=str(request_id),
        allocations=[str(one) for one in allocations],
        reclaim_at=reclaim_at.isoformat(),
    )
    return len(allocations)
