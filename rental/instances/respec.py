"""An order that changes while it stands: keys, password, what an instance is told."""

from datetime import datetime

from rental.instances.level import level
from rental.instances.models import Instance
from rental.instances.specs import build_spec
from rental.instances.states import InstanceState
from scheduler.models import Allocation, Want
from scheduler.services import allocations
from scheduler.services.requests import change_request


def tell_node(instance: Instance, *, now: datetime) -> None:
    """Let the order say it: that of the node, or the one that waits for a node."""
    spec = build_spec(instance)
    if change_request(instance_id=instance.id, spec=spec, now=now):
        return
    if instance.state == InstanceState.QUEUED:
        level(instance, now=now)  # a pass placed it meanwhile
    held = Allocation.objects.residing().filter(instance_id=instance.id, want=Want.RUN).first()
    if held is not None:
        allocations.update_spec(allocation_id=held.id, spec=spec, now=now)
