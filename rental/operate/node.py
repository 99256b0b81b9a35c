"""Who is on a node: what runs there, and which instances keep their disks there."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from rental.instances.models import Instance
from rental.tenants.models import Tenant
from scheduler.models import Allocation, Node, Residence


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """An instance on a node; ``instance`` is None where only the scheduler knows of it."""

    tenant: Tenant
    instance: Instance | None
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """
    ``running``: holds a place. ``resting``: has its disks there, and can start there alone.
    ``left``: places that were abandoned and whose end the node has not confirmed.
    """

    running: list[Guest]
    resting: list[Guest]
    left: int = 0


def guests_of(node: Node) -> Guests:
    """Return who is on the node, the longest first. Three queries."""
    all_held = list(
        Allocation.objects.held()
        .filter(node=node)
        .select_related("tenant")
        .order_by("created_at", "id")
    )
    held = [one for one in all_held if one.abandoned_at is None]
    placed = {one.instance_id for one in held}
    kept: dict[uuid.UUID, Residence] = {}
    disks = Residence.objects.residing().filter(node=node).select_related("tenant")
    for disk in disks.order_by("created_at", "id"):
        if disk.instance_id not in placed:
            kept.setdefault(disk.instance_id, disk)
    instances = Instance.objects.select_related("offer").in_bulk([*placed, *kept])

    def guest(row: Allocation | Residence) -> Guest:
        return Guest(
            tenant=row.tenant, instance=instances.get(row.instance_id), since=row.created_at
        )

    return Guests(
        running=[guest(one) for one in held],
        resting=[guest(one) for one in kept.values()],
        left=len(all_held) - len(held),
    )
