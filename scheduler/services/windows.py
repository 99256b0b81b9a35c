"""Maintenance windows: announced, cancelled, begun. Who is told of them is not known here."""

import uuid
from datetime import datetime

import structlog
from django.conf import settings
from django.db import transaction

from rental.records.audit import SYSTEM, Actor, record_event
from rental.records.ids import to_text
from scheduler.errors import BadWindow, UnknownNode, UnknownWindow
from scheduler.models import MaintenanceWindow, Node
from scheduler.services.hardware import drain

log = structlog.get_logger()


@transaction.atomic
def announce(
    *,
    node_id: uuid.UUID,
    begins_at: datetime,
    ends_at: datetime,
    reason: str,
    actor: Actor,
    now: datetime,
) -> MaintenanceWindow:
    """
    Announce that the node is worked on during [begins_at, ends_at). At ``begins_at`` it is drained.

    :raises UnknownNode: if there is none
    :raises BadWindow: if it begins sooner than ``SCHEDULER_MAINTENANCE_NOTICE`` from now, ends
        before it begins, has no reason, or another window of the node is still to come
    """
    if not Node.objects.select_for_update(no_key=True).filter(pk=node_id).exists():
        raise UnknownNode(node_id)
    if begins_at < now + settings.SCHEDULER_MAINTENANCE_NOTICE:
        raise BadWindow("too_soon")
    if ends_at <= begins_at:
        raise BadWindow("no_time")
    if not reason.strip():
        raise BadWindow("no_reason")
    if MaintenanceWindow.objects.announced().filter(node_id=node_id).exists():
        raise BadWindow("announced")
    window = MaintenanceWindow.objects.create(
        node_id=node_id,
        begins_at=begins_at,
        ends_at=ends_at,
        reason=reason.strip()[:200],
        announced_at=now,
    )
    _record("node.maintenance_announced", window, actor=actor, now=now)
    return window


@transaction.atomic
def cancel(*, window_id: uuid.UUID, actor: Actor, now: datetime) -> MaintenanceWindow:
    """
    Take a window back; its notices are withdrawn by the next pass. Again changes nothing.

    :raises UnknownWindow: if there is none
    :raises BadWindow: if it has begun
    """
    rows = MaintenanceWindow.objects.select_for_update(no_key=True).filter(pk=window_id)
    window = rows.first()
    if window is None:
        raise UnknownWindow(window_id)
    if window.begun_at is not None:
        raise BadWindow("begun")
    if window.cancelled_at is None:
        window.cancelled_at = now
        window.save(update_fields=["cancelled_at"])
        _record("node.maintenance_cancelled", window, actor=actor, now=now)
    return window


@transaction.atomic
def begin_due(*, now: datetime) -> int:
    """Drain the nodes whose window begins, and return how many. Safe to repeat."""
    due = MaintenanceWindow.objects.announced().filter(begins_at__lte=now).order_by("node_id")
    windows = list(due.select_for_update(skip_locked=True, no_key=True))
    for window in windows:
        drain(node_id=window.node_id, actor=SYSTEM, by=window.begins_at, now=now)
        window.begun_at = now
        window.save(update_fields=["begun_at"])
        _record("node.maintenance_begun", window, actor=SYSTEM, now=now)
    return len(windows)


def nodes_to_leave() -> dict[uuid.UUID, datetime]:
    """Return by when each node will be empty: those that are drained, and those with a window."""
    found = dict(MaintenanceWindow.objects.announced().values_list("node_id", "begins_at"))
    drained = Node.objects.filter(drained=True).values_list("id", "drain_by")
    return found | {node_id: by for node_id, by in drained if by is not None}


def _record(verb: str, window: MaintenanceWindow, *, actor: Actor, now: datetime) -> None:
    record_event(
        tenant_id=None,
        actor=actor,
        verb=verb,
        subject=to_text("nod", window.node_id),
        after={
            "begins_at": window.begins_at.isoformat(),
            "ends_at": window.ends_at.isoformat(),
            "reason": window.reason,
        },
        now=now,
    )
    log.info(verb, node=str(window.node_id), begins_at=window.begins_at.isoformat())
