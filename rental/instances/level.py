"""
Bring an instance level with what lower floors say: one comparison, safe to repeat.

``level`` and everything it calls expect the tenant's wallet and the instance to be locked
(``locked_instance``), and run in the caller's transaction. Commands level first and then act;
passes only level. Money follows runs: whatever ends a session frees the hold, orders the
allocation gone and closes the run, in the lock order of the house.
"""

import uuid
from datetime import UTC, datetime
from typing import Any

import structlog

from billing.models import Run
from billing.services import exhaust, holds, runs, wallets
from rental.instances import operations
from rental.instances.errors import UnknownInstance
from rental.instances.facts import Facts, holds_anything, read_facts
from rental.instances.models import (
    DesiredState,
    Endpoint,
    Health,
    Instance,
    Notice,
    OperationKind,
    OperationState,
)
from rental.instances.passwords import forget_password
from rental.instances.states import ALLOWANCE, COMING_UP, InstanceState
from rental.records.audit import SYSTEM, Actor, record_event
from rental.records.ids import to_text
from scheduler.models import Allocation, LivenessStatus, RequestState, Want
from scheduler.services import allocations
from scheduler.services.death import NODE_DEAD
from scheduler.services.reclaims import passed_deadline
from scheduler.services.requests import cancel_request

log = structlog.get_logger()
S = InstanceState

# A run is never closed before it was opened: one that is closed at this instant costs nothing.
BEFORE_ANY_RUN = datetime.min.replace(tzinfo=UTC)
COMING_UP_IN_ORDER = (*COMING_UP, S.RUNNING)
# The state that an agent's phase proves, and the steps that are behind it.
PHASE_STATES: dict[str, InstanceState] = {
    "accepted": S.PULLING,
    "pulling": S.PULLING,
    "starting": S.STARTING,
    "running": S.RUNNING,
}
PHASE_STEPS = {
    "accepted": "node_accepted",
    "pulling": "node_accepted",
    "starting": "image",
    "running": "started",
}
HEALTH = {
    LivenessStatus.LIVE: Health.OK,
    LivenessStatus.SUSPECT: Health.UNKNOWN,
    LivenessStatus.LOST: Health.UNREACHABLE,
}


def locked_instance(*, tenant_id: uuid.UUID, instance_id: uuid.UUID, now: datetime) -> Instance:
    """
    Lock the tenant's wallet, then the instance, and return it.

    :raises UnknownInstance: if the tenant has no such instance
    """
    if not Instance.objects.of(tenant_id).filter(pk=instance_id).exists():
        raise UnknownInstance(instance_id)
    wallets.lock_wallet(tenant_id=tenant_id, now=now)
    return Instance.objects.of(tenant_id).locked().get(pk=instance_id)


def level(instance: Instance, *, now: datetime) -> None:
    """Compare a locked instance with its facts and move it as far as they reach."""
    facts = read_facts(instance)
    state = S(instance.state)
    if state is S.QUEUED:
        _level_queued(instance, facts, now=now)
    elif state in COMING_UP or state in (S.RUNNING, S.MIGRATING):
        _level_live(instance, facts, now=now)
    elif state is S.STOPPING:
        _level_stopping(instance, facts, now=now)
    elif state is S.RELEASING and not holds_anything(instance):
        finish_release(instance, now=now)


def _level_queued(instance: Instance, facts: Facts, *, now: datetime) -> None:
    if facts.allocation is not None:
        instance.allocation_id = facts.allocation.id
        instance.run_id = facts.allocation.run_id
        instance.save(update_fields=["allocation_id", "run_id"])
        instance.move_to(S.PROVISIONING, at=now)
        operations.reach(
            operations.running_operation(instance), "reserved", at=facts.allocation.created_at
        )
        log.info("instance.placed", instance=str(instance.id), allocation=str(facts.allocation.id))
        _level_live(instance, facts, now=now)
    elif facts.request is None or facts.request.state == RequestState.EXPIRED:
        fail(instance, facts, code="queue_expired", now=now)
    elif facts.request.state == RequestState.PLACED:
        # Its allocation is not there any more: a hand on the database, or half a restore.
        fail(instance, facts, code="allocation_lost", now=now)
    elif facts.request.state == RequestState.CANCELLED and NODE_DEAD in facts.request.reasons:
        fail(instance, facts, code=NODE_DEAD, now=now)
    elif facts.request.state == RequestState.CANCELLED:
        # Taken back by somebody else than this instance's own commands: the operator.
        cancel_wait(instance, reason={"code": "operator"}, now=now)


