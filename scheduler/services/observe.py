"""
What agents say of their nodes, on its way into rows.

A batch of frames is one transaction, whose locks are taken in the order of the house: marks,
allocations, residences, nodes, GPUs, each by id. Saying a thing twice, or late, changes nothing.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import structlog
from django.db import connection, transaction

from agents import protocol
from scheduler.errors import FrameRefused
from scheduler.models import (
    Allocation,
    Node,
    QuarantineEvent,
    Residence,
    ResidenceWant,
    Want,
)
from scheduler.services.hardware import store_facts
from scheduler.services.liveness import mark_dirty
from scheduler.services.release import give_back, give_disks_back

log = structlog.get_logger()

# In these phases nothing can be reached any more.
OVER = frozenset({"exited", "failed", "gone"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A message of a node, whose sender was checked to speak for it."""

    node_id: uuid.UUID
    received_at: datetime
    message: protocol.Hello | protocol.Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """One phase, wherever it came from."""

    node_id: uuid.UUID
    received_at: datetime
    allocation_id: uuid.UUID
    phase: protocol.Phase


@transaction.atomic
def observe(*, frames: Sequence[Observed]) -> None:
    """
    Store what the frames say, oldest first.

    ``hello`` brings facts and GPUs up to date and names everything that the node runs: what we do
    not know is put into quarantine and reported, never ended. ``phase``: the newest (incarnation,
    seq) wins; ``gone`` of an allocation that should be gone confirms the wipe and frees its
    slices. What the node should run and does not is left to the agent, which has the desired set.

    :raises FrameRefused: if a frame makes no sense; nothing of the batch is stored
    """
    reports = [report for frame in frames for report in _reports(frame)]
    hellos = [frame for frame in frames if isinstance(frame.message, protocol.Hello)]
    wipes = _disk_reports(hellos)
    news, strange = _sift(reports)
    # The locks, in order; everything below finds them held.
    mark_dirty({report.allocation_id for report in news}, now=_newest(news))
    allocations = _lock_allocations({report.allocation_id for report in news})
    residences = _lock_residences({residence for _, residence in wipes})
    _lock_nodes(
        {frame.node_id for frame in hellos}
        | {one.node_id for one in allocations.values() if one.want == Want.GONE}
        | {one.node_id for one in residences if one.want == ResidenceWant.GONE}
    )
    _store_phases(news, allocations)
    _store_disks(residences, wipes)
    for frame in _newest_of_nodes(hellos):
        store_facts(node_id=frame.node_id, hello=_hello(frame), now=frame.received_at)
        strange += _unknown(frame)
    _quarantine(strange)
    for frame in _newest_of_nodes(hellos):
        _close_quarantine(frame)


def _hello(frame: Observed) -> protocol.Hello:
    assert isinstance(frame.message, protocol.Hello)  # noqa: S101  # for the type checker
    return frame.message


def _newest_of_nodes(hellos: Iterable[Observed]) -> list[Observed]:
    return list({frame.node_id: frame for frame in hellos}.values())


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise FrameRefused(f"not an id: {text[:40]!r}") from None


def _reports(frame: Observed) -> Iterable[_Report]:
    match frame.message:
        case protocol.Phase() as phase:
            phases = [phase]
        case protocol.Hello(phases=phases):
            pass
    for phase in phases:
        yield _Report(
            node_id=frame.node_id,
            received_at=frame.received_at,
            allocation_id=_uuid(phase.allocation),
            phase=phase,
        )


# --- locks


def _newest(reports: Iterable[_Report]) -> datetime:
    return max((report.received_at for report in reports), default=datetime.max.replace(tzinfo=UTC))


def _lock_allocations(ids: set[uuid.UUID]) -> dict[uuid.UUID, Allocation]:
    rows = Allocation.objects.filter(id__in=ids).order_by("id").select_for_update(no_key=True)
    return {allocation.id: allocation for allocation in rows}


def _lock_residences(ids: set[uuid.UUID]) -> list[Residence]:
    rows = Residence.objects.filter(id__in=ids, wiped_at=None).order_by("id")
    return list(rows.select_for_update(no_key=True))


