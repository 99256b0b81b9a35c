"""The sweep that forgets what joining leaves behind. Safe to repeat."""

from datetime import datetime

import structlog
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session

from rental.records.pruning import forget
from rental.tenants.models import ContactCode
from rental.tenants.services.codes import KEEP

log = structlog.get_logger()


def forget_past(*, now: datetime) -> None:
    """Delete codes older than a day and the names of sessions that have ended."""
    living = Session.objects.filter(expire_date__gt=now).values("session_key")
    log.info(
        "tenants.housekeeping",
        codes=forget(ContactCode.objects.filter(created_at__lt=now - KEEP)),
        sessions=forget(UserSession.objects.exclude(session_key__in=living)),
    )