def _level_live(instance: Instance, facts: Facts, *, now: datetime) -> None:
    if facts.is_between_places:
        _level_between_places(instance, facts, now=now)
        return
    allocation = facts.allocation
    if allocation is not None and instance.allocation_id is None:
        _arrive(instance, allocation, now=now)
    if allocation is not None and allocation.lost_at is not None:
        fail(instance, facts, code=NODE_DEAD, at=allocation.lost_at, now=now)
        return
    if allocation is None or allocation.released_at is not None:
        fail(instance, facts, code="allocation_lost", now=now)
        return
    if allocation.want != Want.RUN:
        end_session(instance, facts, reason={"code": "operator"}, at=now, now=now)
        return
    if facts.run is None or facts.run.closed_at is not None:
        # Billing closed it (DESIGN §6): an instance that should run without a run is stopped.
        reason = "balance" if facts.run is None else _stop_reason(facts.run.close_reason)
        end_session(instance, facts, reason={"code": reason}, at=now, now=now)
        return
    if allocation.observed_incarnation == allocation.incarnation:
        _follow_phase(instance, facts, allocation, now=now)
    if instance.state in (S.RUNNING, *COMING_UP):
        _show_health(instance, facts)


def _level_between_places(instance: Instance, facts: Facts, *, now: datetime) -> None:
    """It gave its place up (moves.py) and waits for another one."""
    state = None if facts.request is None else facts.request.state
    if state == RequestState.EXPIRED:
        fail(instance, facts, code="queue_expired", now=now)
    elif state == RequestState.CANCELLED:
        end_session(instance, facts, reason={"code": "operator"}, at=now, now=now)


def _arrive(instance: Instance, allocation: Allocation, *, now: datetime) -> None:
    """It has another place after it lost or left one: from now on the usual time counts."""
    instance.allocation_id, instance.run_id = allocation.id, allocation.run_id
    instance.deadline_at = None
    if lasting := ALLOWANCE.get(S(instance.state)):
        instance.deadline_at = now + lasting
    instance.save(update_fields=["allocation_id", "run_id", "deadline_at"])
    operations.reach(operations.running_operation(instance), "reserved", at=allocation.created_at)
    log.info("instance.placed", instance=str(instance.id), allocation=str(allocation.id))


def _stop_reason(close_reason: str) -> str:
    return "balance" if close_reason == exhaust.REASON else close_reason or "balance"


def _follow_phase(
    instance: Instance, facts: Facts, allocation: Allocation, *, now: datetime
) -> None:
    phase = allocation.phase
    if phase == "exited":
        reason: dict[str, Any] = {"code": "guest_exit", "exit_code": allocation.exit_code}
        if allocation.reason:
            reason["detail"] = allocation.reason
        end_session(instance, facts, reason=reason, at=now, now=now, exit_code=allocation.exit_code)
    elif phase == "failed":
        code = "node_failed" if _was_ready(instance, facts) else "start_failed"
        detail = " ".join(part for part in (allocation.reason, allocation.detail) if part)
        fail(instance, facts, code=code, detail=detail, now=now)
    elif phase == "gone":
        fail(instance, facts, code="allocation_lost", now=now)
    elif phase in PHASE_STATES:
        _advance(instance, allocation, now=now)


def _advance(instance: Instance, allocation: Allocation, *, now: datetime) -> None:
    """Walk to the state that the phase proves. States are walked through, never skipped."""
    phase = allocation.phase
    operation = operations.running_operation(instance)
    operations.reach(operation, PHASE_STEPS[phase], at=allocation.phase_at or now)
    operations.show_percent(operation, (allocation.progress or {}).get("percent"))
    if instance.state in COMING_UP:
        target = COMING_UP_IN_ORDER.index(PHASE_STATES[phase])
        while COMING_UP_IN_ORDER.index(S(instance.state)) < target:
            here = COMING_UP_IN_ORDER.index(S(instance.state))
            instance.move_to(COMING_UP_IN_ORDER[here + 1], at=now)
        if instance.state == S.RUNNING:
            _became_ready(instance, at=allocation.phase_at or now)
    elif instance.state == S.MIGRATING and phase == "running":
        instance.move_to(S.RUNNING, at=now)
        _became_ready(instance, at=allocation.phase_at or now)
    if instance.state == S.RUNNING and phase == "running":
        _open_endpoints(instance, allocation, now=now)
        if operation is not None:
            if any(endpoint["kind"] == "ssh" for endpoint in allocation.endpoints):
                operations.reach(operation, "ssh_ready", at=allocation.phase_at or now)
            _operation_succeeded(instance, now=now)


