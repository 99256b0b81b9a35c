"""
What the agent proves of a run: ticks by CLOCK_BOOTTIME from readiness. Pure; the caller reads
clocks and writes rows.

    tick k = [ready + 6k s, ready + 6(k+1) s)        a started tick counts
    seen alive at age a (ms since ready):  until = floor(a / 6,000)
    stopped by us at age a:                until = ceil(a / 6,000)
    found ended, last seen alive at a:     until = ceil(a / 6,000)
    after a break, seen again at a:        from  = ceil(a / 6,000)

A tick that a break touches is thus never claimed: the last whole tick before it ends the stretch,
and the next stretch begins with the first tick that starts after it. An agent that was dead is no
break: the same container (id, start, boot) found alive proves everything in between.
Source: DESIGN §6.
"""

from dataclasses import dataclass, replace

from agents.clock import Instant

TICK_MS = 6_000
# BOOTTIME and MONOTONIC are read one after the other; a difference that grew by more than this is
# a suspend, in which no instance ran.
SUSPEND_MS = 1_000


@dataclass(frozen=True)
class Life:
    """One start of one container in one boot: what continuity means."""

    container: str
    started: str
    boot: str


@dataclass(frozen=True)
class Traffic:
    """Bytes of a container since it started."""

    net_out: int = 0
    net_in: int = 0


@dataclass
class Stretch:
    """An unbroken range of ticks. ``suspended_ms``: BOOTTIME minus MONOTONIC when it began."""

    from_tick: int
    until_tick: int
    life: Life
    suspended_ms: int
    base: Traffic
    net_out: int = 0
    net_in: int = 0


@dataclass
class RunMeter:
    """
    The meter of one run. ``ready_ms``: BOOTTIME of ``boot`` when the readiness probe passed.
    ``seen_ms``: when the container was last seen alive and well. Each method returns the stretches
    that changed and must be written before they are sent.
    """

    run: str
    allocation: str
    boot: str
    ready_ms: int
    seen_ms: int
    stretch: Stretch | None = None
    is_over: bool = False

    @classmethod
    def begin(
        cls, *, run: str, allocation: str, life: Life, now: Instant, traffic: Traffic
    ) -> "RunMeter":
        meter = cls(run, allocation, now.boot, now.boot_ms, now.boot_ms)
        meter.stretch = Stretch(0, 0, life, now.boot_ms - now.mono_ms, traffic)
        return meter

    def age_ms(self, now: Instant) -> int:
        return now.boot_ms - self.ready_ms

    def see(
        self, *, life: Life, now: Instant, traffic: Traffic, is_healthy: bool = True
    ) -> list[Stretch]:
        """It was found alive; an unhealthy GPU ends the stretch at the last good look."""
        if self.is_over or now.boot != self.boot:
            return []
        suspended_ms = now.boot_ms - now.mono_ms
        changed: list[Stretch] = []
        current = self.stretch
        if current is not None and (
            not is_healthy
            or current.life != life
            or abs(suspended_ms - current.suspended_ms) > SUSPEND_MS
        ):
            changed.append(replace(current))
            current = self.stretch = None
        if not is_healthy:
            return changed
        age = self.age_ms(now)
        self.seen_ms = now.boot_ms
        if current is None:
            first = _ceil(age)
            self.stretch = Stretch(first, first, life, suspended_ms, traffic)
            return [*changed, replace(self.stretch)]
        until = max(current.until_tick, age // TICK_MS)
        current.net_out = max(current.net_out, traffic.net_out - current.base.net_out)
        current.net_in = max(current.net_in, traffic.net_in - current.base.net_in)
        if until > current.until_tick:
            current.until_tick = until
            changed.append(replace(current))
        return changed

    def stop(self, *, now: Instant, last_tick: int | None = None) -> list[Stretch]:
        """
        We end the container now: the tick in which that happens counts.

        :param last_tick: where the run was to end: that we came late starts no further tick
        """
        age = self.age_ms(now) if now.boot == self.boot else None
        if age is not None and last_tick is not None:
            age = min(age, last_tick * TICK_MS)
        return self._finish(age)

    def lose(self) -> list[Stretch]:
        """The container was found ended: the tick in which it was last seen alive counts."""
        return self._finish(self.seen_ms - self.ready_ms)

    def _finish(self, age: int | None) -> list[Stretch]:
        if self.is_over:
            return []
        self.is_over = True
        current = self.stretch
        if current is None:
            return []
        if age is not None:
            current.until_tick = max(current.until_tick, _ceil(age))
        return [replace(current)]


def _ceil(age_ms: int) -> int:
    return -(-age_ms // TICK_MS)
