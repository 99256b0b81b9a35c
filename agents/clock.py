"""The node's clocks, behind one protocol, so that tests need no real time."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple, Protocol

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Instant(NamedTuple):
    """
    One reading of all clocks.

    ``boot_ms`` (CLOCK_BOOTTIME) counts through suspend, ``mono_ms`` (CLOCK_MONOTONIC) does not:
    their difference tells a suspended node from a running one. ``wall_s`` is good for nothing but
    deciding which rows are 35 days old.
    """

    boot: str
    boot_ms: int
    mono_ms: int
    wall_s: int


class Clock(Protocol):
    def now(self) -> Instant: ...

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Return when ``event`` is set or the time is over; clears the event."""


class SystemClock:
    def __init__(self) -> None:
        self._boot = BOOT_ID.read_text().strip()

    def now(self) -> Instant:
        return Instant(
            boot=self._boot,
            boot_ms=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000,
            mono_ms=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000,
            wall_s=int(time.time()),
        )

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except asyncio.TimeoutError:
            return
        event.clear()
