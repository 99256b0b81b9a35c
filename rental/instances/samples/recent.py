"""
The last hour of samples, in Valkey: a list of packed points for each instance, and one channel.

Nothing but charts reads it, and it may be gone at any time. Nothing here waits longer than
``PATIENCE`` for it, and after a failure nothing is tried for ``SULK``.
"""

import struct
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from rental.instances.samples.points import Point, pack, pack_named, unpack

KEPT: Final = 3_600  # s
MOST: Final = 400  # points of one instance: an hour at one in ten seconds, and some to spare
CHANNEL: Final = "tessera:samples"
PATIENCE: Final = 0.5  # s
SULK: Final = 2.0  # s

log = structlog.get_logger()
Answer = TypeVar("Answer")


class RecentGone(Exception):
    """Valkey cannot be asked now."""


class RecentSamples:
    """Writes and reads the last hour. May be used by several threads."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(
            url,
            socket_connect_timeout=PATIENCE,
            socket_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),
        )
        self._lock = threading.Lock()
        self._quiet_until = 0.0

    def write(self, points: Sequence[tuple[uuid.UUID, Point]]) -> None:
        """
        Append the points, and tell whoever draws them now.

        :raises RecentGone: if they are lost
        """
        by_instance: dict[uuid.UUID, list[bytes]] = {}
        for instance_id, point in points:
            by_instance.setdefault(instance_id, []).append(pack(point))
        with self._client.pipeline(transaction=False) as pipe:
            for instance_id, packed in by_instance.items():
                key = _key(instance_id)
                pipe.rpush(key, *packed)
                pipe.ltrim(key, -MOST, -1)
                pipe.expire(key, KEPT)
            pipe.publish(CHANNEL, pack_named(points))
            self._try(pipe.execute)

    def read(self, instance_id: uuid.UUID, *, since: int) -> list[Point]:
        """
        Return the points from ``since`` (seconds since 1970) on, oldest first.

        :raises RecentGone: if they cannot be read
        """
        raw: Any = self._try(lambda: self._client.lrange(_key(instance_id), 0, -1))
        points = []
        for content in raw:
            try:
                points.append(unpack(content))
            except struct.error:  # another version wrote it; it is gone within the hour
                continue
        # Two gateways, or a link that was held up, may have written out of order.
        return sorted(point for point in points if point.at >= since)

    def close(self) -> None:
        self._client.close()

    def _try(self, ask: Callable[[], Answer]) -> Answer:
        if time.monotonic() < self._quiet_until:
            raise RecentGone("was not there a moment ago")
        try:
            return ask()
        except (RedisError, OSError) as error:
            self._quiet_until = time.monotonic() + SULK
            log.warning("samples.valkey_away", error=str(error))
            raise RecentGone(str(error)) from error


@cache
def recent() -> RecentSamples:
    """Return this process's door to the last hour."""
    return RecentSamples(settings.REDIS_URL)


def _key(instance_id: uuid.UUID) -> str:
    return f"tessera:samples:{instance_id.hex}"
