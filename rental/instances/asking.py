"""Asking the scheduler for a place."""

from datetime import datetime

from rental.instances import orders
from rental.instances.ends import lasts_s
from rental.instances.facts import disks_are_on
from rental.instances.models import Instance
from rental.instances.specs import build_spec
from rental.records.ids import new_id
from scheduler.services.requests import open_request


def ask_for_a_place(
    instance: Instance, *, incarnation: int = 1, is_failover: bool = False, now: datetime
) -> None:
    """``is_failover``: it lost its place; see scheduler.services.requests.open_request."""
    request = open_request(
        request_id=new_id(),
        tenant_id=instance.tenant_id,
        instance_id=instance.id,
        shape=orders.shape_of(instance.shape),
        market=instance.market,
        region=instance.region,
        spec=build_spec(instance),
        residences_on=disks_are_on(instance),
        incarnation=incarnation,
        is_failover=is_failover,
        lasts_s=lasts_s(instance, now=now),
        now=now,
    )
    instance.request_id = request.id
    instance.save(update_fields=["request_id"])
