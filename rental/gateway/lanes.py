"""A lane: one thread, one kind of work, one database connection of its own."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction

from rental.gateway import metrics
from rental.gateway.database import use_own_connection

FIRST_WAIT = 0.1  # s, doubled with each failure
LONGEST_WAIT = 2.0  # s
DRAIN = 5.0  # s that a stopping lane may spend on what it still holds

log = structlog.get_logger()
Item = TypeVar("Item")


class Lane(threading.Thread, ABC):
    """
    Waits for work, does one turn, and after a failed turn tries again with back-off, for ever.

    The lanes share nothing but the process, so that a slow or failing one delays no other: usage
    may wait for PostgreSQL while pulses are answered.
    """

    # A turn that has not succeeded for this long, in seconds, though there was work: see complaint.
    late_after = 10.0

    def __init__(self, name: str, database: Mapping[str, object]) -> None:
        super().__init__(name=f"gateway-{name}", daemon=True)
        self.lane = name
        self._database = database
        self._stopping = threading.Event()
        self._give_up_at = float("inf")
        self.late_since: float | None = None

    @abstractmethod
    def wait_for_work(self) -> bool:
        """Block until there is work (True), or the lane shall stop and has none (False)."""

    @abstractmethod
    def turn(self) -> None:
        """Do what waits. Raising keeps the work: the next turn finds it again."""

    @abstractmethod
    def wake(self) -> None:
        """End ``wait_for_work`` now."""

    def run(self) -> None:
        use_own_connection(self.name, self._database)
        failures = 0
        while time.monotonic() < self._give_up_at and self.wait_for_work():
            self.late_since = self.late_since or time.monotonic()
            try:
                self.turn()
            except Exception as error:
                # The edge of a pass: whatever went wrong, the thread goes on.
                failures += 1
                self._report(error, failures)
                # A broken connection never heals; the next turn opens a new one.
                connection.close()
                time.sleep(min(FIRST_WAIT * 2 ** min(failures - 1, 8), LONGEST_WAIT))
            else:
                if failures:
                    log.info("gateway.lane_recovered", lane=self.lane, failures=failures)
                failures = 0
                self.late_since = None
        connection.close()

    def _report(self, error: Exception, failures: int) -> None:
        metrics.LANE_FAILURES.labels(self.lane).inc()
        if is_outage(error):
            if failures == 1:
                log.warning("gateway.database_away", lane=self.lane, error=str(error))
        else:
            log.error("gateway.lane_failed", lane=self.lane, exc_info=error)

    def stop(self) -> None:
        """Ask the lane to finish what it holds, for at most ``DRAIN`` seconds, and end."""
        self._give_up_at = time.monotonic() + DRAIN
        self._stopping.set()
        self.wake()

    def complaint(self) -> str | None:
        """Say why this lane does not work within its bound; None if it does."""
        if not self.is_alive():
            return f"{self.lane}: the thread is not running"
        since = self.late_since
        if since is not None and (late := time.monotonic() - since) > self.late_after:
            return f"{self.lane}: nothing written for {late:.0f} s"
        return None


def is_outage(error: Exception) -> bool:
    """Whether trying the same again may help, because the database was away or in the way."""
    return isinstance(error, OperationalError | InterfaceError)


def apply_halving(
    items: Sequence[Item], apply: Callable[[Sequence[Item]], None]
) -> list[tuple[Item, Exception]]:
    """
    Apply ``items`` in order, each in a committed transaction; return those that cannot be, and why.

    A batch that fails for its contents is halved down to the bad ones, so that one bad item costs
    the others log2(n) more transactions and nothing else.

    :raises OperationalError, InterfaceError: if the database is away; some may be committed
    """
    try:
        with transaction.atomic():
            apply(items)
    except Exception as error:
        if is_outage(error):
            raise
        if len(items) == 1:
            log.warning("gateway.item_refused", exc_info=error)
            return [(items[0], error)]
        middle = len(items) // 2
        return apply_halving(items[:middle], apply) + apply_halving(items[middle:], apply)
    return []
