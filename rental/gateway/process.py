"""One gateway: its links, its lanes, its door, from start to the last drained frame."""

import threading
import uuid
from collections.abc import Mapping

import structlog

from rental.gateway.database import DatabaseClock
from rental.gateway.door import Door
from rental.gateway.facts import FactsLane
from rental.gateway.lanes import Lane
from rental.gateway.links import Links
from rental.gateway.orders import OrdersLane
from rental.gateway.pulses import PulseLane
from rental.gateway.samples import SamplesLane
from rental.gateway.usage import UsageLane
from rental.records.ids import new_id

log = structlog.get_logger()


class Gateway:
    """
    What one gateway process holds. ``id`` is new with each start: the scheduler sees from it that
    nobody listened before. ``database`` replaces entries of the database settings, lane by lane
    (``{"usage": {"PORT": "1"}}``), so that a test can cut one path.
    """

    def __init__(self, database: Mapping[str, Mapping[str, object]] | None = None) -> None:
        cut = database or {}
        self.id: uuid.UUID = new_id()
        self.clock = DatabaseClock()
        self.links = Links()
        self.door = Door(cut.get("door", {}), clock=self.clock)
        self.usage = UsageLane(cut.get("usage", {}))
        self.facts = FactsLane(cut.get("facts", {}))
        self.orders = OrdersLane(
            cut.get("orders", {}), links=self.links, door=self.door, clock=self.clock
        )
        self.samples = SamplesLane(cut.get("samples", {}), clock=self.clock)
        self.pulses = PulseLane(
            cut.get("pulses", {}),
            gateway_id=self.id,
            clock=self.clock,
            ears=(self.facts, self.orders),
        )
        self.lanes: tuple[Lane, ...] = (
            self.usage,
            self.facts,
            self.pulses,
            self.orders,
            self.samples,
        )
        self._starting = threading.Lock()
        self._has_started = False

    def start(self) -> None:
        """Start the lanes. Does nothing the second time."""
        with self._starting:
            if self._has_started:
                return
            self._has_started = True
            for lane in self.lanes:
                lane.start()
        log.info("gateway.started", gateway=str(self.id))

    def stop(self) -> None:
        """Write what was received and end the lanes. The server has closed the links before."""
        with self._starting:
            if not self._has_started:
                return
        for lane in self.lanes:
            lane.stop()
        for lane in self.lanes:
            lane.join()
        self.door.stop()
        log.info("gateway.stopped", gateway=str(self.id))

    def complaints(self) -> list[str]:
        """Return why this gateway is not healthy, in words; empty if it is."""
        return [words for lane in self.lanes if (words := lane.complaint()) is not None]
