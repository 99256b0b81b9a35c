"""Tables as CSV files: written while they are sent, and harmless in a spreadsheet."""

import csv
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, TypeVar, cast
from zoneinfo import ZoneInfo

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from rental.records.paging import Key, take_page
from rental.records.texts import instant_text, money_text

# What a spreadsheet takes for the beginning of a formula. Source: OWASP, "CSV Injection".
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
BATCH: Final = 500  # rows read at once, and the most that is in memory

Cell = str | int | Decimal | None
Row = TypeVar("Row", bound=Model)


class _Echo:
    """What csv.writer writes to: hands the line back."""

    def write(self, line: str) -> str:
        return line


def amount(micro: int) -> Decimal:
    """Return micro-units as a cell, as exact as the API's text. The currency has its own column."""
    return Decimal(money_text(micro))


def moments(at: datetime, zone: ZoneInfo) -> tuple[str, str]:
    """Return a moment as two cells: on the tenant's clock, and in UTC as the API writes it."""
    return at.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S"), instant_text(at)


def harmless(cell: Cell) -> Cell:
    """Return a text that no spreadsheet computes. Numbers are ours and stay as they are."""
    if isinstance(cell, str) and cell.startswith(FORMULA):
        return f"'{cell}"
    return cell


def read_all(rows: QuerySet[Row], *, key: Key) -> Iterator[list[Row]]:
    """Yield all rows, the newest first, in batches: short queries and no cursor left open."""
    cursor: str | None = None
    while True:
        page = take_page(rows, key=key, descending=True, limit=BATCH, cursor=cursor, scope="csv")
        yield page.rows
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def csv_answer(
    request: HttpRequest,
    *,
    name: str,
    header: Sequence[str],
    batches: Iterable[Iterable[Sequence[Cell]]],
) -> HttpResponse:
    """
    Answer with a file. The header's words are the API's, so that a program reads it in every
    language; a byte order mark lets Excel read Chinese.
    """
    chunks = _chunks(header, batches)
    response = StreamingHttpResponse(
        _in_turn(chunks) if isinstance(request, ASGIRequest) else chunks,
        content_type="text/csv; charset=utf-8",
    )
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return cast(HttpResponse, response)  # which no page does more with than set a header


def _chunks(header: Sequence[str], batches: Iterable[Iterable[Sequence[Cell]]]) -> Iterator[bytes]:
    writer = csv.writer(_Echo())
    yield b"\xef\xbb\xbf" + writer.writerow(header).encode()
    for batch in batches:
        lines = [writer.writerow([harmless(cell) for cell in row]) for row in batch]
        yield "".join(lines).encode()


async def _in_turn(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """
    Take one chunk at a time, in the request's thread. Django would first collect all of a plain
    iterator, and a slow reader would keep a connection: between two chunks it goes back.
    """

    def take() -> bytes | None:
        try:
            return next(chunks, None)
        finally:
            if not connection.in_atomic_block:
                connection.close()

    while (chunk := await sync_to_async(take)()) is not None:
        yield chunk
