"""What happened to an instance: commands, what the platform did by itself, and warnings. Reads."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from rental.instances.models import Instance, Notice, Operation
from rental.records import ids
from rental.records.audit import AuditEvent
from rental.tenants.models import ApiKey, User

MOST: Final = 100


@dataclass(frozen=True, kw_only=True)
class Event:
    """
    One line of an instance's story. ``kind`` "audit": somebody or the platform did ``verb``;
    "operation": a command came to its end (``verb`` is its kind, ``outcome`` its state, with
    ``took`` and the raw ``error``); "notice": a warning was given, of what happens at ``deadline``.

    ``actor_kind``: user, api_key, staff or system. ``actor`` is a name where the reader may know.
    """

    kind: Literal["audit", "operation", "notice"]
    at: datetime
    verb: str
    actor_kind: str = "system"
    actor: str = ""
    reason: Mapping[str, Any] | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    outcome: str = ""
    took: timedelta | None = None
    error: Mapping[str, Any] | None = None
    deadline: datetime | None = None


def events_of(
    instance: Instance, *, with_names: bool, before: datetime | None = None, limit: int = MOST
) -> list[Event]:
    """
    Return up to ``limit`` events before an instant, the newest first: five queries at most.

    :param with_names: whether the reader may know who it was (``audit:read``)
    """
    said = AuditEvent.objects.of(instance.tenant_id).filter(subject=ids.to_text("ins", instance.id))
    ended = Operation.objects.filter(instance=instance, finished_at__isnull=False)
    notices = Notice.objects.filter(instance=instance)
    if before is not None:
        said, ended = said.filter(at__lt=before), ended.filter(finished_at__lt=before)
        notices = notices.filter(at__lt=before)
    audits = list(said.order_by("-at", "-id")[:limit])
    names = _names(audits) if with_names else {}
    events = [
        *(_audit(event, names) for event in audits),
        *(_operation(row) for row in ended.order_by("-finished_at", "-id")[:limit]),
        *(_notice(row) for row in notices.order_by("-at", "-id")[:limit]),
    ]
    # Of one instant: the command's end stands above the command.
    events.sort(key=lambda event: (event.at, event.kind != "audit"), reverse=True)
    return events[:limit]


def _audit(event: AuditEvent, names: Mapping[str, str]) -> Event:
    after = event.after or {}
    return Event(
        kind="audit",
        at=event.at,
        verb=event.verb,
        actor_kind=event.actor_kind,
        actor=names.get(event.actor_id, ""),
        reason=after.get("reason"),
        before=event.before,
        after=event.after,
    )


def _operation(row: Operation) -> Event:
    at = row.finished_at or row.created_at
    return Event(
        kind="operation",
        at=at,
        verb=row.kind,
        outcome=row.state,
        took=at - row.created_at,
        error=row.error,
    )


def _notice(row: Notice) -> Event:
    return Event(kind="notice", at=row.at, verb=row.kind, deadline=row.deadline)


def _names(events: Iterable[AuditEvent]) -> dict[str, str]:
    """Return the names of people and keys. Staff are the operator to a customer."""
    users, keys = set[uuid.UUID](), set[uuid.UUID]()
    for event in events:
        if event.actor_kind == "user":
            users |= _id_of("usr", event.actor_id)
        elif event.actor_kind == "api_key":
            keys |= _id_of("key", event.actor_id)
    names = {ids.to_text("usr", user.pk): str(user) for user in User.objects.filter(pk__in=users)}
    for key in ApiKey.objects.filter(pk__in=keys):
        names[ids.to_text("key", key.pk)] = key.name
    return names


def _id_of(prefix: str, text: str) -> set[uuid.UUID]:
    try:
        return {ids.from_text(prefix, text)}
    except ids.MalformedId:
        return set()
