"""
Spot whose place is needed: told at once, ended at its deadline, the disk kept.

Nothing is charged from the deadline on, however late this pass comes: the run ends at the instant
in the row. Who stops before it pays to his stop, and a notice that is withdrawn leaves no trace in
money.
"""

import uuid
from datetime import datetime

from rental.instances.facts import read_facts
from rental.instances.foretold import LIVES_IN, level_notices
from rental.instances.level import end_session, level
from rental.instances.models import Instance, NoticeKind
from rental.instances.passes import each
from scheduler.models import Reclaim
from scheduler.services.reclaims import close_reclaims

RECLAIMED = "reclaimed"


def reclaim(*, now: datetime) -> int:
    """Tell whom it concerns, end whose time is over. Returns how many were ended. Every 5 s."""
    close_reclaims(now=now)
    standing = Reclaim.objects.standing().values_list("allocation__instance_id", "reclaim_at")
    deadlines = dict(standing)
    level_notices(deadlines, kind=NoticeKind.SPOT, now=now)
    due = [one for one, at in deadlines.items() if at <= now]
    each(_end_one, due, now=now)
    return close_reclaims(now=now) if due else 0


def _end_one(instance: Instance, *, now: datetime) -> None:
    level(instance, now=now)
    if instance.allocation_id is None or instance.state not in LIVES_IN:
        return
    at = _deadline_of(instance.allocation_id)
    if at is None or at > now:
        return
    end_session(instance, read_facts(instance), reason={"code": RECLAIMED}, at=at, now=now)


def _deadline_of(allocation_id: uuid.UUID) -> datetime | None:
    """Read anew, with the instance locked: it may have been withdrawn."""
    rows = Reclaim.objects.standing().filter(allocation_id=allocation_id)
    return rows.values_list("reclaim_at", flat=True).first()
