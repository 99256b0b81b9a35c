"""Stop, start, restart and release an instance that is there."""

import uuid
from datetime import datetime

from django.conf import settings
from django.db import transaction

from billing.services import holds, runs
from rental.catalog import services as catalog
from rental.instances import money, operations, orders
from rental.instances.actions import check_locks, check_state
from rental.instances.errors import (
    InstanceProtected,
    NotPossibleNow,
)
from rental.instances.facts import read_facts
from rental.instances.level import cancel_wait, end_session, level, release
from rental.instances.models import (
    DesiredState,
    Instance,
    OperationKind,
    OperationState,
)
from rental.instances.secrets import hold_secrets
from rental.instances.services.parts import (
    accept,
    as_audited,
    ask_for_a_place,
    audit,
    begin_command,
)
from rental.instances.states import RESTING, InstanceState
from rental.instances.tasks import place, sync
from rental.records.audit import Actor
from rental.records.hints import hint
from rental.records.ids import new_id
from scheduler.services import allocations
from scheduler.services.requests import cancel_request

S = InstanceState


@transaction.atomic
def stop_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Stop an instance and keep its disk. Nothing is charged from now on, whenever the node obeys.

    Queued: the request is taken back. On a node that is lost: stopped at once. Stopping what
    stops or has stopped changes nothing.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises NotPossibleNow: if the instance has failed or is being released
    """
    instance = begin_command(tenant_id, instance_id, if_generation, now=now)
    state = S(instance.state)
    if state in (S.STOPPING, S.STOPPED):
        return instance
    check_state(instance, "stop")
    before = as_audited(instance)
    if state is S.QUEUED and cancel_request(instance_id=instance.id, now=now):
        accept(instance)
        operations.begin(instance, OperationKind.STOP, now=now, done=["stopping"])
        operations.end_running(instance, OperationState.SUCCEEDED, now=now)
        cancel_wait(instance, reason={"code": "cancelled"}, now=now)
    else:
        # A pass may have placed it while the request was being taken back, or ended its wait.
        level(instance, now=now)
        if S(instance.state) in RESTING:
            return instance
        accept(instance)
        operations.begin(instance, OperationKind.STOP, now=now)
        end_session(
            instance,
            read_facts(instance),
            reason={"code": "user"},
            at=now,
            now=now,
            actor=actor,
        )
    audit(instance, "instance.stopped", actor=actor, request_id=request_id, now=now, before=before)
    hint(sync)
    return instance


@transaction.atomic
def start_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Start a stopped or failed instance where its disk is: a new session, a new hold, the queue.

    It waits (reason "releasing") until its node has confirmed the end of the session before.
    Timers belong to a session; a new one begins without them.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises NotPossibleNow: if the instance is neither stopped nor failed
    :raises InstanceLocked, TenantNotActive: if it or its tenant may not be started
    :raises UnknownSecret: if a secret that it names was removed
    :raises OfferHasNoPrice: if what it is has no price any more
    :raises InsufficientBalance, TenantInArrears: from billing
    """
    instance = begin_command(tenant_id, instance_id, if_generation, now=now)
    check_state(instance, "start")
    orders.check_tenant(tenant_id)
    check_locks(instance, "start")
    hold_secrets(tenant_id, instance.secrets)
    price = catalog.current_price(offer=instance.offer, market=instance.market, now=now).price
    before = as_audited(instance)
    holds.place_hold(tenant_id=tenant_id, instance_id=instance.id, burn_per_hour=price, now=now)
    instance.session += 1
    instance.timers_session = instance.session
    instance.auto_stop_at = instance.auto_release_at = instance.max_duration_s = None
    instance.allocation_id = instance.run_id = instance.exit_code = None
    instance.session_ready_at = None
    instance.desired_state = DesiredState.RUNNING
    instance.save()
    accept(instance)
    operations.begin(instance, OperationKind.START, now=now)
    instance.move_to(S.QUEUED, at=now, allowance=settings.SCHEDULER_REQUEST_TTL)
    ask_for_a_place(instance, now=now)
    audit(instance, "instance.started", actor=actor, request_id=request_id, now=now, before=before)
    hint(place)
    return instance


@transaction.atomic
def restart_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Give a running instance a fresh container in its place: same session, new incarnation, new
    run. The time between the two is not charged.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises NotPossibleNow: if it does not run
    :raises InstanceLocked: if it may not be started
    """
    instance = begin_command(tenant_id, instance_id, if_generation, now=now)
    check_state(instance, "restart")
    facts = read_facts(instance)
    if facts.allocation is None or facts.run is None:
        raise NotPossibleNow(verb="restart", state=instance.state)
    check_locks(instance, "restart")
    before = as_audited(instance)
    accept(instance)
    operations.begin(instance, OperationKind.RESTART, now=now, done=["reserved", "node_accepted"])
    instance.endpoints.all().delete()
    instance.run_id = new_id()
    instance.save(update_fields=["run_id"])
    allocations.restart(allocation_id=facts.allocation.id, run_id=instance.run_id, now=now)
    runs.close_run(run_id=facts.run.id, at=now, reason="restart")
    runs.open_runs(
        [
            money.opening_of(
                instance,
                run_id=instance.run_id,
                allocation_id=facts.allocation.id,
                node_id=facts.allocation.node_id,
                now=now,
            )
        ]
    )
    instance.move_to(S.STARTING, at=now)
    audit(
        instance, "instance.restarted", actor=actor, request_id=request_id, now=now, before=before
    )
    hint(sync)
    return instance


@transaction.atomic
def release_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Give an instance and its disks back, in any state. Nothing is charged from now on; it is
    ``deleted`` once its node has confirmed the wipe. Releasing it again changes nothing.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises InstanceProtected: if it is protected from release
    """
    instance = begin_command(tenant_id, instance_id, if_generation, now=now)
    state = S(instance.state)
    if state in (S.RELEASING, S.RECYCLED, S.DELETED):
        return instance
    if instance.protected:
        raise InstanceProtected(instance.id)
    before = as_audited(instance)
    if state is S.QUEUED and not cancel_request(instance_id=instance.id, now=now):
        level(instance, now=now)  # a pass placed it meanwhile
    accept(instance)
    operations.begin(instance, OperationKind.RELEASE, now=now)
    release(instance, reason={"code": "user"}, now=now)
    audit(instance, "instance.released", actor=actor, request_id=request_id, now=now, before=before)
    hint(sync)
    return instance
