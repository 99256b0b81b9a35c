"""
An instance changes its place: its node was lost, or is drained. Same id, name, slug and session;
a new container, a new run.

Both are one thing after the first step: the old place is given up, the run is closed, and a
request that goes first waits for a new place. What ran is ``migrating`` meanwhile; what was coming
up goes on doing so. ``level`` follows from there. Call on a locked instance.
"""

from datetime import datetime
from typing import Final

import structlog
from django.conf import settings

from billing.models import Run
from billing.services import runs
from rental.instances import operations
from rental.instances.asking import ask_for_a_place
from rental.instances.facts import read_facts
from rental.instances.level import level
from rental.instances.models import Instance, Notice, NoticeKind, OnNodeLoss, OperationKind
from rental.instances.states import COMING_UP, InstanceState
from rental.records.audit import SYSTEM, record_event
from rental.records.ids import to_text
from scheduler.models import Allocation, Want
from scheduler.services import failover
from scheduler.services.observe import OVER

log = structlog.get_logger()
S = InstanceState

NODE_LOST: Final = "node_lost"
MAINTENANCE: Final = "maintenance"
# What is started again elsewhere when its node is lost.
REPLACED_IN: Final = (*COMING_UP, S.RUNNING, S.MIGRATING)


def replace(instance: Instance, *, now: datetime) -> None:
    """
    Ask for another place if the instance's node is lost and its owner wants that. Only what is
    proven is charged: the run ends at its last proven tick, and there is none until the new
    container is ready.
    """
    if instance.state not in REPLACED_IN or instance.on_node_loss != OnNodeLoss.REPLACE:
        return
    if _is_over(instance):
        level(instance, now=now)  # it had ended before its node was lost
        return
    left = failover.abandon(instance_id=instance.id, now=now)
    if left is None or left.request_id != instance.request_id:
        return  # or it waits for the end of its old place already, and need not any more
    for run in Run.objects.filter(instance_id=instance.id, closed_at=None).order_by("pk"):
        runs.close_at_proof(run_id=run.id, reason=NODE_LOST)
    _ask_elsewhere(instance, left, code=NODE_LOST, verb="instance.replaced", now=now)


def _is_over(instance: Instance) -> bool:
    """Whether its node has said so, or is to end it, or billing has ended it."""
    facts = read_facts(instance)
    if facts.is_between_places or facts.allocation is None:
        return False
    has_ended = facts.allocation.phase in OVER and (
        facts.allocation.observed_incarnation == facts.allocation.incarnation
    )
    is_closed = facts.run is None or facts.run.closed_at is not None
    return has_ended or is_closed or facts.allocation.want != Want.RUN


def move_away(instance: Instance, *, now: datetime) -> bool:
    """
    Stop a running instance and start it elsewhere. Nothing is charged from now on until it is
    ready there. False if it does not run, or is on its way already.
    """
    level(instance, now=now)
    facts = read_facts(instance)
    if instance.state != S.RUNNING or facts.allocation is None or facts.allocation.want != Want.RUN:
        return False
    left = failover.leave(instance_id=instance.id, now=now)
    if left is None:
        return False
    for run in Run.objects.filter(instance_id=instance.id, closed_at=None).order_by("pk"):
        runs.close_run(run_id=run.id, at=max(now, run.opened_at), reason=MAINTENANCE)
    _ask_elsewhere(instance, left, code=MAINTENANCE, verb="instance.moved", now=now)
    return True


def _ask_elsewhere(
    instance: Instance, left: Allocation, *, code: str, verb: str, now: datetime
) -> None:
    allowance = settings.SCHEDULER_REQUEST_TTL
    instance.endpoints.all().delete()
    withdrawn = Notice.objects.filter(instance=instance, kind=NoticeKind.MAINTENANCE)
    withdrawn.standing().update(withdrawn_at=now)
    instance.allocation_id = instance.run_id = None
    instance.save(update_fields=["allocation_id", "run_id"])
    if instance.state == S.RUNNING:
        operations.begin(instance, OperationKind.MOVE, now=now)
        instance.move_to(S.MIGRATING, at=now, reason={"code": code}, allowance=allowance)
    else:
        instance.deadline_at = now + allowance
        instance.save(update_fields=["deadline_at"])
    ask_for_a_place(instance, incarnation=left.incarnation + 1, is_failover=True, now=now)
    record_event(
        tenant_id=instance.tenant_id,
        actor=SYSTEM,
        verb=verb,
        subject=to_text("ins", instance.id),
        after={"state": instance.state, "reason": {"code": code}},
        now=now,
    )
    log.info(verb, instance=str(instance.id), node=str(left.node_id))
