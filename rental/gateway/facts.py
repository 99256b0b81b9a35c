"""Hellos and phases on their way to the scheduler, in the order in which they came."""

import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agents import protocol
from rental.gateway import metrics
from rental.gateway.lanes import Lane, apply_halving
from rental.gateway.links import CloseCode, Link
from scheduler.errors import FrameRefused
from scheduler.services.observe import Observed, observe

BATCH = 200  # messages in one transaction
LIMIT = 20_000  # messages kept while PostgreSQL is away


@dataclass(frozen=True, slots=True)
class Fact:
    link: Link
    node_id: uuid.UUID
    message: protocol.Hello | protocol.Phase
    received_at: datetime


class FactsLane(Lane):
    """
    One queue for all nodes, so each node's facts stay in order.

    When it overflows the oldest are dropped and their links closed once PostgreSQL takes facts
    again: the hello after that names everything that the node runs.
    """

    def __init__(self, database: Mapping[str, object]) -> None:
        super().__init__("facts", database)
        self._changed = threading.Condition()
        self._facts: deque[Fact] = deque()
        self._gaps: set[Link] = set()

    def put(self, fact: Fact) -> None:
        with self._changed:
            self._facts.append(fact)
            self._drop_surplus()
            metrics.FACTS_WAITING.set(len(self._facts))
            self._changed.notify()

    def _drop_surplus(self) -> None:
        while len(self._facts) > LIMIT:
            self._gaps.add(self._facts.popleft().link)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def wait_for_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._facts or self._stopping.is_set())
            return bool(self._facts)

    def turn(self) -> None:
        with self._changed:
            batch = [self._facts.popleft() for _ in range(min(BATCH, len(self._facts)))]
        try:
            unusable = apply_halving(batch, _write)
        except BaseException:
            with self._changed:
                self._facts.extendleft(reversed(batch))
                self._drop_surplus()
            raise
        for fact, error in unusable:
            metrics.REFUSED.labels("fact").inc()
            # An error of the database or of ours may quote what is not the agent's to read.
            detail = str(error) if isinstance(error, FrameRefused) else "cannot be stored"
            fact.link.send(protocol.Refused(node=fact.message.node, code="unusable", detail=detail))
        with self._changed:
            waiting = len(self._facts)
            gaps = set() if waiting else self._gaps
            self._gaps = self._gaps - gaps
        metrics.FACTS_WAITING.set(waiting)
        for link in gaps:
            link.close(CloseCode.TRY_AGAIN, "facts were dropped: say hello again")


def _write(facts: Sequence[Fact]) -> None:
    observe(
        frames=[
            Observed(node_id=fact.node_id, received_at=fact.received_at, message=fact.message)
            for fact in facts
        ]
    )
