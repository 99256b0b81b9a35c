"""When an instance will be over, as far as its timers say. A forecast; the sweep ends it."""

from datetime import datetime, timedelta

from rental.instances.models import Instance


def expected_end(instance: Instance, *, now: datetime) -> datetime | None:
    """Return the earlier of its timers, as if it were ready now if it is not yet; None without."""
    if instance.timers_session != instance.session:
        return None
    ends = [] if instance.auto_stop_at is None else [instance.auto_stop_at]
    if instance.max_duration_s is not None:
        ready_at = instance.session_ready_at or now
        ends.append(ready_at + timedelta(seconds=instance.max_duration_s))
    return min(ends, default=None)


def lasts_s(instance: Instance, *, now: datetime) -> int | None:
    """Return how many seconds it still runs at the most, if a timer says so."""
    end = expected_end(instance, now=now)
    return None if end is None else max(0, int((end - now).total_seconds()))
