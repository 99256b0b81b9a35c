"""The queue: who waits for what, since when and why; and taking a request back for a customer."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from rental.instances import services
from rental.instances.level import locked_instance
from rental.instances.models import Instance
from rental.operate.words import reasons_in_words
from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from scheduler.models import Request, RequestState

ROWS: Final = 200


class WaitsNoMore(Exception):
    """The request was placed, cancelled or expired before it could be taken back."""

    def __init__(self, request_id: uuid.UUID) -> None:
        super().__init__(f"{request_id} waits no more")
        self.request_id = request_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """``instance``: None only while its order is being written. ``reasons``: (nodes, words)."""

    request: Request
    instance: Instance | None
    reasons: list[tuple[int, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The longest waiting first; ``total`` counts also those that are not shown."""

    rows: list[Waiting]
    total: int


def load_queue(*, tenant: str = "") -> Queue:
    """Return the first ``ROWS`` that wait, of all tenants or of one (its slug). Three queries."""
    asked = Request.objects.waiting()
    if tenant:
        asked = asked.filter(tenant__slug=tenant)
    rows = list(asked.select_related("tenant", "zone").order_by("requested_at", "id")[:ROWS])
    found = Instance.objects.select_related("offer", "project").in_bulk(
        [row.instance_id for row in rows]
    )
    return Queue(
        rows=[
            Waiting(
                request=row,
                instance=found.get(row.instance_id),
                reasons=reasons_in_words(row.reasons),
            )
            for row in rows
        ],
        total=asked.count() if len(rows) == ROWS else len(rows),
    )


@transaction.atomic
def cancel_waiting(*, request_id: uuid.UUID, reason: str, actor: Actor, now: datetime) -> Instance:
    """
    Take a waiting request back in its tenant's place: the instance stops and its hold is freed.

    Nothing that has been placed meanwhile is stopped: the request is locked (after wallet and
    instance, DESIGN §3.2) and must still wait.

    :raises WaitsNoMore: if it does not
    :raises ValueError: if there is no reason
    """
    if not reason.strip():
        raise ValueError("who takes back what a customer asked for says why")
    asked = Request.objects.filter(pk=request_id, state=RequestState.WAITING).first()
    if asked is None:
        raise WaitsNoMore(request_id)
    locked_instance(tenant_id=asked.tenant_id, instance_id=asked.instance_id, now=now)
    waits = Request.objects.waiting().filter(pk=request_id).select_for_update(no_key=True)
    if waits.first() is None:
        raise WaitsNoMore(request_id)
    instance = services.stop_instance(
        tenant_id=asked.tenant_id, instance_id=asked.instance_id, actor=actor, now=now
    )
    record_event(
        tenant_id=asked.tenant_id,
        actor=actor,
        verb="request.cancelled",
        subject=to_text("req", request_id),
        before={"state": RequestState.WAITING},
        after={
            "state": RequestState.CANCELLED,
            "instance": to_text("ins", asked.instance_id),
            "reason": reason,
        },
        now=now,
    )
    return instance
