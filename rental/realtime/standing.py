"""Who sits at an open socket, and whether he still may: one query for all of them."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from rental.realtime.outbox import CloseCode
from rental.tenants.permissions import may

VERB = "instances:read"

# A session's row goes when it is signed out; a new password makes the others worthless although
# their rows stay, so the password's hash is compared with what it was at the beginning.
_ASK = """
    SELECT tenant.id, member.role,
           coalesce(session.expire_date > clock_timestamp() AND person.is_active, false),
           hashtextextended(person.password, 0)
      FROM unnest(%s::text[], %s::uuid[], %s::text[])
           WITH ORDINALITY AS asked(session, person, slug, n)
      LEFT JOIN django_session session ON session.session_key = asked.session
      LEFT JOIN tenants_user person ON person.id = asked.person
      LEFT JOIN tenants_tenant tenant ON tenant.slug = asked.slug
      LEFT JOIN tenants_membership member
             ON member.tenant_id = tenant.id AND member.user_id = person.id
     ORDER BY asked.n"""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose socket it is, as its handshake said: session, user, and the tenant of its page."""

    session: str
    user_id: uuid.UUID
    slug: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What the database says of a visitor. ``proof`` changes with his password."""

    tenant_id: uuid.UUID | None
    role: str | None
    is_signed_in: bool
    proof: int | None

    def objection(self) -> CloseCode | None:
        """Say why he may not have a socket; None if he may."""
        if not self.is_signed_in:
            return CloseCode.SIGNED_OUT
        if self.tenant_id is None or self.role is None:
            return CloseCode.NOT_FOUND
        if not may(self.role, VERB):
            return CloseCode.FORBIDDEN
        return None

    def objection_since(self, before: "Standing") -> CloseCode | None:
        """The same, and any change since ``before``: what a page shows may depend on it."""
        if objection := self.objection():
            return objection
        if self.proof != before.proof:
            return CloseCode.SIGNED_OUT
        if (self.tenant_id, self.role) != (before.tenant_id, before.role):
            return CloseCode.FORBIDDEN
        return None


async def read_standings(
    connection: psycopg.AsyncConnection[Any], visitors: Sequence[Visitor]
) -> dict[Visitor, Standing]:
    """Return what holds of each visitor now."""
    distinct = list(dict.fromkeys(visitors))
    columns = [
        [one.session for one in distinct],
        [one.user_id for one in distinct],
        [one.slug for one in distinct],
    ]
    cursor = await connection.execute(_ASK, columns)
    rows = await cursor.fetchall()
    return {one: Standing(*row) for one, row in zip(distinct, rows, strict=True)}
