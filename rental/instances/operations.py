"""
Operations: a command on its way, in timed steps. Call on a locked instance.

    reserved -> node_accepted -> image -> started -> ssh_ready      (create, start, restart, move)
    stopping                                                        (stop)
    stopping -> wiped                                               (release)
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rental.instances.models import Instance, Operation, OperationKind, OperationState

START_STEPS = ("reserved", "node_accepted", "image", "started", "ssh_ready")
STEPS: dict[str, tuple[str, ...]] = {
    OperationKind.CREATE: START_STEPS,
    OperationKind.START: START_STEPS,
    OperationKind.RESTART: START_STEPS,
    OperationKind.MOVE: START_STEPS,
    OperationKind.STOP: ("stopping",),
    OperationKind.RELEASE: ("stopping", "wiped"),
}


def text_of(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def begin(
    instance: Instance, kind: OperationKind, *, now: datetime, done: Iterable[str] = ()
) -> Operation:
    """Open the operation of a command; the one that was running is cancelled by it."""
    end_running(instance, OperationState.CANCELLED, now=now)
    names = STEPS[kind]
    steps: list[dict[str, Any]] = [
        {"name": name, "started_at": None, "finished_at": None} for name in names
    ]
    steps[0]["started_at"] = text_of(now)
    operation = Operation.objects.create(
        tenant_id=instance.tenant_id,
        instance=instance,
        kind=kind,
        generation=instance.generation,
        steps=steps,
        created_at=now,
    )
    for name in done:
        _reach(operation, name, at=now)
    return operation


def running_operation(instance: Instance) -> Operation | None:
    return Operation.objects.filter(instance=instance, state=OperationState.RUNNING).first()


def reach(operation: Operation | None, step: str, *, at: datetime) -> None:
    """
    Finish a step and those before it, and start the next. Steps that are finished stay as they
    are; time never runs backwards between two steps.
    """
    if operation is not None and any(s["name"] == step for s in operation.steps):
        _reach(operation, step, at=at)


def _reach(operation: Operation, step: str, *, at: datetime) -> None:
    names = [s["name"] for s in operation.steps]
    last = names.index(step)
    moment = text_of(at)
    for index, entry in enumerate(operation.steps):
        if index <= last and entry["finished_at"] is None:
            before = operation.steps[index - 1]["finished_at"] if index else None
            began = entry["started_at"] or before or moment
            entry["started_at"] = began
            entry["finished_at"] = max(moment, began)
        elif index == last + 1 and entry["started_at"] is None:
            entry["started_at"] = operation.steps[last]["finished_at"]
    operation.save(update_fields=["steps"])


def show_percent(operation: Operation | None, percent: int | None) -> None:
    """Keep how far the present step is, where the node says so (an image that is pulled)."""
    if operation is not None and operation.percent != percent:
        operation.percent = percent
        operation.save(update_fields=["percent"])


def end_running(
    instance: Instance,
    outcome: OperationState,
    *,
    now: datetime,
    error: dict[str, Any] | None = None,
) -> None:
    """End the running operation, if there is one. The only way an operation ends."""
    Operation.objects.filter(instance=instance, state=OperationState.RUNNING).update(
        state=outcome, finished_at=now, error=error, percent=None
    )
