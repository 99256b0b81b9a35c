"""
Who is there: pulses once a second, and the pass that declares nodes suspect or lost.

Silence counts only while the server listened (DESIGN §7). Every time here is PostgreSQL's: a
caller takes ``now`` from ``rental.records.clock.database_now`` in its first statement.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import connection, transaction

from scheduler.models import (
    Allocation,
    ControlPlane,
    GatewayFlush,
    LivenessStatus,
    NodeLiveness,
)

log = structlog.get_logger()

# A gateway flushes once a second; it was deaf if it missed more than this.
HOLE = timedelta(seconds=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """A pulse as a gateway heard it; ``received_at`` by PostgreSQL's clock."""

    node_id: uuid.UUID
    boot_id: str
    seq: int
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    node_id: uuid.UUID
    before: str
    after: str


@transaction.atomic
def record_pulses(pulses: Iterable[Pulse], gateway_id: uuid.UUID | str, now: datetime) -> None:
    """
    Write what a gateway heard since it last wrote, and that it listened. Call once a second,
    also with no pulses: the call itself is the proof.

    ``gateway_id`` names one process from start to end: a name that is new is a gateway's start.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO scheduler_gatewayflush AS known (gateway_id, started_at, flushed_at)
            VALUES (%(gateway)s, %(now)s, %(now)s)
            ON CONFLICT (gateway_id) DO UPDATE SET
                flushed_at = greatest(known.flushed_at, excluded.flushed_at),
                hole_at = CASE WHEN excluded.flushed_at - known.flushed_at
                               > make_interval(secs => %(hole)s)
                          THEN excluded.flushed_at ELSE known.hole_at END
            """,
            {"gateway": str(gateway_id), "now": now, "hole": HOLE.total_seconds()},
        )
        newest: dict[uuid.UUID, Pulse] = {}
        for pulse in pulses:
            known = newest.get(pulse.node_id)
            if known is None or pulse.received_at >= known.received_at:
                newest[pulse.node_id] = pulse
        if not newest:
            return
        rows = [newest[node_id] for node_id in sorted(newest)]  # one lock order for all gateways
        cursor.execute(
            """
            INSERT INTO scheduler_nodeliveness AS known
                (node_id, boot_id, seq, received_at, status, status_at)
            SELECT heard.node_id, heard.boot, heard.seq, heard.received_at, 'live', %(now)s
            FROM unnest(%(nodes)s::uuid[], %(boots)s::text[], %(seqs)s::bigint[],
                        %(moments)s::timestamptz[]) AS heard (node_id, boot, seq, received_at)
            JOIN scheduler_node AS node ON node.id = heard.node_id
            ORDER BY heard.node_id
            ON CONFLICT (node_id) DO UPDATE SET
                boot_id = excluded.boot_id,
                seq = excluded.seq,
                received_at = excluded.received_at
            WHERE excluded.received_at >= known.received_at
            """,
            {
                "now": now,
                "nodes": [row.node_id for row in rows],
                "boots": [row.boot_id for row in rows],
                "seqs": [row.seq for row in rows],
                "moments": [row.received_at for row in rows],
            },
        )


def listening_since(*, now: datetime) -> datetime | None:
    """
    Return since when every gateway has listened without a break; None if one does not now.

    Breaks are a gateway's start, a hole in its flushes, a new control epoch. A gateway that has
    been silent for the whole grace is gone for good and counts no more.
    """
    grace: timedelta = settings.SCHEDULER_DEAF_GRACE
    gateways = list(GatewayFlush.objects.filter(flushed_at__gt=now - max(grace, HOLE)))
    if not gateways or any(now - gateway.flushed_at > HOLE for gateway in gateways):
        return None
    breaks = [gateway.started_at for gateway in gateways]
    breaks += [gateway.hole_at for gateway in gateways if gateway.hole_at]
    if epoch_at := ControlPlane.load().control_epoch_at:
        breaks.append(epoch_at)
    return max(breaks)


def is_listening(*, now: datetime) -> bool:
    """Say whether the control plane has listened long enough that silence means something."""
    since = listening_since(now=now)
    return since is not None and now - since >= settings.SCHEDULER_DEAF_GRACE


