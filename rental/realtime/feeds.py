"""Where news comes from: PostgreSQL says which rows changed, Valkey carries samples."""

import asyncio
import json
import struct
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import redis.asyncio
import structlog
from django.conf import settings
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from rental.instances.samples.points import Point, unpack_named
from rental.instances.samples.recent import CHANNEL
from rental.realtime.backoff import Backoff
from rental.realtime.database import connect

ROWS_CHANNEL = "tessera_live"
QUIET = 10.0  # s without news after which the connection is asked whether it lives
PATIENCE = 5.0  # s for its answer
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0  # s before the next try to connect

log = structlog.get_logger()

# tenant, instance, version
OnRow = Callable[[uuid.UUID, uuid.UUID, int], None]
OnPoints = Callable[[Iterable[tuple[uuid.UUID, Point]]], None]
OnState = Callable[[bool], None]  # True: the feed is there again, False: it was lost


async def follow_rows(on_row: OnRow, on_state: OnState) -> None:
    """
    Listen for changed rows, for ever. What changes while nobody listens is never told: whoever
    needs it reads the versions once ``on_state(True)`` was called.
    """
    pause = Backoff(FIRST_WAIT, LONGEST_WAIT)
    while True:
        try:
            async with await connect("web-live-rows") as connection:
                await connection.execute(f"LISTEN {ROWS_CHANNEL}")
                on_state(True)
                pause.reset()
                while True:
                    async for note in connection.notifies(timeout=QUIET):
                        _tell_row(note.payload, on_row)
                    async with asyncio.timeout(PATIENCE):
                        await connection.execute("SELECT 1")
        except (psycopg.Error, OSError, TimeoutError) as error:
            on_state(False)
            log.warning("live.rows_lost", error=str(error))
        await asyncio.sleep(pause.next())


def _tell_row(payload: str, on_row: OnRow) -> None:
    try:
        said = json.loads(payload)
        tenant_id, instance_id = uuid.UUID(said["t"]), uuid.UUID(said["i"])
        version = int(said["v"])
    except (ValueError, KeyError, TypeError):
        log.error("live.row_unreadable", payload=payload[:200])
        return
    on_row(tenant_id, instance_id, version)


async def follow_samples(on_points: OnPoints, on_state: OnState) -> None:
    """Listen for samples, for ever. Lost ones are lost; charts read the last hour anew."""
    pause = Backoff(FIRST_WAIT, LONGEST_WAIT)
    while True:
        client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL,
            socket_connect_timeout=PATIENCE,
            socket_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),  # we come back ourselves, and say so meanwhile
        )
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(CHANNEL)
                on_state(True)
                pause.reset()
                await _read_samples(subscription, on_points)
        except (RedisError, OSError, TimeoutError) as error:
            on_state(False)
            log.warning("live.samples_lost", error=str(error))
        finally:
            await client.aclose()
        await asyncio.sleep(pause.next())


async def _read_samples(subscription: Any, on_points: OnPoints) -> None:
    """:raises TimeoutError: if Valkey says nothing, not even to a ping"""
    is_asked = False
    while True:
        message = await subscription.get_message(timeout=PATIENCE if is_asked else QUIET / 4)
        if message is None:
            if is_asked:
                raise TimeoutError("no answer to a ping")
            await subscription.ping()
            is_asked = True
            continue
        is_asked = False
        if message["type"] == "message":
            try:
                on_points(unpack_named(message["data"]))
            except struct.error:
                log.error("live.samples_unreadable", size=len(message["data"]))
