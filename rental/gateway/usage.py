"""Usage on its way to billing: queued, written in batches, acked after its own commit."""

import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents import protocol
from billing.metering import Refusal, UsageReport, record
from rental.gateway import metrics
from rental.gateway.lanes import Lane, apply_halving
from rental.gateway.links import CloseCode, Link

GATHER = 0.15  # s from the first waiting frame to its flush
BATCH = 500  # frames in one transaction
# Frames kept while PostgreSQL is away: 10 minutes of 1,000 nodes, about 100 MB at the very most.
LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Frame:
    link: Link
    node_id: uuid.UUID
    usage: protocol.Usage
    received_at: datetime
    queued_at: float = field(default_factory=time.monotonic)


class UsageLane(Lane):
    """
    The one flusher of a gateway.

    An ack says that all usage of a node up to its seq is stored. So when the queue overflows, the
    oldest frame is dropped and its node gets no ack on that link any more; as soon as PostgreSQL
    takes usage again the link is closed (1013), and the agent sends all that was never acked.
    Repetition costs nothing: billing keeps the maximum of each stretch. For the same reason
    ``Welcome.committed`` is always 0: the agent knows better than a restarted gateway what was
    acked, and billing merges what comes twice.
    """

    def __init__(self, database: Mapping[str, object]) -> None:
        super().__init__("usage", database)
        self.limit = LIMIT
        self._changed = threading.Condition()
        self._frames: deque[Frame] = deque()
        # Which nodes must not be acked on a link any more, because a frame of theirs was dropped.
        self._gaps: defaultdict[Link, set[uuid.UUID]] = defaultdict(set)

    def put(self, frame: Frame) -> None:
        with self._changed:
            self._frames.append(frame)
            self._drop_surplus()
            metrics.USAGE_WAITING.set(len(self._frames))
            self._changed.notify()

    def _drop_surplus(self) -> None:
        while len(self._frames) > self.limit:
            oldest = self._frames.popleft()
            self._gaps[oldest.link].add(oldest.node_id)
            metrics.USAGE_DROPPED.inc()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def wait_for_work(self) -> bool:
        def is_stopping() -> bool:
            return self._stopping.is_set()

        with self._changed:
            self._changed.wait_for(lambda: self._frames or is_stopping())
            if self._frames:
                due = self._frames[0].queued_at + GATHER
                self._changed.wait_for(
                    lambda: len(self._frames) >= BATCH or is_stopping(),
                    timeout=max(0.0, due - time.monotonic()),
                )
            return bool(self._frames)

    def turn(self) -> None:
        with self._changed:
            batch = [self._frames.popleft() for _ in range(min(BATCH, len(self._frames)))]
        refusals: list[Refusal] = []

        def write(frames: Sequence[Frame]) -> None:
            refusals.extend(record(reports=[_report(frame) for frame in frames]))

        try:
            with metrics.USAGE_FLUSH.time():
                unusable = apply_halving(batch, write)
        except BaseException:
            with self._changed:
                self._frames.extendleft(reversed(batch))
                self._drop_surplus()
            raise
        self._answer(batch, unusable, refusals)

    def _answer(
        self,
        batch: Sequence[Frame],
        unusable: Sequence[tuple[Frame, Exception]],
        refusals: Sequence[Refusal],
    ) -> None:
        """Ack each link's nodes once, up to the last frame of the batch, naming what is refused."""
        words: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
        for frame, _error in unusable:
            words[frame.node_id].append(f"seq {frame.usage.seq}: cannot be stored")
        for refusal in refusals:
            words[refusal.node_id].append(str(refusal))
        metrics.REFUSED.labels("usage").inc(sum(map(len, words.values())))

        last = {(frame.link, frame.node_id): frame for frame in batch}
        now = time.monotonic()
        for frame in batch:
            metrics.USAGE_ACK.observe(now - frame.queued_at)
        with self._changed:
            waiting = len(self._frames)
            gaps = {link: set(nodes) for link, nodes in self._gaps.items()}
            if not waiting:
                self._gaps.clear()
        metrics.USAGE_WAITING.set(waiting)
        for (link, node_id), frame in last.items():
            if node_id not in gaps.get(link, ()):
                refused = words.get(node_id, [])
                link.send(protocol.Ack(node=frame.usage.node, seq=frame.usage.seq, refused=refused))
        if not waiting:
            for link in gaps:
                link.close(CloseCode.TRY_AGAIN, "usage was dropped: send it again")


def _report(frame: Frame) -> UsageReport:
    return UsageReport(node_id=frame.node_id, received_at=frame.received_at, runs=frame.usage.runs)