def status_of(silence: timedelta) -> LivenessStatus:
    """Return what a silence of this length means, had the server listened."""
    if silence < settings.SCHEDULER_NODE_SUSPECT:
        return LivenessStatus.LIVE
    if silence < settings.SCHEDULER_NODE_LOST:
        return LivenessStatus.SUSPECT
    return LivenessStatus.LOST


SEVERITY = {LivenessStatus.LIVE: 0, LivenessStatus.SUSPECT: 1, LivenessStatus.LOST: 2}


@transaction.atomic
def watch_nodes(*, now: datetime) -> list[StatusChange]:
    """
    Declare nodes suspect (12 s) or lost (24 s), or live again. While the server was deaf within
    the last 60 s nobody's state gets worse.

    Marks the allocations of each node whose status changes; nothing is ended for it.
    """
    changes = []
    is_deaf = not is_listening(now=now)
    suspected = NodeLiveness.objects.exclude(
        status=LivenessStatus.LIVE, received_at__gt=now - settings.SCHEDULER_NODE_SUSPECT
    )
    for row in suspected.order_by("node_id"):
        before = LivenessStatus(row.status)
        after = status_of(now - row.received_at)
        if after == before or (is_deaf and SEVERITY[after] > SEVERITY[before]):
            continue
        changes.append(StatusChange(node_id=row.node_id, before=before, after=after))
    if not changes:
        return []
    mark_dirty_of_nodes([change.node_id for change in changes], now=now)
    applied = []
    for change in changes:
        # The WHERE reads again: a pulse that came since wins over the silence before it.
        rows = NodeLiveness.objects.filter(node_id=change.node_id, status=change.before)
        if change.after != LivenessStatus.LIVE:
            rows = rows.filter(received_at__lte=now - settings.SCHEDULER_NODE_SUSPECT)
        if rows.update(status=change.after, status_at=now):
            applied.append(change)
            log.warning(
                "node.status", node=str(change.node_id), before=change.before, after=change.after
            )
    return applied


def mark_dirty_of_nodes(node_ids: Sequence[uuid.UUID], *, now: datetime) -> None:
    """Have the floor above look at everything that these nodes hold."""
    ids = Allocation.objects.held().filter(node_id__in=node_ids).values_list("id", flat=True)
    mark_dirty(ids, now=now)


def mark_dirty(allocation_ids: Iterable[uuid.UUID], *, now: datetime) -> None:
    """
    Have the floor above look at the allocations. Call **before** locking any of them.

    An existing mark is locked and written again rather than left alone: its taker may have read
    the old state already, and must not be able to delete the mark before this change is visible.
    """
    ids = sorted(set(allocation_ids))
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO scheduler_allocationdirty (allocation_id, marked_at)
            SELECT id, %s FROM unnest(%s::uuid[]) AS marked (id) ORDER BY id
            ON CONFLICT (allocation_id) DO UPDATE SET marked_at = excluded.marked_at
            """,
            [now, ids],
        )


@transaction.atomic
def raise_control_epoch(*, now: datetime, reason: str) -> int:
    """
    Say that the database went back in time (restore, failover). Agents obey the new epoch whatever
    its node versions are and replay what they metered; passes under way commit nothing; nodes
    get their 60 s.

    The epoch is at least the second in which it begins: a second restore from the same backup
    would else raise it to a number that agents know already.
    """
    ControlPlane.load()
    plane = ControlPlane.objects.select_for_update().get(pk=1)
    plane.control_epoch = max(plane.control_epoch + 1, int(now.timestamp()))
    plane.scheduler_epoch += 1
    plane.control_epoch_at = now
    plane.save()
    log.warning("control_plane.epoch", epoch=plane.control_epoch, reason=reason)
    return plane.control_epoch


@transaction.atomic
def forget_gateways(*, now: datetime) -> int:
    """Delete the rows of gateways that ended more than a day ago."""
    gone = GatewayFlush.objects.filter(flushed_at__lt=now - timedelta(days=1))
    return gone.delete()[0]
