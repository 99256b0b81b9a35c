"""Balance notices: how long the money lasts, said at 72 h, 24 h, 1 h and 10 min."""

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from billing.models import Wallet
from rental.instances.models import Instance, Notice, NoticeKind
from rental.instances.states import InstanceState

log = structlog.get_logger()

LADDER = (
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=24),
    timedelta(hours=72),
)
# A deadline that moves by less is the same notice: settle re-reckons it by seconds every hour.
SLACK = timedelta(seconds=60)


def step_of(exhausts_at: datetime | None, *, now: datetime) -> timedelta | None:
    """Return the lowest step of the ladder that the money has come under, None above them all."""
    if exhausts_at is None:
        return None
    left = exhausts_at - now
    return next((step for step in LADDER if left <= step), None)


def level_balance_notices(*, now: datetime) -> int:
    """
    Give each running instance the one notice that its tenant's balance calls for, withdraw
    those that are not true any more, and return how many instances changed. Safe to repeat.

    A notice is a row of its own for each step that is reached, so that each is sent once.
    """
    due = dict(
        Wallet.objects.filter(exhausts_at__lte=now + LADDER[-1]).values_list(
            "tenant_id", "exhausts_at"
        )
    )
    standing = {
        notice.instance_id: notice
        for notice in Notice.objects.standing().filter(kind=NoticeKind.BALANCE)
    }
    running = Instance.objects.filter(state=InstanceState.RUNNING, tenant_id__in=due)
    looked_at = dict(running.values_list("pk", "tenant_id"))
    wrong = [
        instance_id
        for instance_id in looked_at.keys() | standing.keys()
        if not _is_right(
            standing.get(instance_id), _exhausts_at(due, looked_at.get(instance_id)), now=now
        )
    ]
    for instance_id in sorted(wrong):
        _level_one(instance_id, due=due, now=now)
    return len(wrong)


def _exhausts_at(
    due: Mapping[uuid.UUID, datetime | None], tenant_id: uuid.UUID | None
) -> datetime | None:
    return None if tenant_id is None else due.get(tenant_id)


def _is_right(notice: Notice | None, exhausts_at: datetime | None, *, now: datetime) -> bool:
    step = step_of(exhausts_at, now=now)
    if notice is None or step is None or exhausts_at is None:
        return notice is None and step is None
    same_step = notice.threshold_s == step.total_seconds()
    return same_step and abs(notice.deadline - exhausts_at) <= SLACK


@transaction.atomic
def _level_one(
    instance_id: uuid.UUID, *, due: Mapping[uuid.UUID, datetime | None], now: datetime
) -> None:
    """Look again under the instance's lock, so that two passes never write the same notice."""
    instance = Instance.objects.locked().get(pk=instance_id)
    runs = instance.state == InstanceState.RUNNING
    exhausts_at = due.get(instance.tenant_id) if runs else None
    step = step_of(exhausts_at, now=now)
    notice = Notice.objects.standing().filter(instance=instance, kind=NoticeKind.BALANCE).first()
    if _is_right(notice, exhausts_at, now=now):
        return
    if notice is not None:
        if step is not None and notice.threshold_s == step.total_seconds():
            Notice.objects.filter(pk=notice.pk).update(deadline=exhausts_at)
            return
        Notice.objects.filter(pk=notice.pk).update(withdrawn_at=now)
    if step is not None and exhausts_at is not None:
        Notice.objects.create(
            tenant_id=instance.tenant_id,
            instance=instance,
            kind=NoticeKind.BALANCE,
            threshold_s=int(step.total_seconds()),
            at=now,
            deadline=exhausts_at,
        )
        log.info("instance.notice", instance=str(instance.id), step=str(step))
