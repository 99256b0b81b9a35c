"""What lower floors say of an instance now: its request, allocation, run, node and disks."""

import uuid
from dataclasses import dataclass

from billing.models import Run
from rental.instances.models import Instance
from scheduler.models import (
    Allocation,
    LivenessStatus,
    NodeLiveness,
    Request,
    RequestState,
    Residence,
    ResidenceWant,
)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """
    ``allocation``: the one that the present request became, released or not. ``run``: the one
    that counts now. ``node``: what was declared of the allocation's node, None without one.
    """

    request: Request | None
    allocation: Allocation | None
    run: Run | None
    node: LivenessStatus | None

    @property
    def holds_a_place(self) -> bool:
        return self.allocation is not None and self.allocation.released_at is None

    @property
    def is_between_places(self) -> bool:
        """True while it has asked for a place and has none: at first, and when it moves."""
        return self.allocation is None and (
            self.request is not None and self.request.state != RequestState.PLACED
        )

    @property
    def is_dark(self) -> bool:
        """True once the node was declared lost; a suspect node still gets its chance."""
        return self.holds_a_place and self.node is LivenessStatus.LOST


def read_facts(instance: Instance) -> Facts:
    """Read without locks: whoever changes one of these rows marks it, and is compared again."""
    request = allocation = run = None
    if instance.request_id is not None:
        request = Request.objects.filter(pk=instance.request_id).first()
        allocation = (
            Allocation.objects.filter(request_id=instance.request_id).order_by("-pk").first()
        )
    if allocation is not None:
        run = Run.objects.filter(pk=allocation.run_id).first()
    return Facts(
        request=request,
        allocation=allocation,
        run=run,
        node=node_status(allocation.node_id) if allocation is not None else None,
    )


def node_status(node_id: uuid.UUID) -> LivenessStatus:
    """Return what was declared of a node; one that was never heard is suspect, not lost."""
    row = NodeLiveness.objects.filter(pk=node_id).values_list("status", flat=True).first()
    return LivenessStatus(row) if row is not None else LivenessStatus.SUSPECT


def holds_anything(instance: Instance) -> bool:
    """True while a node has not confirmed that nothing of the instance is left on it."""
    return (
        Allocation.objects.filter(instance_id=instance.id, released_at__isnull=True).exists()
        or Residence.objects.filter(instance_id=instance.id, wiped_at__isnull=True).exists()
    )


def disks_are_on(instance: Instance) -> uuid.UUID | None:
    """Return the node that keeps the instance's disks, None if it has none."""
    return (
        Residence.objects.filter(
            instance_id=instance.id, wiped_at__isnull=True, want=ResidenceWant.KEEP
        )
        .values_list("node_id", flat=True)
        .first()
    )
