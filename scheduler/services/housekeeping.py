"""
The sweep that keeps the scheduler's tables small.

Allocations, their requests, slices and disks stay: they say who was on which card, and when.
"""

from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast

from rental.records.pruning import forget
from scheduler.models import Allocation, QuarantineEvent, Request, RequestState
from scheduler.services.liveness import forget_gateways

log = structlog.get_logger()

QUARANTINE_KEPT: Final = timedelta(days=90)
REQUESTS_KEPT: Final = timedelta(days=90)


def keep_house(*, now: datetime) -> None:
    """Forget what is past its time. Safe to repeat."""
    log.info(
        "scheduler.housekeeping",
        gateways=forget_gateways(now=now),
        quarantine_events=forget(_old_quarantine(now=now)),
        requests=forget(_old_requests(now=now)),
    )


def _old_quarantine(*, now: datetime) -> "QuerySet[QuarantineEvent]":
    """
    Those that ended long ago. Of an allocation that is still held they stay: a restart has to
    number its container above all that its node has ever run.
    """
    held = Allocation.objects.held().annotate(text=Cast("id", CharField()))
    return QuarantineEvent.objects.filter(
        ~Exists(held.filter(text=OuterRef("allocation_id"))),
        alive=False,
        last_seen_at__lt=now - QUARANTINE_KEPT,
    )


def _old_requests(*, now: datetime) -> "QuerySet[Request]":
    """Those that came to nothing."""
    return Request.objects.filter(
        ~Exists(Allocation.objects.filter(request_id=OuterRef("pk"))),
        state__in=[RequestState.CANCELLED, RequestState.EXPIRED],
        decided_at__lt=now - REQUESTS_KEPT,
    )
