"""Pulses: answered from memory, written once a second over a connection of their own."""

import threading
import uuid
from collections.abc import Mapping, Sequence

from rental.gateway import metrics
from rental.gateway.database import DatabaseClock
from rental.gateway.lanes import Lane
from scheduler.services.liveness import Pulse, record_pulses

PERIOD = 1.0  # s


class PulseLane(Lane):
    """
    Writes the newest pulse of each node, and that this gateway listened until now.

    The second is why silence may be held against a node: the scheduler sees from the gateway's own
    row when nobody listened. So a turn is due each second, pulses or not.

    A gateway that hears pulses and cannot store phases or send orders is deaf all the same: while
    one of ``ears`` is late it does not say that it listened, and no deadline fires for that.
    """

    late_after = 5.0

    def __init__(
        self,
        database: Mapping[str, object],
        *,
        gateway_id: uuid.UUID,
        clock: DatabaseClock,
        ears: Sequence[Lane] = (),
    ) -> None:
        super().__init__("pulses", database)
        self._gateway_id = gateway_id
        self._clock = clock
        self._ears = ears
        self._lock = threading.Lock()
        self._newest: dict[uuid.UUID, Pulse] = {}

    def put(self, pulse: Pulse) -> None:
        with self._lock:
            self._newest[pulse.node_id] = pulse

    def wake(self) -> None:
        """Nothing to do: ``stop`` sets the event that this lane waits for."""

    def wait_for_work(self) -> bool:
        is_last = self._stopping.wait(PERIOD)
        return bool(self._newest) or not is_last

    def turn(self) -> None:
        if any(ear.complaint() for ear in self._ears):
            return
        with self._lock:
            pulses, self._newest = self._newest, {}
        try:
            record_pulses(pulses.values(), gateway_id=self._gateway_id, now=self._clock.now())
        except BaseException:
            with self._lock:
                self._newest = pulses | self._newest
            raise
        metrics.PULSES.inc(len(pulses))
