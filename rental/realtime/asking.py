"""The hub's questions to PostgreSQL, over one connection that it keeps."""

import asyncio
import uuid
from collections.abc import Collection, Sequence

import psycopg
import structlog

from rental.realtime.database import connect
from rental.realtime.standing import Standing, Visitor, read_standings

PATIENCE = 5.0  # s for one answer
CHUNK = 2_000  # rows in one question, so that each answer is short

log = structlog.get_logger()

# (tenant, instance)
Row = tuple[uuid.UUID, uuid.UUID]

_VERSIONS = """
    SELECT row.tenant_id, row.id, row.version
      FROM unnest(%s::uuid[], %s::uuid[]) AS asked(tenant_id, id)
      JOIN rental_instance row ON row.id = asked.id AND row.tenant_id = asked.tenant_id"""


class DatabaseAway(Exception):
    """PostgreSQL could not be asked; the next question tries a new connection."""


class Asker:
    """One question at a time. Every question may raise ``DatabaseAway``."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None

    async def standings(self, visitors: Sequence[Visitor]) -> dict[Visitor, Standing]:
        async with self._lock:
            try:
                async with asyncio.timeout(PATIENCE):
                    return await read_standings(await self._connected(), visitors)
            except (psycopg.Error, OSError, TimeoutError) as error:
                raise await self._lost(error) from error

    async def versions(self, rows: Collection[Row]) -> dict[Row, int]:
        """Return the version of each row that is there and is that tenant's."""
        found: dict[Row, int] = {}
        asked = list(rows)
        for start in range(0, len(asked), CHUNK):
            found |= await self._versions(asked[start : start + CHUNK])
        return found

    async def _versions(self, rows: Sequence[Row]) -> dict[Row, int]:
        columns = [[tenant for tenant, _ in rows], [instance for _, instance in rows]]
        async with self._lock:
            try:
                async with asyncio.timeout(PATIENCE):
                    cursor = await (await self._connected()).execute(_VERSIONS, columns)
                    answer = await cursor.fetchall()
            except (psycopg.Error, OSError, TimeoutError) as error:
                raise await self._lost(error) from error
        return {(tenant, instance): version for tenant, instance, version in answer}  # type: ignore[misc]

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        if self._connection is None:
            self._connection = await connect("web-live-questions")
        return self._connection

    async def _lost(self, error: Exception) -> DatabaseAway:
        await self.close()
        return DatabaseAway(str(error))