def _became_ready(instance: Instance, *, at: datetime) -> None:
    instance.session_ready_at = instance.session_ready_at or at
    instance.first_ready_at = instance.first_ready_at or at
    instance.save(update_fields=["session_ready_at", "first_ready_at"])
    log.info("instance.running", instance=str(instance.id))


def _operation_succeeded(instance: Instance, *, now: datetime) -> None:
    operations.end_running(instance, OperationState.SUCCEEDED, now=now)
    instance.observed_generation = instance.generation
    instance.save(update_fields=["observed_generation"])


def _open_endpoints(instance: Instance, allocation: Allocation, *, now: datetime) -> None:
    """Make the rows equal to what the node says. A restart may change port and host key."""
    said = {
        (fact["kind"], fact["host"], fact["port"]): (
            fact.get("user", ""),
            fact.get("host_key_fingerprint", ""),
            fact.get("workspace", ""),
        )
        for fact in allocation.endpoints
    }
    shown = {
        (row.kind, row.host, row.port): (row.user, row.host_key_fingerprint, row.workspace)
        for row in instance.endpoints.all()
    }
    if said == shown:
        return
    instance.endpoints.all().delete()
    Endpoint.objects.bulk_create(
        Endpoint(
            tenant_id=instance.tenant_id,
            instance=instance,
            kind=kind,
            host=host,
            port=port,
            user=user,
            host_key_fingerprint=fingerprint,
            workspace=workspace,
            opened_at=now,
        )
        for (kind, host, port), (user, fingerprint, workspace) in said.items()
    )


def _show_health(instance: Instance, facts: Facts) -> None:
    status = facts.node or LivenessStatus.SUSPECT
    health, reason = HEALTH[status], "" if status is LivenessStatus.LIVE else f"node_{status}"
    if (instance.health, instance.health_reason) != (health, reason):
        instance.health, instance.health_reason = health, reason
        instance.save(update_fields=["health", "health_reason"])


def _level_stopping(instance: Instance, facts: Facts, *, now: datetime) -> None:
    if not facts.holds_a_place:
        finish_stop(instance, now=now)
    elif facts.is_dark:
        finish_stop(instance, now=now, waits_for_node=True)


# --- the ways out


def end_session(
    instance: Instance,
    facts: Facts,
    *,
    reason: dict[str, Any],
    at: datetime,
    now: datetime,
    exit_code: int | None = None,
    actor: Actor = SYSTEM,
) -> None:
    """
    Stop a live instance: nothing is charged from ``at`` on, whenever the node obeys.

    :param at: the instant of the stop; of a timer the instant in its row, not the sweep's
    """
    let_go(instance, facts, at=at, reason=reason["code"], now=now)
    if S(instance.state) is S.MIGRATING:
        instance.move_to(S.RUNNING, at=now)
    instance.desired_state = DesiredState.STOPPED
    instance.exit_code = exit_code
    instance.save(update_fields=["desired_state", "exit_code"])
    instance.move_to(S.STOPPING, at=now, reason=reason)
    if actor is SYSTEM:
        operations.end_running(instance, OperationState.CANCELLED, now=now, error=reason)
        _tell(instance, verb="instance.stopped", reason=reason, now=now)
    _level_stopping(instance, read_facts(instance), now=now)


def fail(
    instance: Instance,
    facts: Facts,
    *,
    code: str,
    now: datetime,
    at: datetime | None = None,
    detail: str = "",
) -> None:
    """
    End in ``failed``. What never became ready costs nothing, whatever a late report says; what
    ran is charged to ``at``, or to this moment.
    """
    until = (at or now) if _was_ready(instance, facts) else BEFORE_ANY_RUN
    let_go(instance, facts, at=until, reason=code, now=now)
    reason = {"code": code} | ({"detail": detail[:500]} if detail else {})
    instance.desired_state = DesiredState.STOPPED
    instance.observed_generation = instance.generation
    instance.save(update_fields=["desired_state", "observed_generation"])
    instance.move_to(S.FAILED, at=now, reason=reason)
    operations.end_running(instance, OperationState.FAILED, now=now, error=reason)
    _tell(instance, verb="instance.failed", reason=reason, now=now)