def _lock_nodes(ids: set[uuid.UUID]) -> None:
    rows = Node.objects.filter(id__in=ids).order_by("id")
    list(rows.select_for_update(no_key=True).values("id"))


# --- phases


def _sift(reports: Sequence[_Report]) -> tuple[list[_Report], list[QuarantineEvent]]:
    """
    Return what is news, and what runs though it should not.

    Reads without locks: what is old then stays old, for counters only rise; what is news is looked
    at again under the lock.
    """
    known = Allocation.objects.in_bulk({report.allocation_id for report in reports})
    strange: list[QuarantineEvent] = []
    news: list[_Report] = []
    for report in reports:
        allocation = known.get(report.allocation_id)
        if allocation is None or _is_strange(report, allocation):
            strange += _quarantined_phase(report)
        elif _is_news(report, allocation):
            news.append(report)
    return news, strange


def _is_strange(report: _Report, allocation: Allocation) -> bool:
    """Say whether the node may not run this: another node's, released, or of a lost future."""
    return (
        allocation.node_id != report.node_id
        or allocation.released_at is not None
        or (report.phase.incarnation > allocation.incarnation and allocation.want != Want.GONE)
    )


def _is_news(report: _Report, allocation: Allocation) -> bool:
    said = (report.phase.incarnation, report.phase.seq)
    stored = (allocation.observed_incarnation, allocation.observed_seq)
    return said > stored or (said == stored and _is_release(report, allocation))


def _is_release(report: _Report, allocation: Allocation) -> bool:
    """
    Say whether this confirms the wipe. A ``gone`` of an earlier container does not: a later one
    may have been started.
    """
    return (
        report.phase.phase == "gone"
        and allocation.want == Want.GONE
        and allocation.released_at is None
        and report.phase.incarnation >= allocation.incarnation
    )


def _store_phases(reports: Sequence[_Report], locked: Mapping[uuid.UUID, Allocation]) -> None:
    changed: dict[uuid.UUID, Allocation] = {}
    released: list[Allocation] = []
    for report in reports:
        allocation = locked.get(report.allocation_id)
        if allocation is None or not _is_news(report, allocation):
            continue
        changed[allocation.id] = allocation
        _store_phase(report, allocation)
        if _is_release(report, allocation):
            allocation.released_at = report.received_at
            released.append(allocation)
    _write_phases(list(changed.values()))
    give_back(released)


