"""
The operator declares a node dead: what it held is free again, and lost.

Nobody confirms a wipe here. Should the machine come back, it finds no order for what it still
runs: that goes into quarantine and is never ended by itself, and the node stays cordoned until an
operator has emptied it. Nothing of its disks is sold before that.
"""

import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from scheduler.errors import NodeIsAlive, NodeIsChanging, UnknownNode
from scheduler.models import (
    Allocation,
    LivenessStatus,
    Node,
    Request,
    RequestState,
    Residence,
    ResidenceWant,
    Want,
)
from scheduler.services.hardware import cordon
from scheduler.services.liveness import mark_dirty
from scheduler.services.release import give_back, give_disks_back

log = structlog.get_logger()

# In ``Request.reasons``: its disks were on a node that was declared dead.
NODE_DEAD = "node_dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How much was lost with a node; ``requests`` waited for its disks and wait no more."""

    allocations: int
    residences: int
    requests: int


@transaction.atomic
def declare_dead(*, node_id: uuid.UUID, actor: Actor, reason: str, now: datetime) -> Death:
    """
    Release all that the node holds, give its disks up, and cordon it.

    The instances that ran there are marked: the floor above fails them and closes their runs at
    this instant. Later ticks are never charged; earlier ones if the node ever proves them.

    :param now: by PostgreSQL's clock, since it is compared with when the node was heard
    :raises UnknownNode: if there is none
    :raises NodeIsAlive: unless the node is lost, or was never heard for as long as that takes
    :raises NodeIsChanging: if something is placed there meanwhile
    """
    _check_silent(node_id, now=now)
    disks_here = Residence.objects.filter(node_id=node_id, wiped_at=None)
    # Of what was abandoned the instances live elsewhere, or wait for a place elsewhere.
    homes = disks_here.filter(abandoned_at=None)
    owners = list(homes.values_list("instance_id", flat=True))
    marked = Allocation.objects.filter(node_id=node_id).filter(
        Q(released_at=None) | Q(instance_id__in=owners)
    )
    # The locks, in the order of the house: marks, requests, allocations, disks, node.
    mark_dirty(marked.values_list("id", flat=True), now=now)
    requests = _cancel_requests(node_id, owners, now=now)
    allocations = _release_allocations(node_id, now=now)
    residences = _lose_residences(node_id, now=now)
    cordon(node_id=node_id, actor=actor, now=now)
    if Allocation.objects.held().filter(node_id=node_id).exists():
        raise NodeIsChanging(node_id)
    give_back(allocations)
    give_disks_back(residences)
    death = Death(allocations=len(allocations), residences=len(residences), requests=len(requests))
    _record(node_id, death, residences, actor=actor, reason=reason, now=now)
    return death


def _check_silent(node_id: uuid.UUID, *, now: datetime) -> None:
    """
    Its liveness row is not locked: pulses of all nodes would wait. A pulse that comes in this very
    moment makes it a node that comes back.
    """
    node = Node.objects.select_related("liveness").filter(pk=node_id).first()
    if node is None:
        raise UnknownNode(node_id)
    liveness = getattr(node, "liveness", None)
    heard_at = node.created_at if liveness is None else liveness.received_at
    is_declared = liveness is None or liveness.status == LivenessStatus.LOST
    if not is_declared or now - heard_at < settings.SCHEDULER_NODE_LOST:
        raise NodeIsAlive(node_id)


def _cancel_requests(
    node_id: uuid.UUID, owners: list[uuid.UUID], *, now: datetime
) -> list[uuid.UUID]:
    """Take back what waits for its disks there: it must not start somewhere without them."""
    pinned = Request.objects.waiting().filter(
        Q(residences_on_id=node_id) | Q(instance_id__in=owners)
    )
    ids = [row.id for row in pinned.order_by("id").select_for_update(no_key=True)]
    Request.objects.filter(id__in=ids).update(
        state=RequestState.CANCELLED, decided_at=now, reasons={NODE_DEAD: 1}
    )
    return ids


def _release_allocations(node_id: uuid.UUID, *, now: datetime) -> list[Allocation]:
    held = Allocation.objects.held().filter(node_id=node_id)
    rows = list(held.order_by("id").select_for_update(no_key=True))
    Allocation.objects.filter(id__in=[row.id for row in rows]).update(
        want=Want.GONE, released_at=now, lost_at=now, endpoints=[]
    )
    return rows


def _lose_residences(node_id: uuid.UUID, *, now: datetime) -> list[Residence]:
    disks = Residence.objects.filter(node_id=node_id, wiped_at=None)
    rows = list(disks.order_by("id").select_for_update(no_key=True))
    Residence.objects.filter(id__in=[row.id for row in rows]).update(
        want=ResidenceWant.GONE, wiped_at=now, lost_at=now
    )
    return rows


def _record(
    node_id: uuid.UUID,
    death: Death,
    residences: list[Residence],
    *,
    actor: Actor,
    reason: str,
    now: datetime,
) -> None:
    """Audit it for the operator; and for each tenant which of his instances' disks are lost."""
    node = to_text("nod", node_id)
    counts = {"allocations": death.allocations, "residences": death.residences}
    record_event(
        tenant_id=None,
        actor=actor,
        verb="node.declared_dead",
        subject=node,
        after=counts | {"requests": death.requests, "reason": reason},
        now=now,
    )
    kinds: defaultdict[tuple[uuid.UUID, uuid.UUID], list[str]] = defaultdict(list)
    for disk in residences:
        kinds[disk.tenant_id, disk.instance_id].append(disk.kind)
    for (tenant_id, instance_id), lost in sorted(kinds.items()):
        record_event(
            tenant_id=tenant_id,
            actor=actor,
            verb="instance.disks_lost",
            subject=to_text("ins", instance_id),
            after={"node": node, "disks": sorted(lost)},
            now=now,
        )
    log.warning("node.declared_dead", node=str(node_id), reason=reason, **counts)
