"""
The pass of maintenance: notices while a node is to be left, moves and stops when it is drained.

Who may be moved is stopped only when there is room elsewhere, and starts there as soon as its node
has confirmed the end. Who may not, or finds no room, is stopped at the deadline; the disk is kept.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime

import structlog

from rental.instances import orders
from rental.instances.facts import read_facts
from rental.instances.foretold import LIVES_IN, level_notices
from rental.instances.level import end_session, level
from rental.instances.models import Instance, NoticeKind
from rental.instances.moves import MAINTENANCE, move_away
from rental.instances.passes import each
from rental.instances.states import InstanceState
from scheduler.models import Allocation, LivenessStatus, Node, Want
from scheduler.queries import Room, read_room
from scheduler.services import windows
from scheduler.services.failover import is_movable

log = structlog.get_logger()
S = InstanceState
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
    deadlines = {one: leaving[node] for one, node in homes.items()}
    level_notices(deadlines, kind=NoticeKind.MAINTENANCE, now=now)
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
