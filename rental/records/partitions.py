"""Months of the audit log: one partition each, made ahead of time."""

from datetime import date, datetime
from typing import Final

import structlog
from django.db import connection

log = structlog.get_logger()

# The present month and three ahead: housekeeping may be down for a quarter and nothing lands in
# the default partition, which cannot be dropped by month.
MONTHS_AHEAD: Final = 3


def month_of(moment: datetime, *, later: int = 0) -> date:
    """Return the first day of the month of ``moment`` (UTC), ``later`` months on."""
    count = moment.year * 12 + moment.month - 1 + later
    return date(count // 12, count % 12 + 1, 1)


def make_audit_months(*, now: datetime, ahead: int = MONTHS_AHEAD) -> list[date]:
    """
    Make the partitions of this month and of the next ``ahead``; return those that are new.

    The function in the database runs with its owner's rights (migration 0002), because the
    app's role owns nothing. A month of which rows lie in the default partition already is left
    there: the rows are safe and found, they only cannot be dropped as a month.
    """
    made = []
    for later in range(ahead + 1):
        month = month_of(now, later=later)
        with connection.cursor() as cursor:
            cursor.execute("SELECT tenants_make_audit_month(%s)", [month])
            outcome = cursor.fetchone()[0]
        if outcome == "made":
            made.append(month)
        elif outcome == "in_default":
            log.warning("audit.month_in_default_partition", month=month.isoformat())
    return made
