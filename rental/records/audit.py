"""Audit events: who changed what, in the transaction of the change."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from django.db import transaction

from rental.records.context import current_request_id
from rental.records.models import AuditEvent

__all__ = ["SYSTEM", "Actor", "AuditEvent", "record_event"]


@dataclass(frozen=True)
class Actor:
    """Who acts. ``id``: the public id (`usr_…`, `key_…`) or, of the system, the pass's name."""

    kind: Literal["user", "api_key", "staff", "system"]
    id: str


SYSTEM: Final = Actor(kind="system", id="tessera")


def record_event(
    *,
    tenant_id: uuid.UUID | None,
    actor: Actor,
    verb: str,
    subject: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    request_id: str | None = None,
    now: datetime,
) -> None:
    """
    Write down that ``actor`` did ``verb`` (``ssh_key.added``) to ``subject`` (`ssh_…`).

    ``before`` and ``after`` hold the facts that changed: never a secret, and no more personal
    data than the change itself, since the row is kept 7 years and cannot be edited. Without
    ``request_id`` the one of the log context is taken.

    :raises RuntimeError: outside of a transaction: event and change are one, or neither is
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError(f"{verb} is audited outside of the transaction that changes it")
    AuditEvent.objects.create(
        at=now,
        tenant_id=tenant_id,
        actor_kind=actor.kind,
        actor_id=actor.id,
        verb=verb,
        subject=subject,
        before=before,
        after=after,
        request_id=request_id or current_request_id(),
    )
