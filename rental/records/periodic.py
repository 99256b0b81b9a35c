"""Slots of periodic passes: whoever inserts the row runs the pass, everybody else goes home."""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction

from rental.records.models import PeriodicRun

__all__ = ["PeriodicRun", "forget_before", "slot_of", "take_slot"]

# Slots only have to outlive a message that beat sent and a worker finds late.
KEEP: Final = timedelta(days=2)

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def slot_of(now: datetime, *, every: timedelta) -> datetime:
    """Return the start of the period of length ``every`` (counted from 1970) that holds ``now``."""
    return now - (now - _EPOCH) % every


def take_slot(*, name: str, slot: datetime) -> bool:
    """
    Take the slot for the caller's transaction; False if another has it.

    Two workers at once: the second stands at its INSERT until the first has ended. If that one
    failed, the slot is free again and the second takes it, so a crash skips no period.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError(f"the slot of {name} belongs into the transaction of its pass")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenants_periodicrun (name, slot) VALUES (%s, %s)"
            " ON CONFLICT (name, slot) DO NOTHING",
            [name, slot],
        )
        return bool(cursor.rowcount == 1)


def forget_before(moment: datetime) -> int:
    """Delete the slots before ``moment``; return how many."""
    return PeriodicRun.objects.filter(slot__lt=moment).delete()[0]
