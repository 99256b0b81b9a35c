"""What a node ends by itself, link or no link: a run at its last tick, a start out of time."""

from agents.clock import Instant
from agents.ledger import FINISHED, Ledger
from agents.meter import TICK_MS
from agents.metering import Metering
from agents.protocol import Order
from agents.spool import PhaseRecord
from agents.standing import StandingOrders


class Limits:
    def __init__(self, standing: StandingOrders, *, metering: Metering, ledger: Ledger) -> None:
        self._standing = standing
        self._metering = metering
        self._ledger = ledger

    def ends(self, now: Instant) -> dict[str, str]:
        """Return the allocations that must end whatever is ordered, and why."""
        ends = {}
        for order in self._standing.orders:
            record = self._current(order)
            left_ms = self._left_ms(order, now)
            if left_ms is not None:
                if left_ms <= 0:
                    ends[order.allocation] = "stop_at_tick"
            elif record is not None and _is_late(order, record, now):
                ends[order.allocation] = "start_timeout"
            if record is not None and record.phase in ("stopping", *FINISHED):
                # Decided before; an agent that restarts half-way ends it all the same.
                ends.setdefault(order.allocation, record.reason)
        return ends

    def late_starts(self, now: Instant) -> list[PhaseRecord]:
        """Return the starts whose time is over, whether there is a container to end or not."""
        return [
            record
            for order in self._standing.orders
            if self._left_ms(order, now) is None
            and (record := self._current(order)) is not None
            and _is_late(order, record, now)
        ]

    def next_end_s(self, now: Instant) -> float | None:
        """Return the seconds until the next run comes to its last tick, or None."""
        left = [
            left_ms
            for order in self._standing.orders
            if (left_ms := self._left_ms(order, now)) is not None
        ]
        return max(0.0, min(left) / 1000) if left else None

    def _current(self, order: Order) -> PhaseRecord | None:
        record = self._ledger.get(order.allocation)
        return record if record is not None and record.incarnation == order.incarnation else None

    def _left_ms(self, order: Order, now: Instant) -> int | None:
        """Until the run's last tick is over; None if it has none, or did not begin in this boot."""
        meter = self._metering.of(order.run)
        if meter is None or order.stop_at_tick is None or meter.boot != now.boot:
            return None
        return order.stop_at_tick * TICK_MS - meter.age_ms(now)


def _is_late(order: Order, record: PhaseRecord, now: Instant) -> bool:
    limit_ms = order.spec.start_timeout_s * 1000
    return (
        record.phase in ("pulling", "starting")
        and record.at_boot == now.boot
        and now.boot_ms - record.at_ms >= limit_ms
    )
