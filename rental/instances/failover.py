"""
The pass of lost nodes: who is lost, what may be started elsewhere, and at once where.

One pass, not three: from silence to a copy elsewhere there are 6 s (24 s to 30 s), and each beat
between two passes would cost one of them.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from rental.instances.models import Instance, OnNodeLoss
from rental.instances.moves import NODE_LOST, REPLACED_IN, replace
from rental.instances.passes import each, place
from rental.records.audit import SYSTEM, record_event
from rental.records.ids import to_text
from scheduler.models import LivenessStatus
from scheduler.services import failover
from scheduler.services.liveness import StatusChange, watch_nodes

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What one pass saw and did; ``replaced``: instances that it asked a new place for."""

    changes: Sequence[StatusChange] = ()
    replaced: Sequence[uuid.UUID] = field(default=())


def watch(*, now: datetime) -> Watched:
    """
    Declare who is lost, freeze zones of which much is lost, start elsewhere what its owner wants
    started elsewhere, and place it. Every second; safe to repeat, and by several workers at once.
    """
    changes = watch_nodes(now=now)
    failover.freeze_zones(now=now)
    _say_what_stays(changes, now=now)
    replaced = replace_stranded(now=now)
    if replaced:
        place(now=now)
    return Watched(changes=changes, replaced=replaced)


def replace_stranded(*, now: datetime) -> list[uuid.UUID]:
    """Ask for a new place for each instance that may have one, and return which were looked at."""
    ids = failover.stranded(now=now)
    if not ids:
        return []
    wanted = list(_that_want_it(ids))
    if wanted:
        log.warning("failover.begun", instances=len(wanted))
        each(replace, wanted, now=now)
    return wanted


def _that_want_it(ids: Sequence[uuid.UUID]) -> Sequence[uuid.UUID]:
    found = Instance.objects.filter(
        pk__in=ids, on_node_loss=OnNodeLoss.REPLACE, state__in=REPLACED_IN
    )
    return list(found.order_by("pk").values_list("pk", flat=True))


def _say_what_stays(changes: Sequence[StatusChange], *, now: datetime) -> None:
    """
    Say to those who wanted another place that their node cannot give them up: it has no guard
    that ends the old copy. Once a loss.
    """
    lost = [change.node_id for change in changes if change.after == LivenessStatus.LOST]
    if not lost:
        return
    stays = Instance.objects.filter(
        pk__in=failover.unguarded(lost), on_node_loss=OnNodeLoss.REPLACE, state__in=REPLACED_IN
    )
    for instance in stays.order_by("pk"):
        record_event(
            tenant_id=instance.tenant_id,
            actor=SYSTEM,
            verb="instance.not_replaced",
            subject=to_text("ins", instance.id),
            after={"state": instance.state, "reason": {"code": NODE_LOST, "detail": "no guard"}},
            now=now,
        )
