"""Pages by signed, opaque cursors: {data, has_more, next_cursor}, no totals."""

import base64
import binascii
import hmac
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Generic, TypeVar

from django.conf import settings
from django.db.models import Model, Q, QuerySet

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
_MAC = 12  # bytes; a forged cursor would only be a strange place to begin a page

Key = tuple[str, ...]  # the columns that order a list; the last one makes the order total


Row = TypeVar("Row", bound=Model)


class ForeignCursor(ValueError):
    """The cursor is not ours, or belongs to another list, order, filter or tenant."""


@dataclass(frozen=True)
class Page(Generic[Row]):
    """Up to ``limit`` rows, and where the next page begins (None at the end)."""

    rows: list[Row]
    next_cursor: str | None


def _mac(value: bytes, scope: str) -> bytes:
    key = sha256(f"cursor:{settings.SECRET_KEY}".encode()).digest()
    return hmac.digest(key, scope.encode() + b"\0" + value, "sha256")[:_MAC]


def _pack(value: object) -> bytes:
    if isinstance(value, datetime):
        return b"t" + value.astimezone(UTC).isoformat().encode()
    if isinstance(value, uuid.UUID):
        return b"u" + value.bytes.hex().encode()
    return b"s" + str(value).encode()


def _unpack(packed: bytes) -> datetime | uuid.UUID | str:
    kind, text = packed[:1], packed[1:].decode()
    if kind == b"t":
        return datetime.fromisoformat(text)
    return uuid.UUID(hex=text) if kind == b"u" else text


def write_cursor(values: Sequence[object], *, scope: str) -> str:
    """Return the opaque name of a place in a list. It is good for the same ``scope`` only."""
    value = b"\0".join(_pack(value) for value in values)
    return base64.urlsafe_b64encode(_mac(value, scope) + value).rstrip(b"=").decode()


def read_cursor(text: str, *, scope: str) -> list[datetime | uuid.UUID | str]:
    """:raises ForeignCursor: if the cursor is not ours, or of another list, order or tenant"""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) <= _MAC or not hmac.compare_digest(raw[:_MAC], _mac(raw[_MAC:], scope)):
        raise ForeignCursor("this cursor does not belong to this list")
    return [_unpack(part) for part in raw[_MAC:].split(b"\0")]


def after(values: Sequence[object], *, key: Key, descending: bool) -> Q:
    """Return the rows behind a place: (a, b) < (x, y), spelled so that an index on a can serve."""
    side = "lt" if descending else "gt"
    first, value, rest = key[0], values[0], key[1:]
    if not rest:
        return Q(**{f"{first}__{side}": value})
    return Q(**{f"{first}__{side}e": value}) & (
        Q(**{f"{first}__{side}": value}) | after(values[1:], key=rest, descending=descending)
    )


def take_page(
    rows: QuerySet[Row], *, key: Key, descending: bool, limit: int, cursor: str | None, scope: str
) -> Page[Row]:
    """
    Return one page of ``rows`` in the order of ``key``: one query, one row more than shown.

    :param scope: what the cursor is good for (list, tenant, filters); any string
    :raises ForeignCursor: see ``read_cursor``
    """
    scope = f"{scope}:{'-' if descending else ''}{','.join(key)}"
    if cursor is not None:
        rows = rows.filter(after(read_cursor(cursor, scope=scope), key=key, descending=descending))
    order = [f"-{name}" if descending else name for name in key]
    found = list(rows.order_by(*order)[: limit + 1])
    shown = found[:limit]
    if len(found) <= limit:
        return Page(shown, None)
    return Page(shown, write_cursor([getattr(shown[-1], name) for name in key], scope=scope))
