"""Inserting a row that a named constraint may refuse."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction
from psycopg.errors import UniqueViolation


@contextmanager
def refused_as(failure: Exception) -> Iterator[None]:
    """
    Raise ``failure`` if the block's row exists already.

    The database decides, not a look before the insert: two at once would both see nothing. The
    savepoint keeps the caller's transaction usable. Other integrity errors are bugs and pass.
    """
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        if isinstance(error.__cause__, UniqueViolation):
            raise failure from error
        raise