def _write_phases(allocations: Sequence[Allocation]) -> None:
    """Write what was observed in one statement; Django's bulk_update takes ten times as long."""
    if not allocations:
        return
    rows = [
        {
            "id": row.id,
            "phase": row.phase,
            "phase_at": row.phase_at,
            "incarnation": row.observed_incarnation,
            "seq": row.observed_seq,
            "spec_rev": row.observed_spec_rev,
            "exit_code": row.exit_code,
            "reason": row.reason,
            "detail": row.detail,
            "endpoints": row.endpoints,
            "progress": row.progress,
            "released_at": row.released_at,
        }
        for row in allocations
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduler_allocation AS row
            SET phase = said.phase, phase_at = said.phase_at,
                observed_incarnation = said.incarnation, observed_seq = said.seq,
                observed_spec_rev = said.spec_rev, exit_code = said.exit_code,
                reason = said.reason, detail = said.detail, endpoints = said.endpoints,
                progress = said.progress, released_at = said.released_at
            FROM jsonb_to_recordset(%s::jsonb) AS said (
                id uuid, phase text, phase_at timestamptz, incarnation int, seq bigint,
                spec_rev int, exit_code int, reason text, detail text, endpoints jsonb,
                progress jsonb, released_at timestamptz)
            WHERE row.id = said.id
            """,
            [msgspec.json.encode(rows).decode()],
        )


def _plain(text: str) -> str:
    """Return the text without NUL, which PostgreSQL cannot store and a guest's output may hold."""
    return text.replace("\0", "")


def _store_phase(report: _Report, allocation: Allocation) -> None:
    phase = report.phase
    at = report.received_at - timedelta(milliseconds=max(phase.age_ms, 0))
    steps = dict(allocation.progress.get("at", {}))
    if phase.incarnation > allocation.observed_incarnation:
        steps = {}
    steps.setdefault(phase.phase, at.isoformat())
    allocation.progress = {"at": steps}
    if phase.percent is not None:
        allocation.progress["percent"] = phase.percent
    allocation.phase = phase.phase
    allocation.phase_at = at
    allocation.observed_incarnation = phase.incarnation
    allocation.observed_seq = phase.seq
    allocation.observed_spec_rev = phase.spec_rev
    allocation.exit_code = phase.exit_code
    allocation.reason = _plain(phase.reason)[:64]
    allocation.detail = _plain(phase.detail)
    if phase.endpoints or phase.phase in OVER:
        allocation.endpoints = msgspec.to_builtins(phase.endpoints)


# --- disks


_DiskReports = dict[tuple[uuid.UUID, uuid.UUID], tuple[protocol.ResidenceFact, datetime]]


def _disk_reports(hellos: Sequence[Observed]) -> _DiskReports:
    """Return the newest report of each (node, residence)."""
    return {
        (frame.node_id, _uuid(fact.residence)): (fact, frame.received_at)
        for frame in hellos
        for fact in _hello(frame).residences
    }


def _store_disks(residences: Sequence[Residence], reports: _DiskReports) -> None:
    """Note how full disks are; free the space of those whose wipe their node confirms."""
    changed, wiped = [], []
    for residence in residences:
        report = reports.get((residence.node_id, residence.id))
        if report is None:
            continue
        fact, at = report
        changed.append(residence)
        residence.used_bytes = fact.used_bytes
        if fact.state != "wiped":
            continue
        if residence.want == ResidenceWant.GONE:
            residence.wiped_at = at
            wiped.append(residence)
        else:
            log.error("residence.lost", residence=str(residence.id), node=str(residence.node_id))
    Residence.objects.bulk_update(changed, ["used_bytes", "wiped_at"])
    give_disks_back(wiped)


# --- quarantine


def _quarantined_phase(report: _Report) -> list[QuarantineEvent]:
    if report.phase.phase in OVER:
        return []  # it does not run
    return [
        QuarantineEvent(
            node_id=report.node_id,
            allocation_id=str(report.allocation_id),
            instance_id=report.phase.instance[:64],
            incarnation=report.phase.incarnation,
            run_id=(report.phase.run or "")[:64],
            alive=True,
            first_seen_at=report.received_at,
            last_seen_at=report.received_at,
        )
    ]


def _unknown(frame: Observed) -> list[QuarantineEvent]:
    return [
        QuarantineEvent(
            node_id=frame.node_id,
            allocation_id=unknown.allocation[:64],
            instance_id=unknown.instance[:64],
            incarnation=unknown.incarnation,
            run_id=(unknown.run or "")[:64],
            alive=unknown.alive,
            first_seen_at=frame.received_at,
            last_seen_at=frame.received_at,
        )
        for unknown in _hello(frame).unknown
    ]


def _quarantine(rows: Sequence[QuarantineEvent]) -> None:
    """Report containers that nobody ordered. They are left alone."""
    newest = {(row.node_id, row.allocation_id, row.incarnation): row for row in rows}
    QuarantineEvent.objects.bulk_create(
        [newest[key] for key in sorted(newest)],
        update_conflicts=True,
        unique_fields=["node", "allocation_id", "incarnation"],
        update_fields=["instance_id", "run_id", "alive", "last_seen_at"],
    )
    for row in newest.values():
        log.warning(
            "container.unknown",
            node=str(row.node_id),
            allocation=row.allocation_id,
            instance=row.instance_id,
            incarnation=row.incarnation,
        )


def _close_quarantine(frame: Observed) -> None:
    """A hello names all that runs: what was in quarantine and is not named has ended."""
    QuarantineEvent.objects.filter(
        node_id=frame.node_id, alive=True, last_seen_at__lt=frame.received_at
    ).update(alive=False)
