"""One moment of one instance, as 12 bytes in Valkey and as five numbers elsewhere. Pure."""

import struct
import uuid
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

# Seconds since 1970, percent, MiB, W, °C. The day when 32 bits of seconds end is in 2106.
_POINT: Final = struct.Struct("<IBIHb")
_NAMED: Final = struct.Struct("<16sIBIHb")


class Point(NamedTuple):
    """
    What all GPU slices of an instance did at ``at``: utilisation is their mean, memory and power
    are sums, the temperature is that of the hottest.
    """

    at: int  # seconds since 1970, UTC
    util_percent: int
    vram_mib: int
    watts: int
    celsius: int

    def clamped(self) -> "Point":
        """Keep figures that no card has from breaking the encoding: a node may send anything."""
        return Point(
            _within(self.at, 0, 2**32 - 1),
            _within(self.util_percent, 0, 100),
            _within(self.vram_mib, 0, 2**32 - 1),
            _within(self.watts, 0, 2**16 - 1),
            _within(self.celsius, -128, 127),
        )


def pack(point: Point) -> bytes:
    return _POINT.pack(*point)


def unpack(content: bytes) -> Point:
    """:raises struct.error: if these are not the bytes of a point"""
    return Point(*_POINT.unpack(content))


def pack_named(points: Iterable[tuple[uuid.UUID, Point]]) -> bytes:
    """Return one message of many instances' points."""
    return b"".join(_NAMED.pack(instance_id.bytes, *point) for instance_id, point in points)


def unpack_named(content: bytes) -> Iterator[tuple[uuid.UUID, Point]]:
    """:raises struct.error: if the length is not one of whole points"""
    for head, *figures in _NAMED.iter_unpack(content):
        yield uuid.UUID(bytes=head), Point(*figures)


def _within(value: int, lowest: int, highest: int) -> int:
    return max(lowest, min(highest, value))
