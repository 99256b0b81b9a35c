"""What the commands share: lock and catch up, check, queue, audit."""

import uuid
from datetime import datetime
from typing import Any

import structlog

from rental.instances.asking import ask_for_a_place
from rental.instances.errors import (
    GenerationMismatch,
)
from rental.instances.level import level, locked_instance
from rental.instances.models import (
    Instance,
)
from rental.records.audit import Actor, record_event
from rental.records.ids import to_text

__all__ = [
    "accept",
    "as_audited",
    "ask_for_a_place",
    "audit",
    "begin_command",
    "check_generation",
]

log = structlog.get_logger()


def begin_command(
    tenant_id: uuid.UUID, instance_id: uuid.UUID, if_generation: int | None, *, now: datetime
) -> Instance:
    """
    Lock the instance, check If-Match, and catch up with what has happened.

    :raises UnknownInstance: if the tenant has none of this id
    :raises GenerationMismatch: if it has changed since the caller looked
    """
    instance = locked_instance(tenant_id=tenant_id, instance_id=instance_id, now=now)
    check_generation(instance, if_generation)
    level(instance, now=now)
    return instance


def accept(instance: Instance) -> None:
    instance.generation += 1
    instance.save(update_fields=["generation"])


def check_generation(instance: Instance, expected: int | None) -> None:
    if expected is not None and expected != instance.generation:
        raise GenerationMismatch(expected=expected, actual=instance.generation)


def as_audited(instance: Instance) -> dict[str, Any]:
    return {"state": instance.state, "generation": instance.generation}


def audit(
    instance: Instance,
    verb: str,
    *,
    actor: Actor,
    request_id: str | None,
    now: datetime,
    before: dict[str, Any] | None = None,
) -> None:
    after = as_audited(instance) | {"session": instance.session}
    if before is None:
        after |= {
            "name": instance.name,
            "offer": instance.offer_id,
            "image": instance.image_id,
            "market": instance.market,
            "project": str(instance.project_id),
        }
    record_event(
        tenant_id=instance.tenant_id,
        actor=actor,
        verb=verb,
        subject=to_text("ins", instance.id),
        before=before,
        after=after,
        request_id=request_id,
        now=now,
    )
    log.info(verb, instance=str(instance.id), state=instance.state)
