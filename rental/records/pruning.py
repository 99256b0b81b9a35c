"""Deletes what is past its time, a batch at a time. Never for money: those tables keep all."""

from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet

# Keeps each transaction short and its locks few; a night has time for many.
BATCH: Final = 1000


def forget(rows: "QuerySet[Any]", *, batch: int = BATCH) -> int:
    """
    Delete the rows, each batch in a transaction of its own; return how many. Rows that somebody
    holds are left for the next night. Call outside of any transaction.
    """
    done = 0
    while True:
        with transaction.atomic():
            locked = rows.order_by("pk").select_for_update(of=("self",), skip_locked=True)
            ids = list(locked.values_list("pk", flat=True)[:batch])
            rows.model._base_manager.filter(pk__in=ids).delete()
        done += len(ids)
        if len(ids) < batch:
            return done
