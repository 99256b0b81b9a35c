"""
Codes that prove a contact: who reads what is sent there can type it here.

One way for sign-up, a forgotten password and a changed contact, by mail and by phone alike:
allauth's own flows make the account before the proof and reset passwords by mail only.
"""

import secrets
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from rental.tenants.contacts import Contact
from rental.tenants.errors import BadCode, TooManyCodes
from rental.tenants.models import ContactCode

LIFE: Final = timedelta(minutes=15)
# With 5 tries a code and 5 codes an hour a guesser has a chance of 1 in 1,600 a day.
TRIES: Final = 5
CODES_PER_HOUR: Final = 5
KEEP: Final = timedelta(days=1)

Purpose = ContactCode.Purpose


@transaction.atomic
def make_code(*, contact: Contact, purpose: Purpose, now: datetime) -> ContactCode:
    """
    Return a new code; older ones for the same purpose end with it.

    :raises TooManyCodes: if five were made within the last hour
    """
    rows = ContactCode.objects.filter(contact=contact.value, purpose=purpose)
    if rows.filter(created_at__gt=now - timedelta(hours=1)).count() >= CODES_PER_HOUR:
        raise TooManyCodes(contact.masked)
    rows.filter(expires_at__gt=now).update(expires_at=now)
    return ContactCode.objects.create(
        contact=contact.value,
        purpose=purpose,
        code=f"{secrets.randbelow(1_000_000):06}",
        created_at=now,
        expires_at=now + LIFE,
    )


def use_code(*, contact: Contact, purpose: Purpose, code: str, now: datetime) -> None:
    """
    Spend the code. Call outside of any transaction that a refusal would undo: a wrong try counts.

    :raises BadCode: if it is wrong, too old, used or was tried too often
    """
    with transaction.atomic():
        refused = _spend(contact, purpose, code, now)
    if refused is not None:
        raise BadCode(refused)


def _spend(contact: Contact, purpose: Purpose, code: str, now: datetime) -> str | None:
    rows = ContactCode.objects.filter(contact=contact.value, purpose=purpose)
    row = rows.select_for_update(no_key=True).order_by("-created_at", "-pk").first()
    if row is None or row.used_at is not None or row.expires_at <= now:
        return "expired"
    if row.tries >= TRIES:
        return "tried_too_often"
    row.tries += 1
    typed = "".join(code.split())
    if not secrets.compare_digest(row.code.encode(), typed.encode()):
        row.save(update_fields=["tries"])
        return "tried_too_often" if row.tries >= TRIES else "wrong"
    row.used_at = now
    row.save(update_fields=["tries", "used_at"])
    return None
