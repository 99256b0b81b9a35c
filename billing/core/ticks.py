"""
Ticks: 6-second steps of a run, named by their index from its start. Pure.

Tick k of a run is [started_at + 6k s, started_at + 6(k+1) s). Source: DESIGN §6, ADR 0002.
"""

from datetime import datetime, timedelta

TICK = timedelta(seconds=6)
_MICROSECOND = timedelta(microseconds=1)
TICK_MICROSECONDS = TICK // _MICROSECOND


def tick_at(started_at: datetime, instant: datetime) -> int:
    """
    Return the first tick that begins at or after ``instant``: ceil((instant − start) / 6 s), or 0.

    One rule, three uses: where a price or a month begins; how many ticks a run that ends at
    ``instant`` has (a started tick counts), so ``closed_at_tick``; and how many ticks a report
    that was received at ``instant`` can have seen.
    """
    return max(0, -((started_at - instant) // TICK))


def start_of_tick(started_at: datetime, tick: int) -> datetime:
    return started_at + tick * TICK
