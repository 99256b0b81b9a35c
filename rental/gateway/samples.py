"""Samples on their way to charts. They may be lost, and they never hold up anything else."""

import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import InterfaceError, OperationalError

from agents import protocol
from rental.gateway import metrics
from rental.gateway.database import DatabaseClock
from rental.gateway.lanes import Lane
from rental.instances.samples.minutes import MINUTE, Minutes, store_minutes
from rental.instances.samples.points import Point
from rental.instances.samples.recent import RecentGone, RecentSamples, recent
from scheduler.models import Allocation

GATHER = 0.25  # s from the first waiting frame to its turn: how late a live chart is
FLUSH_EVERY = 5.0  # s between two looks for minutes that have ended
GRACE = 15  # s after its end that a minute waits for frames that were held up
LIMIT = 5_000  # frames that wait; above it the oldest are dropped
BATCH = 1_000
MOST_SAMPLES = 1_000  # in one frame; a node of 16 cards in ten tiles each sends 160
MOST_MINUTES = 50_000  # not stored yet, while PostgreSQL is away
OLDEST = 3_600  # s; a frame that is older says nothing that a chart of the last hour shows
KNOWN_FOR = 60.0  # s that the answer serves to "whose allocation is this"
MOST_KNOWN = 50_000

Owner = tuple[uuid.UUID, uuid.UUID]  # tenant, instance
Held = tuple[uuid.UUID, uuid.UUID]  # node, allocation


@dataclass(frozen=True, slots=True)
class SampleFrame:
    node_id: uuid.UUID
    message: protocol.Samples
    received_at: datetime


class SamplesLane(Lane):
    """
    Puts samples into Valkey's last hour, and minutes of them into the table.

    A sample counts only for an allocation that its own node holds. What Valkey does not take
    within half a second is lost; what PostgreSQL does not take waits, bounded.
    """

    late_after = 60.0

    def __init__(
        self,
        database: Mapping[str, object],
        *,
        clock: DatabaseClock,
        last_hour: RecentSamples | None = None,
    ) -> None:
        super().__init__("samples", database)
        self._clock = clock
        self._last_hour = last_hour
        self._changed = threading.Condition()
        self._frames: deque[SampleFrame] = deque()
        self._first_at = 0.0
        self._owners: dict[Held, tuple[Owner | None, float]] = {}
        self._minutes = Minutes(MOST_MINUTES)
        self._flush_at = time.monotonic() + FLUSH_EVERY

    def put(self, frame: SampleFrame) -> None:
        if len(frame.message.samples) > MOST_SAMPLES:
            metrics.SAMPLES_DROPPED.labels("too_many").inc(len(frame.message.samples))
            return
        with self._changed:
            if not self._frames:
                self._first_at = time.monotonic()
            self._frames.append(frame)
            if len(self._frames) > LIMIT:
                metrics.SAMPLES_DROPPED.labels("pressure").inc(
                    len(self._frames.popleft().message.samples)
                )
            self._changed.notify()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def wait_for_work(self) -> bool:
        with self._changed:
            while not self._stopping.is_set():
                now = time.monotonic()
                due = self._flush_at
                if self._frames:
                    due = min(due, self._first_at + GATHER)
                if due <= now:
                    return True
                self._changed.wait(due - now)
            return bool(self._frames) or len(self._minutes) > 0

    def turn(self) -> None:
        with self._changed:
            frames = [self._frames.popleft() for _ in range(min(BATCH, len(self._frames)))]
        outage: Exception | None = None
        try:
            self._learn_owners(frames)
        except (OperationalError, InterfaceError) as error:
            outage = error  # what is known serves on
        self._tell(list(self._points(frames)))
        self._flush()
        if outage is not None:
            raise outage

    # --- whose they are

    def _learn_owners(self, frames: Iterable[SampleFrame]) -> None:
        now = time.monotonic()
        asked = {held for frame in frames for held in _named(frame) if self._is_unknown(held, now)}
        if not asked:
            return
        rows = Allocation.objects.filter(
            id__in={allocation for _, allocation in asked},
            node_id__in={node for node, _ in asked},
            released_at=None,
        )
        found: dict[Held, Owner] = {
            (node_id, allocation_id): (tenant_id, instance_id)
            for allocation_id, node_id, tenant_id, instance_id in rows.values_list(
                "id", "node_id", "tenant_id", "instance_id"
            )
        }
        if len(self._owners) + len(asked) > MOST_KNOWN:
            self._owners.clear()
        for held in asked:
            self._owners[held] = (found.get(held), now + KNOWN_FOR)

    def _is_unknown(self, held: Held, now: float) -> bool:
        known = self._owners.get(held)
        return known is None or known[1] < now

    def _points(self, frames: Iterable[SampleFrame]) -> Iterable[tuple[Owner, Point]]:
        """Return one point an instance and frame: its slices together."""
        for frame in frames:
            at = round(frame.received_at.timestamp()) - max(0, frame.message.age_ms) // 1000
            if at < frame.received_at.timestamp() - OLDEST:
                metrics.SAMPLES_DROPPED.labels("old").inc(len(frame.message.samples))
                continue
            by_owner: defaultdict[Owner, list[protocol.Sample]] = defaultdict(list)
            for sample in frame.message.samples:
                if not sample.allocation:
                    continue  # a card that nobody rents
                held = _held(frame.node_id, sample)
                owner = self._owners.get(held, (None, 0.0))[0] if held else None
                if owner is None:
                    metrics.SAMPLES_DROPPED.labels("foreign").inc()
                else:
                    by_owner[owner].append(sample)
            for owner, samples in by_owner.items():
                yield owner, _together(at, samples)

    # --- where they go

    def _tell(self, points: Sequence[tuple[Owner, Point]]) -> None:
        if not points:
            return
        for (tenant_id, instance_id), point in points:
            forgotten = self._minutes.add(tenant_id, instance_id, point)
            metrics.SAMPLES_DROPPED.labels("minutes").inc(forgotten)
        try:
            last_hour = self._last_hour or recent()
            last_hour.write([(instance_id, point) for (_, instance_id), point in points])
        except RecentGone:
            metrics.SAMPLES_DROPPED.labels("valkey_away").inc(len(points))
        else:
            metrics.SAMPLES.inc(len(points))

    def _flush(self) -> None:
        is_last = self._stopping.is_set()
        if time.monotonic() < self._flush_at and not is_last:
            return
        self._flush_at = time.monotonic() + FLUSH_EVERY
        now = round(self._clock.now().timestamp())
        ended = self._minutes.take_ended(now + MINUTE if is_last else now - MINUTE - GRACE)
        try:
            store_minutes(ended)
        except BaseException:
            self._minutes.put_back(ended)
            raise


def _held(node_id: uuid.UUID, sample: protocol.Sample) -> Held | None:
    try:
        return node_id, uuid.UUID(sample.allocation)
    except ValueError:
        return None


def _named(frame: SampleFrame) -> Iterable[Held]:
    for sample in frame.message.samples:
        if sample.allocation and (held := _held(frame.node_id, sample)):
            yield held


def _together(at: int, samples: Sequence[protocol.Sample]) -> Point:
    return Point(
        at=at,
        util_percent=round(sum(one.util_percent for one in samples) / len(samples)),
        vram_mib=sum(one.vram_mib for one in samples),
        watts=sum(one.watts for one in samples),
        celsius=max(one.celsius for one in samples),
    ).clamped()