def _was_ready(instance: Instance, facts: Facts) -> bool:
    """Its node may have said so, and that it is over, while no pass looked."""
    allocation = facts.allocation
    return instance.state == S.RUNNING or (
        allocation is not None
        and allocation.observed_incarnation == allocation.incarnation
        and "running" in (allocation.progress or {}).get("at", {})
    )


def let_go(
    instance: Instance,
    facts: Facts,
    *,
    at: datetime,
    reason: str,
    now: datetime,
    with_disks: bool = False,
) -> None:
    """
    Free the hold, order the place (and the disks) gone, close what runs. Wallet and instance are
    locked; then come request, allocation, disks and node, then the run: the order of the house.
    """
    holds.free_hold(instance_id=instance.id, now=now)
    if facts.allocation is not None:
        # Its deadline as spot was before this: whoever ends it, nothing is charged beyond.
        at = min(at, passed_deadline(facts.allocation.id, now=now) or at)
    if facts.is_between_places and not cancel_request(instance_id=instance.id, now=now):
        facts = read_facts(instance)  # a pass placed it meanwhile: that place is what must go
    held = facts.allocation.id if facts.allocation is not None and facts.holds_a_place else None
    if with_disks:
        allocations.order_all_gone(instance_id=instance.id, allocation_id=held, now=now)
    elif held is not None:
        allocations.order_gone(allocation_id=held, now=now)
    # Not only the run that the facts name: of a lost allocation nothing names it any more.
    for run in Run.objects.filter(instance_id=instance.id, closed_at__isnull=True).order_by("pk"):
        runs.close_run(run_id=run.id, at=max(at, run.opened_at), reason=reason)
    instance.endpoints.all().delete()
    Notice.objects.filter(instance=instance).standing().update(withdrawn_at=now)
    instance.session_ready_at = None
    instance.health, instance.health_reason = Health.UNKNOWN, ""
    instance.save(update_fields=["session_ready_at", "health", "health_reason"])


def cancel_wait(instance: Instance, *, reason: dict[str, Any], now: datetime) -> None:
    """Queued to stopped: nothing was placed, nothing is on any node for it."""
    holds.free_hold(instance_id=instance.id, now=now)
    instance.desired_state = DesiredState.STOPPED
    instance.observed_generation = instance.generation
    instance.save(update_fields=["desired_state", "observed_generation"])
    operations.end_running(instance, OperationState.CANCELLED, now=now, error=reason)
    instance.move_to(S.STOPPED, at=now, reason=reason)


def finish_stop(instance: Instance, *, now: datetime, waits_for_node: bool = False) -> None:
    """
    Stopping to stopped. With ``waits_for_node`` the allocation stays releasing until its node
    confirms; the customer need not wait for that, and a start does (reason "releasing").
    """
    reason = dict(instance.state_reason)
    if waits_for_node:
        reason["waits_for_node"] = True
    instance.move_to(S.STOPPED, at=now, reason=reason)
    operations.reach(operations.running_operation(instance), "stopping", at=now)
    _operation_succeeded(instance, now=now)
    log.info("instance.stopped", instance=str(instance.id), waits_for_node=waits_for_node)


def release(instance: Instance, *, reason: dict[str, Any], now: datetime) -> None:
    """
    Give everything back that the instance holds anywhere; nothing is charged from now on. The
    caller has taken a waiting request back and opened the operation.
    """
    let_go(instance, read_facts(instance), at=now, reason="release", now=now, with_disks=True)
    instance.desired_state = DesiredState.DELETED
    instance.save(update_fields=["desired_state"])
    instance.move_to(S.RELEASING, at=now, reason=reason)
    if not holds_anything(instance):
        finish_release(instance, now=now)


def finish_release(instance: Instance, *, now: datetime) -> None:
    """Releasing to deleted: every node has confirmed that nothing is left."""
    operation = operations.running_operation(instance)
    if operation is not None and operation.kind == OperationKind.RELEASE:
        operations.reach(operation, "wiped", at=now)
    instance.move_to(S.DELETED, at=now, reason=instance.state_reason)
    forget_password(instance)
    _operation_succeeded(instance, now=now)
    log.info("instance.deleted", instance=str(instance.id))


def _tell(instance: Instance, *, verb: str, reason: dict[str, Any], now: datetime) -> None:
    """Audit what the platform did to an instance by itself."""
    record_event(
        tenant_id=instance.tenant_id,
        actor=SYSTEM,
        verb=verb,
        subject=to_text("ins", instance.id),
        after={"state": instance.state, "reason": reason},
        now=now,
    )
    log.info(verb, instance=str(instance.id), **reason)
