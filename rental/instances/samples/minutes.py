"""Minutes of samples on their way to the table: summed in memory, merged by one statement."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from rental.instances.samples.points import Point

MINUTE = 60  # s

Figures = tuple[int, int, int, int]  # utilisation, memory, power, temperature

# Two gateways, or one before and after its restart, may have seen parts of one minute.
_MERGE = """
    INSERT INTO rental_instancesampleminute AS old
           (instance_id, minute, tenant_id, count, util_sum, util_max, vram_sum, vram_max,
            watts_sum, watts_max, celsius_sum, celsius_max)
    SELECT * FROM unnest(%s::uuid[], %s::timestamptz[], %s::uuid[], %s::int[],
                         %s::bigint[], %s::int[], %s::bigint[], %s::bigint[],
                         %s::bigint[], %s::int[], %s::bigint[], %s::int[])
    ON CONFLICT (instance_id, minute) DO UPDATE SET
           count = old.count + excluded.count,
           util_sum = old.util_sum + excluded.util_sum,
           util_max = greatest(old.util_max, excluded.util_max),
           vram_sum = old.vram_sum + excluded.vram_sum,
           vram_max = greatest(old.vram_max, excluded.vram_max),
           watts_sum = old.watts_sum + excluded.watts_sum,
           watts_max = greatest(old.watts_max, excluded.watts_max),
           celsius_sum = old.celsius_sum + excluded.celsius_sum,
           celsius_max = greatest(old.celsius_max, excluded.celsius_max)
     WHERE old.tenant_id = excluded.tenant_id"""


@dataclass(slots=True)
class Minute:
    """The points of one instance in one minute, summed. ``start``: seconds since 1970."""

    instance_id: uuid.UUID
    tenant_id: uuid.UUID
    start: int
    count: int = 0
    util_sum: int = 0
    util_max: int = 0
    vram_sum: int = 0
    vram_max: int = 0
    watts_sum: int = 0
    watts_max: int = 0
    celsius_sum: int = 0
    celsius_max: int = -128

    def add(self, point: Point) -> None:
        util, vram, watts, celsius = point[1:]
        self._add(1, (util, vram, watts, celsius), (util, vram, watts, celsius))

    def merge(self, other: "Minute") -> None:
        """Count in what another one of the same instance and minute has."""
        sums = (other.util_sum, other.vram_sum, other.watts_sum, other.celsius_sum)
        highest = (other.util_max, other.vram_max, other.watts_max, other.celsius_max)
        self._add(other.count, sums, highest)

    def _add(self, count: int, sums: Figures, highest: Figures) -> None:
        self.count += count
        self.util_sum += sums[0]
        self.util_max = max(self.util_max, highest[0])
        self.vram_sum += sums[1]
        self.vram_max = max(self.vram_max, highest[1])
        self.watts_sum += sums[2]
        self.watts_max = max(self.watts_max, highest[2])
        self.celsius_sum += sums[3]
        self.celsius_max = max(self.celsius_max, highest[3])


class Minutes:
    """Minutes that are not stored yet. Bounded: under pressure the oldest are forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[tuple[uuid.UUID, int], Minute] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, tenant_id: uuid.UUID, instance_id: uuid.UUID, point: Point) -> int:
        """Count a point in; return how many minutes were forgotten for it."""
        start = point.at - point.at % MINUTE
        minute = self._open.get((instance_id, start))
        if minute is None:
            minute = Minute(instance_id, tenant_id, start)
            self._open[instance_id, start] = minute
        minute.add(point)
        forgotten = 0
        while len(self._open) > self._limit:
            del self._open[next(iter(self._open))]
            forgotten += 1
        return forgotten

    def take_ended(self, before: int) -> list[Minute]:
        """Return, and forget, the minutes that began before ``before`` (seconds since 1970)."""
        ended = [minute for minute in self._open.values() if minute.start < before]
        for minute in ended:
            del self._open[minute.instance_id, minute.start]
        return ended

    def put_back(self, minutes: Sequence[Minute]) -> None:
        """Keep what could not be stored: as the oldest, so the first that pressure forgets."""
        newer, self._open = self._open, {}
        for minute in [*minutes, *newer.values()]:
            known = self._open.setdefault((minute.instance_id, minute.start), minute)
            if known is not minute:
                known.merge(minute)
        while len(self._open) > self._limit:
            del self._open[next(iter(self._open))]


def store_minutes(minutes: Sequence[Minute]) -> None:
    """Merge the minutes into the table. An instance's rows stay its tenant's."""
    if not minutes:
        return
    columns: list[Any] = [
        [one.instance_id for one in minutes],
        [datetime.fromtimestamp(one.start, UTC) for one in minutes],
        [one.tenant_id for one in minutes],
        [one.count for one in minutes],
        [one.util_sum for one in minutes],
        [one.util_max for one in minutes],
        [one.vram_sum for one in minutes],
        [one.vram_max for one in minutes],
        [one.watts_sum for one in minutes],
        [one.watts_max for one in minutes],
        [one.celsius_sum for one in minutes],
        [one.celsius_max for one in minutes],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_MERGE, columns)
