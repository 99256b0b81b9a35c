"""
What happens to places whose node is lost, and to those that are left on purpose.

A lost node may still run what it ran. So a place on it is *abandoned*: the instance lives there no
more and may be placed elsewhere, while its slices stay held until the node confirms ``gone``.
Nothing is sold twice, and a node that comes back is cleaned before anything new is placed on it.

Only places of the ``null`` runtime are abandoned: the guard that ends a container on a node cut
off from us comes with the agent. Source: DESIGN §7, docs/failure.md.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from rental.records.audit import SYSTEM, record_event
from scheduler.models import (
    Allocation,
    LivenessStatus,
    Node,
    NodeLiveness,
    Residence,
    ResidenceWant,
    Want,
    Zone,
)
from scheduler.services.allocations import bump_versions
from scheduler.services.liveness import is_listening

log = structlog.get_logger()

# Runtimes on which an instance may be started elsewhere while its old container cannot be seen.
GUARDED_RUNTIMES: Final = ("null",)
# Runtimes whose system disk a planned move can carry; of ``null`` there is nothing to carry.
MOVABLE_RUNTIMES: Final = ("null",)

# Mass loss: this part of a zone's nodes, and at least so many; or all of them.
MASS_PERCENT: Final = 30
MASS_NODES: Final = 3
# What fails together is not declared together: pulses come every 3 s, passes every 1 s.
MASS_LEAD: Final = timedelta(seconds=6)


def is_guarded(node: Node) -> bool:
    """Return whether what runs here may be started elsewhere when the node is lost."""
    return node.facts.get("runtime") in GUARDED_RUNTIMES


def is_movable(node: Node) -> bool:
    """Return whether a planned move can carry what an instance has written here."""
    return node.facts.get("runtime") in MOVABLE_RUNTIMES


def region_is_guarded(region: str) -> bool:
    """Return whether every node of the region is guarded, and there is one: wherever an instance
    is placed there, it can be started elsewhere."""
    runtimes = set(
        Node.objects.filter(zone__region_id=region).values_list("facts__runtime", flat=True)
    )
    return bool(runtimes) and runtimes <= set(GUARDED_RUNTIMES)


# --- mass loss


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneLoss:
    """Nodes of a zone that count, and how many of them are lost or about to be."""

    nodes: int
    lost: int

    @property
    def is_mass(self) -> bool:
        if not self.lost:
            return False
        is_large = self.lost >= MASS_NODES and self.lost * 100 >= MASS_PERCENT * self.nodes
        return self.lost == self.nodes or is_large


def read_losses(*, now: datetime) -> dict[str, ZoneLoss]:
    """
    Return how each zone with nodes stands. A node counts from its first pulse until it is given
    up: lost, cordoned, and nothing held or kept on it.
    """
    held = Allocation.objects.held().filter(node_id=OuterRef("node_id"))
    kept = Residence.objects.present().filter(node_id=OuterRef("node_id"))
    rows = NodeLiveness.objects.values_list(
        "node__zone_id", "node__cordoned", "status", "received_at", Exists(held), Exists(kept)
    )
    about_to_be = now - settings.SCHEDULER_NODE_LOST + MASS_LEAD
    nodes, lost = Counter[str](), Counter[str]()
    for zone, cordoned, status, received_at, has_places, has_disks in rows:
        is_lost = status == LivenessStatus.LOST
        if is_lost and cordoned and not has_places and not has_disks:
            continue
        nodes[zone] += 1
        lost[zone] += is_lost or (status == LivenessStatus.SUSPECT and received_at <= about_to_be)
    return {zone: ZoneLoss(nodes=nodes[zone], lost=lost[zone]) for zone in nodes}


@transaction.atomic
def freeze_zones(*, now: datetime) -> list[Zone]:
    """
    Freeze re-placement from zones of which much is lost, thaw the others; return what changed.
    A network that is cut in two looks like this: the nodes run on, and copies of all would too.
    """
    are_all_live = not NodeLiveness.objects.exclude(status=LivenessStatus.LIVE).exists()
    if are_all_live and not Zone.objects.filter(frozen_at__isnull=False).exists():
        return []
    losses = read_losses(now=now)
    changed = []
    for zone in Zone.objects.order_by("pk").select_for_update(no_key=True):
        loss = losses.get(zone.pk, ZoneLoss(nodes=0, lost=0))
        if loss.is_mass == (zone.frozen_at is not None):
            continue
        zone.frozen_at = now if loss.is_mass else None
        zone.save(update_fields=["frozen_at"])
        verb = "zone.frozen" if loss.is_mass else "zone.thawed"
        record_event(
            tenant_id=None,
            actor=SYSTEM,
            verb=verb,
            subject=zone.pk,
            after={"lost": loss.lost, "nodes": loss.nodes},
            now=now,
        )
        log.error(verb, zone=zone.pk, lost=loss.lost, nodes=loss.nodes)
        changed.append(zone)
    return changed


# --- abandoned places


def stranded(*, now: datetime) -> list[uuid.UUID]:
    """
    Return the instances whose place may be given up now: their node is lost and guarded, its zone
    not frozen, and the control plane has listened long enough to know. By id; two queries where
    nothing is lost.
    """
    lost = _lost_nodes(now=now).filter(node__zone__frozen_at=None)
    nodes = list(
        lost.filter(node__facts__runtime__in=GUARDED_RUNTIMES).values_list("node_id", flat=True)
    )
    if not nodes or not is_listening(now=now):
        return []
    places = Allocation.objects.residing().filter(node_id__in=nodes)
    return list(places.order_by("instance_id").values_list("instance_id", flat=True))


def unguarded(node_ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
    """Return the instances that live on those of the nodes where nothing may be re-placed."""
    nodes = [node.id for node in Node.objects.filter(id__in=list(node_ids)) if not is_guarded(node)]
    places = Allocation.objects.residing().filter(node_id__in=nodes)
    return list(places.order_by("instance_id").values_list("instance_id", flat=True))


def _lost_nodes(*, now: datetime) -> "QuerySet[NodeLiveness]":
    # The silence is asked for again: a pulse that came since the declaration wins.
    return NodeLiveness.objects.filter(
        status=LivenessStatus.LOST, received_at__lte=now - settings.SCHEDULER_NODE_LOST
    )


@transaction.atomic
def abandon(*, instance_id: uuid.UUID, now: datetime) -> Allocation | None:
    """
    Give up the instance's place if its node is lost, and its disks there; return the allocation.
    None if it lives on no lost node (any more). The caller holds the instance.
    """
    places = Allocation.objects.residing().filter(instance_id=instance_id)
    allocation = places.select_for_update(no_key=True).first()
    if allocation is None or not _lost_nodes(now=now).filter(node_id=allocation.node_id).exists():
        return None
    disks = _leave_disks(allocation, now=now)
    allocation.want = Want.GONE
    allocation.abandoned_at = now
    allocation.endpoints = []
    allocation.save(update_fields=["want", "abandoned_at", "endpoints"])
    bump_versions([allocation.node_id])
    log.warning(
        "allocation.abandoned",
        allocation=str(allocation.id),
        instance=str(instance_id),
        node=str(allocation.node_id),
        disks=disks,
    )
    return allocation


@transaction.atomic
def leave(*, instance_id: uuid.UUID, now: datetime) -> Allocation | None:
    """
    Order the instance's place gone, and its disks there, whose bytes a planned move carries. It
    is placed elsewhere as soon as the node has confirmed the end: never two at once. None if it
    has no place. The caller holds the instance.
    """
    places = Allocation.objects.residing().filter(instance_id=instance_id)
    allocation = places.select_for_update(no_key=True).first()
    if allocation is None:
        return None
    _leave_disks(allocation, now=now)
    allocation.want = Want.GONE
    allocation.save(update_fields=["want"])
    bump_versions([allocation.node_id])
    return allocation


def _leave_disks(allocation: Allocation, *, now: datetime) -> int:
    disks = Residence.objects.residing().filter(instance_id=allocation.instance_id)
    ids = [row.id for row in disks.order_by("id").select_for_update(no_key=True)]
    Residence.objects.filter(id__in=ids).update(want=ResidenceWant.GONE, abandoned_at=now)
    return len(ids)


def cleaning(node_ids: Sequence[uuid.UUID] | None = None) -> set[uuid.UUID]:
    """Return the nodes that have not confirmed the end of all that was abandoned on them."""
    found: set[uuid.UUID] = set()
    for rows in (
        Allocation.objects.held().filter(abandoned_at__isnull=False),
        Residence.objects.present().filter(abandoned_at__isnull=False),
    ):
        wanted = rows if node_ids is None else rows.filter(node_id__in=node_ids)
        found.update(wanted.values_list("node_id", flat=True))
    return found
