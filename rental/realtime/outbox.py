"""What waits to be sent on one socket. Pure: no clock, no network."""

import asyncio
from collections import deque
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

import msgspec

from rental.instances.samples.points import Point
from rental.records.ids import to_text

What = Literal["rows", "samples"]

MOST_ROWS = 2_000  # rows that wait; above it one "resync" stands for all of them
MOST_POINTS = 60  # samples of one instance that wait: ten minutes of them

_encoder = msgspec.json.Encoder()


class CloseCode(IntEnum):
    """Why the server ends a socket; static/js/src/live.js knows what to do about each."""

    TOO_BIG = 1009
    TRY_AGAIN = 1013
    SIGNED_OUT = 4401
    FORBIDDEN = 4403
    NOT_FOUND = 4404
    TOO_MANY = 4429


@lru_cache(maxsize=4096)
def public_id(instance_id: UUID) -> str:
    return to_text("ins", instance_id)


class Outbox:
    """
    Holds the newest of everything, so a slow reader costs little and misses nothing: of a row
    only its last version waits, and when too many wait, "fetch everything anew" does.

    Messages: {"k": "rows", "v": {id: version}}, {"k": "samples", "id", "s": [[s, …]]},
    {"k": "delayed", "what", "is"}, {"k": "resync"}, {"k": "beat"}.
    """

    def __init__(self) -> None:
        self.has_some = asyncio.Event()
        self.goodbye: CloseCode | None = None
        self._rows: dict[UUID, int] = {}
        self._points: dict[UUID, deque[Point]] = {}
        self._delayed: dict[What, bool] = {}
        self._resync = False
        self._beat = False

    def put_row(self, instance_id: UUID, version: int) -> None:
        if self._resync:
            return
        known = self._rows.get(instance_id)
        if known is None and len(self._rows) >= MOST_ROWS:
            self.put_resync()
        elif known is None or known < version:
            self._rows[instance_id] = version
            self.has_some.set()

    def put_resync(self) -> None:
        self._rows.clear()
        self._resync = True
        self.has_some.set()

    def put_point(self, instance_id: UUID, point: Point) -> None:
        waiting = self._points.setdefault(instance_id, deque(maxlen=MOST_POINTS))
        waiting.append(point)
        self.has_some.set()

    def put_delayed(self, what: What, is_delayed: bool) -> None:
        self._delayed[what] = is_delayed
        self.has_some.set()

    def put_beat(self) -> None:
        self._beat = True
        self.has_some.set()

    def close(self, code: CloseCode) -> None:
        if self.goodbye is None:
            self.goodbye = code
            self.has_some.set()

    def take(self) -> list[str]:
        """Return everything that waits, encoded, and forget it."""
        self.has_some.clear()
        found: list[dict[str, Any]] = [
            {"k": "delayed", "what": what, "is": is_delayed}
            for what, is_delayed in self._delayed.items()
        ]
        if self._resync:
            found.append({"k": "resync"})
        if self._rows:
            found.append({"k": "rows", "v": {public_id(i): v for i, v in self._rows.items()}})
        found += [
            {"k": "samples", "id": public_id(i), "s": list(points)}
            for i, points in self._points.items()
        ]
        if self._beat and not found:
            found.append({"k": "beat"})  # anything else shows as well that the server is there
        self._rows, self._points, self._delayed = {}, {}, {}
        self._resync = self._beat = False
        return [_encoder.encode(message).decode() for message in found]
