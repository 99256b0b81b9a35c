"""
The pass of maintenance: notices while a node is to be left, moves and stops when it is drained.

Who may be moved is stopped only when there is room elsewhere, and starts there as soon as its node
has confirmed the end. Who may not, or finds no room, is stopped at the deadline; the disk is kept.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime

import structlog
from django.db import transaction

from rental.instances import orders
from rental.instances.facts import read_facts
from rental.instances.level import end_session, level
from rental.instances.models import Instance, Notice, NoticeKind
from rental.instances.moves import MAINTENANCE, move_away
from rental.instances.passes import each
from rental.instances.states import COMING_UP, InstanceState
from rental.records import outbox
from rental.records.ids import to_text
from scheduler.models import Allocation, LivenessStatus, Node, Want
from scheduler.queries import Room, read_room
from scheduler.services import windows
from scheduler.services.failover import is_movable

log = structlog.get_logger()
S = InstanceState
LIVES_IN = (*COMING_UP, S.RUNNING)
# Moves that one pass begins: each costs a look at the fleet.
MOST_MOVES = 20


def drain(*, now: datetime) -> int:
    """
    Begin the windows that are due, tell whom it concerns, move and stop. Returns how many
    instances live on nodes that are to be left. Every 5 s; safe to repeat.
    """
    windows.begin_due(now=now)
    leaving = windows.nodes_to_leave()
    homes = _homes(leaving)
    level_notices({one: leaving[node] for one, node in homes.items()}, now=now)
    drained = Node.objects.filter(pk__in=leaving, drained=True).select_related("liveness").in_bulk()
    here = {one: drained[node] for one, node in homes.items() if node in drained}
    if here:
        _empty(here, now=now)
    return len(homes)


def _homes(leaving: Mapping[uuid.UUID, datetime]) -> dict[uuid.UUID, uuid.UUID]:
    """Return on which of the nodes each instance lives that may not stay."""
    if not leaving:
        return {}
    places = Allocation.objects.residing().filter(node_id__in=list(leaving), want=Want.RUN)
    homes = dict(places.values_list("instance_id", "node_id"))
    live = Instance.objects.filter(pk__in=list(homes), state__in=LIVES_IN)
    return {one: homes[one] for one in live.order_by("pk").values_list("pk", flat=True)}


def _empty(here: Mapping[uuid.UUID, Node], *, now: datetime) -> None:
    """Move whom there is room for; stop whose time is over."""
    movable = [one for one, node in here.items() if is_movable(node) and _is_heard(node)]
    asking = Instance.objects.filter(pk__in=movable, state=S.RUNNING, migrate_ok=True)
    moving: list[uuid.UUID] = []
    room: Room | None = None
    for instance in asking.order_by("pk"):
        if len(moving) == MOST_MOVES:
            break
        room = room or read_room(now=now)
        if _takes(room, instance):
            moving.append(instance.pk)
    if moving:
        each(_move_one, moving, now=now)
    late = [
        one
        for one, node in here.items()
        if one not in moving and node.drain_by is not None and node.drain_by <= now
    ]
    each(_stop_one, late, now=now)


def _is_heard(node: Node) -> bool:
    """A node that cannot be heard confirms no end: what it runs would wait for it, stopped."""
    liveness = getattr(node, "liveness", None)
    return liveness is not None and liveness.status == LivenessStatus.LIVE


def _takes(room: Room, instance: Instance) -> bool:
    return room.take(
        orders.shape_of(instance.shape), region=instance.region, tenant_id=instance.tenant_id
    )


def _move_one(instance: Instance, *, now: datetime) -> None:
    move_away(instance, now=now)


def _stop_one(instance: Instance, *, now: datetime) -> None:
    level(instance, now=now)
    facts = read_facts(instance)
    if instance.state not in LIVES_IN or facts.allocation is None:
        return
    by = Node.objects.filter(pk=facts.allocation.node_id, drained=True).values_list("drain_by")
    if any(at is not None and at <= now for (at,) in by):
        end_session(instance, facts, reason={"code": MAINTENANCE}, at=now, now=now)


# --- notices


def level_notices(deadlines: Mapping[uuid.UUID, datetime], *, now: datetime) -> int:
    """
    Give each of these instances its one notice of maintenance, withdraw those that are not true
    any more, and return how many instances changed. Safe to repeat.
    """
    rows = Notice.objects.standing().filter(kind=NoticeKind.MAINTENANCE)
    standing = dict(rows.values_list("instance_id", "deadline"))
    wrong = [
        one for one in deadlines.keys() | standing.keys() if deadlines.get(one) != standing.get(one)
    ]
    for instance_id in sorted(wrong):
        _level_notice(instance_id, deadlines.get(instance_id), now=now)
    return len(wrong)


@transaction.atomic
def _level_notice(instance_id: uuid.UUID, deadline: datetime | None, *, now: datetime) -> None:
    instance = Instance.objects.locked().get(pk=instance_id)
    rows = Notice.objects.standing().filter(instance=instance, kind=NoticeKind.MAINTENANCE)
    standing = rows.first()
    if (standing.deadline if standing else None) == deadline:
        return
    rows.update(withdrawn_at=now)
    if standing is not None:
        _send(instance, standing, verb="withdrawn", now=now)
    if deadline is None or instance.state not in LIVES_IN:
        return
    notice = Notice.objects.create(
        tenant_id=instance.tenant_id,
        instance=instance,
        kind=NoticeKind.MAINTENANCE,
        at=now,
        deadline=deadline,
    )
    _send(instance, notice, verb="given", now=now)
    log.info("instance.notice", instance=str(instance.id), deadline=deadline.isoformat())


def _send(instance: Instance, notice: Notice, *, verb: str, now: datetime) -> None:
    """To e-mail and webhooks, each once."""
    outbox.put(
        topic=f"instance.notice_{verb}",
        key=str(notice.pk),
        payload={
            "tenant": str(instance.tenant_id),
            "instance": to_text("ins", instance.pk),
            "kind": notice.kind,
            "deadline": notice.deadline.isoformat(),
        },
        now=now,
    )
