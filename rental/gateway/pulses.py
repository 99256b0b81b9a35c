"""Pulses: answered from memory, written once a second over a connection of their own."""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from rental.gateway import metrics
from rental.gateway.database import DatabaseClock
from rental.gateway.lanes import Lane
from scheduler.services.liveness import PulseSeen, record_pulses

PERIOD = 1.0  # s


@dataclass(frozen=True, slots=True)
class Beat:
    """The newest pulse of a node, and when it came."""

    boot: str
    seq: int
    received_at: datetime


class PulseLane(Lane):
    """
    Writes the newest pulse of each node, and that this gateway listened until now.

    The second is why silence may be held against a node: the scheduler sees from the gateway's own
    row when nobody listened. So a turn is due each second, pulses or not.
    """

    late_after = 5.0

    def __init__(
        self, database: Mapping[str, object], *, gateway_id: uuid.UUID, clock: DatabaseClock
    ) -> None:
        super().__init__("pulses", database)
        self._gateway_id = gateway_id
        self._clock = clock
        self._lock = threading.Lock()
        self._newest: dict[uuid.UUID, Beat] = {}

    def put(self, node_id: uuid.UUID, beat: Beat) -> None:
        with self._lock:
            self._newest[node_id] = beat

    def wake(self) -> None:
        """Nothing to do: ``stop`` sets the event that this lane waits for."""

    def wait_for_work(self) -> bool:
        is_last = self._stopping.wait(PERIOD)
        return bool(self._newest) or not is_last

    def turn(self) -> None:
        with self._lock:
            beats, self._newest = self._newest, {}
        now = self._clock.now()
        pulses = [
            PulseSeen(node_id=node_id, boot=beat.boot, seq=beat.seq, age=now - beat.received_at)
            for node_id, beat in beats.items()
        ]
        try:
            record_pulses(pulses, gateway_id=str(self._gateway_id), now=now)
        except BaseException:
            with self._lock:
                self._newest = beats | self._newest
            raise
        metrics.PULSES.inc(len(pulses))
