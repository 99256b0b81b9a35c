"""Days of the table of minutes: one partition each, made ahead of time and dropped when past."""

from datetime import date, datetime, timedelta
from typing import Final

import structlog
from django.db import connection

from rental.instances.samples.models import InstanceSampleMinute

log = structlog.get_logger()

DAYS_KEPT: Final = 14
# Housekeeping may be down for a week and nothing lands in the default partition.
DAYS_AHEAD: Final = 7


def keep_sample_days(*, now: datetime) -> tuple[list[date], list[date]]:
    """
    Make the partitions of today and of the next days, drop those that are past their time;
    return which were made and which dropped.

    The functions in the database run with their owner's rights (migration 0003): the app's role
    owns nothing. What lies in the default partition is deleted row by row.
    """
    today = now.date()
    made, dropped = [], []
    with connection.cursor() as cursor:
        for later in range(-1, DAYS_AHEAD + 1):
            day = today + timedelta(days=later)
            cursor.execute("SELECT rental_make_sample_day(%s)", [day])
            outcome = cursor.fetchone()[0]
            if outcome == "made":
                made.append(day)
            elif outcome == "in_default":
                log.warning("samples.day_in_default_partition", day=day.isoformat())
        cursor.execute("SELECT rental_drop_sample_days()")
        dropped = sorted(row[0] for row in cursor.fetchall())
    InstanceSampleMinute.objects.filter(minute__lt=now - timedelta(days=DAYS_KEPT + 1)).delete()
    return made, dropped
