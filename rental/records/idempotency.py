"""Answer once: the effect of a request and the answer to it are one transaction."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from rental.records.models import IdempotencyKey

__all__ = [
    "Answer",
    "IdempotencyError",
    "IdempotencyInProgress",
    "IdempotencyKey",
    "IdempotencyKeyReused",
    "answer_once",
    "forget_before",
]

# How long a copy waits for the first one's answer (DESIGN §9); below the clients' time-outs.
WAIT: Final = timedelta(seconds=5)
# Kept longer than the 24 h that are promised, so that a client's late retry is no second order.
KEEP: Final = timedelta(days=7)


@dataclass(frozen=True)
class Answer:
    """
    What the caller gets. ``body`` is JSON.

    ``kept``: what is stored and replayed in place of ``body`` where that must not lie in the
    database (a secret shown once). ``replayed``: this is the stored answer of an earlier request.
    """

    status: int
    body: Any
    kept: Any = field(default=None, compare=False)
    replayed: bool = field(default=False, compare=False)


class IdempotencyError(Exception):
    """Base of what can be wrong with an idempotency key."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


class IdempotencyInProgress(IdempotencyError):
    """The first request with this key is still running after the wait."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "the first request with this key is still running")


class IdempotencyKeyReused(IdempotencyError):
    """The key came before, with another request."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "the key was used for another request")


def answer_once(
    *,
    tenant_id: uuid.UUID,
    key: str,
    request_hash: str,
    now: datetime,
    run: Callable[[], Answer],
) -> Answer:
    """
    Return the answer of ``run``, which is called once for each (tenant, key), however many copies
    of the request arrive, one after another or at once.

    The key's row is the first lock of the transaction (DESIGN §3.2): a concurrent copy stands at
    its INSERT until the first has committed, then reads the stored answer; if the first failed,
    the copy runs in its place. A failure (any exception) stores nothing and changes nothing.

    :raises IdempotencyInProgress: if the first copy still runs after ``WAIT``
    :raises IdempotencyKeyReused: if the key was used with another ``request_hash``
    """
    with transaction.atomic():
        row_id = _insert_or_wait(tenant_id=tenant_id, key=key, request_hash=request_hash, now=now)
        if row_id is None:
            return _stored(tenant_id=tenant_id, key=key, request_hash=request_hash)
        answer = run()
        IdempotencyKey.objects.filter(pk=row_id).update(
            state=IdempotencyKey.State.DONE,
            status=answer.status,
            body=answer.body if answer.kept is None else answer.kept,
        )
        return answer


def _insert_or_wait(
    *, tenant_id: uuid.UUID, key: str, request_hash: str, now: datetime
) -> int | None:
    """Insert the row and return its id, or None if a committed one exists."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        before = cursor.fetchone()[0]
        milliseconds = f"{WAIT // timedelta(milliseconds=1)}ms"
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [milliseconds])
        try:
            cursor.execute(
                """
                INSERT INTO tenants_idempotencykey
                    (tenant_id, key, request_hash, state, created_at)
                VALUES (%s, %s, %s, 'running', %s)
                ON CONFLICT (tenant_id, key) DO NOTHING
                RETURNING id
                """,
                [tenant_id, key, request_hash, now],
            )
        except OperationalError as error:
            if isinstance(error.__cause__, LockNotAvailable):
                raise IdempotencyInProgress(key) from error
            raise
        row = cursor.fetchone()
        # The wait is this INSERT's; the effect's own locks keep the limit that they had.
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])
    return None if row is None else int(row[0])


def _stored(*, tenant_id: uuid.UUID, key: str, request_hash: str) -> Answer:
    row = IdempotencyKey.objects.of(tenant_id).filter(key=key).first()
    if row is None:  # pruned between the two statements; the caller tries again
        raise IdempotencyInProgress(key)
    if row.request_hash != request_hash:
        raise IdempotencyKeyReused(key)
    if row.status is None:  # only from inside ``run`` itself: a request that repeats itself
        raise IdempotencyInProgress(key)
    return Answer(status=row.status, body=row.body, replayed=True)


def forget_before(moment: datetime) -> int:
    """Delete the keys made before ``moment``; return how many."""
    return IdempotencyKey.objects.filter(created_at__lt=moment).delete()[0]
