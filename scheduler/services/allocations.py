"""Orders to a node about what it holds. Each raises the node's version in the same transaction."""

import uuid
from collections.abc import Iterable
from datetime import datetime

import msgspec
from django.db import transaction
from django.db.models import F, Max

from agents.protocol import AllocationSpec
from scheduler.errors import AllocationIsGoing, UnknownAllocation
from scheduler.models import (
    Allocation,
    Node,
    QuarantineEvent,
    Request,
    Residence,
    ResidenceWant,
    Want,
)


def bump_versions(node_ids: Iterable[uuid.UUID]) -> None:
    """Raise the nodes' versions, locking them by id."""
    wanted = sorted(set(node_ids))
    if not wanted:
        return
    # An UPDATE locks in the order of its plan; this SELECT locks in the order of the house.
    list(
        Node.objects.filter(id__in=wanted)
        .order_by("id")
        .select_for_update(no_key=True)
        .values("id")
    )
    Node.objects.filter(id__in=wanted).update(version=F("version") + 1)


def _lock(allocation_id: uuid.UUID) -> Allocation:
    rows = Allocation.objects.select_for_update(no_key=True).filter(id=allocation_id)
    if (allocation := rows.first()) is None:
        raise UnknownAllocation(allocation_id)
    return allocation


def _lock_going_on(allocation_id: uuid.UUID) -> Allocation:
    allocation = _lock(allocation_id)
    if allocation.want == Want.GONE:
        raise AllocationIsGoing(allocation_id)
    return allocation


@transaction.atomic
def order_gone(*, allocation_id: uuid.UUID, now: datetime) -> None:
    """
    Order the node to end and wipe the allocation. Its slices stay held until the node confirms.
    Ordering it again changes nothing.

    :raises UnknownAllocation: if there is none
    """
    allocation = _lock(allocation_id)
    if allocation.want == Want.GONE:
        return
    allocation.want = Want.GONE
    allocation.save(update_fields=["want"])
    bump_versions([allocation.node_id])


@transaction.atomic
def order_stop(*, allocation_id: uuid.UUID, now: datetime, at_tick: int | None = None) -> None:
    """
    Order the node to end the container and keep its place and bytes: now, or by itself at the end
    of tick ``at_tick - 1`` of its run, link or no link.

    :raises UnknownAllocation: if there is none
    :raises AllocationIsGoing: if it is ordered gone
    """
    allocation = _lock_going_on(allocation_id)
    want = allocation.want if at_tick is not None else Want.STOP
    if (allocation.want, allocation.stop_at_tick) == (want, at_tick):
        return
    allocation.want, allocation.stop_at_tick = want, at_tick
    allocation.save(update_fields=["want", "stop_at_tick"])
    bump_versions([allocation.node_id])


@transaction.atomic
def restart(*, allocation_id: uuid.UUID, run_id: uuid.UUID, now: datetime) -> Allocation:
    """
    Order a fresh container in the same place under a new run: incarnation + 1, or above what the
    node runs from a future that a restored database has forgotten.

    :raises UnknownAllocation: if there is none
    :raises AllocationIsGoing: if it is ordered gone
    """
    allocation = _lock_going_on(allocation_id)
    seen = QuarantineEvent.objects.filter(
        node_id=allocation.node_id, allocation_id=str(allocation_id)
    ).aggregate(latest=Max("incarnation"))
    allocation.incarnation = max(allocation.incarnation, seen["latest"] or 0) + 1
    allocation.run_id = run_id
    allocation.want = Want.RUN
    allocation.stop_at_tick = None
    allocation.save(update_fields=["incarnation", "run_id", "want", "stop_at_tick"])
    bump_versions([allocation.node_id])
    return allocation


@transaction.atomic
def update_spec(*, allocation_id: uuid.UUID, spec: AllocationSpec, now: datetime) -> int:
    """
    Store a new spec, which the node applies live, and return its revision.

    :raises UnknownAllocation: if there is none
    :raises AllocationIsGoing: if it is ordered gone
    """
    allocation = _lock_going_on(allocation_id)
    allocation.spec = msgspec.to_builtins(spec)
    allocation.spec_rev += 1
    allocation.save(update_fields=["spec", "spec_rev"])
    bump_versions([allocation.node_id])
    return allocation.spec_rev


@transaction.atomic
def expect_end(*, instance_id: uuid.UUID, ends_at: datetime | None, now: datetime) -> None:
    """
    Store when the instance will be over, as far as anybody knows. It orders nothing: gangs that
    have waited long are kept nodes from such a moment on.
    """
    lasts_s = None if ends_at is None else max(0, int((ends_at - now).total_seconds()))
    Request.objects.waiting().filter(instance_id=instance_id).update(lasts_s=lasts_s)
    Allocation.objects.residing().filter(instance_id=instance_id).update(ends_at=ends_at)


@transaction.atomic
def release_residences(*, instance_id: uuid.UUID, now: datetime) -> int:
    """
    Order the wipe of the instance's disks and return how many. Their space stays held until the
    node confirms.
    """
    residences = _lock_kept(instance_id)
    _want_wiped(residences)
    bump_versions(residence.node_id for residence in residences)
    return len(residences)


@transaction.atomic
def order_all_gone(
    *, instance_id: uuid.UUID, allocation_id: uuid.UUID | None, now: datetime
) -> None:
    """
    Order the instance's allocation, if it holds one, and its disks gone. One order, because of
    the locks: allocation, residences, node; whoever reads a hello takes them like this.

    :raises UnknownAllocation: if there is none
    """
    allocation = None if allocation_id is None else _lock(allocation_id)
    residences = _lock_kept(instance_id)
    nodes = [residence.node_id for residence in residences]
    if allocation is not None and allocation.want != Want.GONE:
        allocation.want = Want.GONE
        allocation.save(update_fields=["want"])
        nodes.append(allocation.node_id)
    _want_wiped(residences)
    bump_versions(nodes)


def _lock_kept(instance_id: uuid.UUID) -> list[Residence]:
    # What is wiped was ordered gone; said again for the index, which has no wiped disks.
    rows = Residence.objects.filter(instance_id=instance_id, want=ResidenceWant.KEEP, wiped_at=None)
    return list(rows.order_by("id").select_for_update(no_key=True))


def _want_wiped(residences: Iterable[Residence]) -> None:
    ids = [residence.id for residence in residences]
    Residence.objects.filter(id__in=ids).update(want=ResidenceWant.GONE)
