"""
Notices with a deadline that somebody else knows: said once, withdrawn when they are true no more.

Each goes to the instance's page, the API, e-mail and webhooks; a row that was withdrawn stays.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime

import structlog
from django.db import transaction

from rental.instances.models import Instance, Notice, NoticeKind
from rental.instances.respec import tell_node
from rental.instances.states import COMING_UP, InstanceState
from rental.records import outbox
from rental.records.ids import to_text

log = structlog.get_logger()

# Whoever is in these can still be told.
LIVES_IN = (*COMING_UP, InstanceState.RUNNING)


def level_notices(
    deadlines: Mapping[uuid.UUID, datetime], *, kind: NoticeKind, now: datetime
) -> int:
    """
    Give each of these instances its one notice of this kind, withdraw those that are not true any
    more, and return how many instances changed. Safe to repeat.
    """
    rows = Notice.objects.standing().filter(kind=kind)
    standing = dict(rows.values_list("instance_id", "deadline"))
    wrong = [
        one for one in deadlines.keys() | standing.keys() if deadlines.get(one) != standing.get(one)
    ]
    for instance_id in sorted(wrong):
        _level_notice(instance_id, deadlines.get(instance_id), kind=kind, now=now)
    return len(wrong)


@transaction.atomic
def _level_notice(
    instance_id: uuid.UUID, deadline: datetime | None, *, kind: NoticeKind, now: datetime
) -> None:
    instance = Instance.objects.locked().get(pk=instance_id)
    rows = Notice.objects.standing().filter(instance=instance, kind=kind)
    standing = rows.first()
    if (standing.deadline if standing else None) == deadline:
        return
    rows.update(withdrawn_at=now)
    if standing is not None and standing.deadline > now:  # else it has come true
        _send(instance, standing, verb="withdrawn", now=now)
    if deadline is not None and instance.state in LIVES_IN:
        notice = Notice.objects.create(
            tenant_id=instance.tenant_id,
            instance=instance,
            kind=kind,
            at=now,
            deadline=deadline,
        )
        _send(instance, notice, verb="given", now=now)
        log.info("instance.notice", instance=str(instance.id), deadline=deadline.isoformat())
    if kind == NoticeKind.SPOT and instance.state in LIVES_IN:
        tell_node(instance, now=now)  # it reads so itself


def _send(instance: Instance, notice: Notice, *, verb: str, now: datetime) -> None:
    """To e-mail and webhooks, each once."""
    outbox.put(
        topic=f"instance.notice_{verb}",
        key=str(notice.pk),
        payload={
            "tenant": str(instance.tenant_id),
            "instance": to_text("ins", instance.pk),
            "kind": notice.kind,
            "deadline": notice.deadline.isoformat(),
        },
        now=now,
    )
