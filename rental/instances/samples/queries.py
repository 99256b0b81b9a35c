"""What charts read of an instance: the last hour point by point, or minutes gathered into steps."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from django.db import connection

from rental.instances.samples.days import DAYS_KEPT
from rental.instances.samples.points import Point
from rental.instances.samples.recent import KEPT, RecentGone, recent

LONGEST: Final = DAYS_KEPT * 24 * 60  # minutes
MOST_STEPS: Final = 1440  # in one answer: a day of minutes

_MINUTES: Final = """
    SELECT date_bin(%(step)s, minute, 'epoch'::timestamptz) AS step,
           round(sum(util_sum)::numeric / sum(count))::int, max(util_max),
           round(sum(vram_sum)::numeric / sum(count))::bigint, max(vram_max),
           round(sum(watts_sum)::numeric / sum(count))::int, max(watts_max),
           round(sum(celsius_sum)::numeric / sum(count))::int, max(celsius_max)
      FROM rental_instancesampleminute
     WHERE instance_id = %(instance)s AND tenant_id = %(tenant)s
       AND minute >= %(since)s AND minute < %(until)s AND count > 0
     GROUP BY step ORDER BY step"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One step: means, and the highest in it. Memory in MiB, power in W, temperature in °C."""

    at: datetime
    util_percent: int
    util_percent_max: int
    vram_mib: int
    vram_mib_max: int
    watts: int
    watts_max: int
    celsius: int
    celsius_max: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """
    ``source`` is "points" (as the node sent them, ``step_s`` 0) or "minutes". Where a node sent
    nothing, a step is missing; none is made up.
    """

    since: datetime
    until: datetime
    step_s: int
    source: Literal["points", "minutes"]
    samples: list[Sample]


def read_samples(
    *, tenant_id: uuid.UUID, instance_id: uuid.UUID, minutes: int, now: datetime
) -> Series:
    """
    Return the samples of the last ``minutes``. The instance must be known to be the tenant's: the
    last hour is kept by instance alone.

    While Valkey is away the last hour is told from the minutes, which are up to two minutes late.
    """
    since = now - timedelta(minutes=minutes)
    if minutes * 60 <= KEPT:
        try:
            points = recent().read(instance_id, since=int(since.timestamp()))
        except RecentGone:
            pass
        else:
            samples = [_as_sample(point) for point in points]
            return Series(since=since, until=now, step_s=0, source="points", samples=samples)
    step_s = 60 * -(-minutes // MOST_STEPS)
    samples = _read_minutes(tenant_id, instance_id, since, now, step_s)
    return Series(since=since, until=now, step_s=step_s, source="minutes", samples=samples)


def _as_sample(point: Point) -> Sample:
    at = datetime.fromtimestamp(point.at, UTC)
    util, vram, watts, celsius = point[1:]
    return Sample(at, util, util, vram, vram, watts, watts, celsius, celsius)


def _read_minutes(
    tenant_id: uuid.UUID, instance_id: uuid.UUID, since: datetime, until: datetime, step_s: int
) -> list[Sample]:
    values: dict[str, Any] = {
        "step": timedelta(seconds=step_s),
        "instance": instance_id,
        "tenant": tenant_id,
        "since": since,
        "until": until,
    }
    with connection.cursor() as cursor:
        cursor.execute(_MINUTES, values)
        return [Sample(*row) for row in cursor.fetchall()]
