"""The sweep that keeps the records' tables small and their partitions ahead of time."""

from datetime import datetime

import structlog
from django.contrib.sessions.models import Session

from rental.records import idempotency, outbox, partitions, periodic

log = structlog.get_logger()


def keep_house(*, now: datetime) -> None:
    """Make the audit log's next months; forget what is past its time. Safe to repeat."""
    months = partitions.make_audit_months(now=now)
    log.info(
        "records.housekeeping",
        months=[month.isoformat() for month in months],
        idempotency_keys=idempotency.forget_before(now - idempotency.KEEP),
        outbox_messages=outbox.forget_before(now - outbox.KEEP),
        sessions=Session.objects.filter(expire_date__lt=now).delete()[0],
        periodic_runs=periodic.forget_before(now - periodic.KEEP),
    )
