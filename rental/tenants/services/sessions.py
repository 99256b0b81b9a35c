"""
Where somebody is signed in. Rows of allauth.usersessions name the sessions; a session that ends
loses its row in django_session, which is what open sockets look at.
"""

from datetime import datetime

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import transaction

from rental.tenants.models import User

SHOWN = 20


def sessions_of(user: User, *, now: datetime) -> list[UserSession]:
    """Return the newest sessions that live; two queries however many there were."""
    rows = list(UserSession.objects.filter(user=user).order_by("-created_at")[: SHOWN * 5])
    keys = [row.session_key for row in rows]
    living = Session.objects.filter(session_key__in=keys, expire_date__gt=now)
    alive = set(living.values_list("session_key", flat=True))
    return [row for row in rows if row.session_key in alive][:SHOWN]


@transaction.atomic
def end_other_sessions(user: User, *, keep: str | None) -> int:
    """End all sessions of the user but one; return how many lived."""
    rows = UserSession.objects.filter(user=user).exclude(session_key=keep or "")
    keys = list(rows.values_list("session_key", flat=True))
    ended = Session.objects.filter(session_key__in=keys).delete()[0]
    rows.delete()
    return int(ended)
