"""How an agent gets in: a token that an operator issues, then a credential of its own."""

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import MalformedId, from_text, new_id, to_text
from scheduler.errors import EnrolmentRefused
from scheduler.models import Agent, EnrolmentToken, Node, Zone

__all__ = [
    "Enrolled",
    "EnrolmentRefused",
    "authenticate_agent",
    "enrol",
    "issue_token",
    "revoke_agent",
]

log = structlog.get_logger()

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolled:
    """``credential`` is shown once; only its digest is kept. ``nodes``: id by name."""

    agent_id: uuid.UUID
    credential: str
    nodes: dict[str, uuid.UUID]


def digest_of(text: str) -> bytes:
    """The secrets are 256 random bits, so a plain SHA-256 is enough: nobody can guess one."""
    return hashlib.sha256(text.encode()).digest()


@transaction.atomic
def issue_token(*, zone: Zone, uses: int, expires_at: datetime, actor: Actor, now: datetime) -> str:
    """Make an enrolment token of ``uses`` agents in the zone and return its text, once."""
    text = f"tse_{secrets.token_urlsafe(32)}"
    token = EnrolmentToken.objects.create(
        digest=digest_of(text), zone=zone, uses_left=uses, expires_at=expires_at, created_at=now
    )
    record_event(
        tenant_id=None,
        actor=actor,
        verb="enrolment_token.issue",
        subject=str(token.id),
        before=None,
        after={"zone": zone.pk, "uses": uses, "expires_at": expires_at.isoformat()},
        request_id=None,
        now=now,
    )
    return text


@transaction.atomic
def enrol(*, token: str, agent_name: str, nodes: Sequence[str], now: datetime) -> Enrolled:
    """
    Spend one use of the token: make the agent and its nodes, or give an agent that enrols again a
    fresh credential (the old one ends) and the nodes it names. Nodes keep what they hold.

    :raises EnrolmentRefused: see its codes; nothing is spent
    """
    for name in (agent_name, *nodes):
        if not NAME.fullmatch(name):
            raise EnrolmentRefused("name", f"not a usable name: {name[:63]!r}")
    if not nodes or len(set(nodes)) < len(nodes):
        raise EnrolmentRefused("no_nodes", "name each of one or more nodes once")
    spent = _spend(token, now=now)
    agent, credential = _admit_agent(agent_name, now=now)
    ids = {name: _admit_node(name, agent=agent, zone_id=spent.zone_id, now=now) for name in nodes}
    record_event(
        tenant_id=None,
        actor=Actor(kind="system", id=agent.name),
        verb="agent.enrol",
        subject=to_text("agt", agent.id),
        before=None,
        after={"nodes": sorted(ids), "token": str(spent.id)},
        request_id=None,
        now=now,
    )
    log.info("agent.enrolled", agent=to_text("agt", agent.id), nodes=sorted(ids))
    return Enrolled(agent_id=agent.id, credential=credential, nodes=ids)


def _spend(text: str, *, now: datetime) -> EnrolmentToken:
    token = EnrolmentToken.objects.select_for_update().filter(digest=digest_of(text)).first()
    if token is None:
        raise EnrolmentRefused("bad_token", "no such enrolment token")
    if token.expires_at <= now:
        raise EnrolmentRefused("expired", "the enrolment token has expired")
    if token.uses_left == 0:
        raise EnrolmentRefused("used_up", "the enrolment token is used up")
    token.uses_left -= 1
    token.save(update_fields=["uses_left"])
    return token


def _admit_agent(name: str, *, now: datetime) -> tuple[Agent, str]:
    secret = secrets.token_urlsafe(32)
    agent, _is_new = Agent.objects.update_or_create(
        name=name,
        defaults={"digest": digest_of(secret), "enrolled_at": now, "revoked_at": None},
        create_defaults={"id": new_id(), "digest": digest_of(secret), "enrolled_at": now},
    )
    return agent, f"tsa_{to_text('agt', agent.id).removeprefix('agt_')}_{secret}"


def _admit_node(name: str, *, agent: Agent, zone_id: str, now: datetime) -> uuid.UUID:
    node, _is_new = Node.objects.get_or_create(
        name=name, defaults={"agent": agent, "zone_id": zone_id, "created_at": now}
    )
    if node.agent_id != agent.id:
        raise EnrolmentRefused("node_taken", f"node {name} belongs to another agent")
    if node.zone_id != zone_id:
        raise EnrolmentRefused("zone", f"node {name} stands in zone {node.zone_id}")
    return node.id


def authenticate_agent(text: str) -> Agent | None:
    """Return the agent whose credential this is; None for any other text."""
    kind, _, rest = text.partition("_")
    letters, _, secret = rest.partition("_")
    try:
        agent_id = from_text("agt", f"agt_{letters}")
    except MalformedId:
        return None
    agent = Agent.objects.filter(id=agent_id, revoked_at=None).first()
    if kind != "tsa" or agent is None:
        return None
    return agent if hmac.compare_digest(bytes(agent.digest), digest_of(secret)) else None


@transaction.atomic
def revoke_agent(*, agent_id: uuid.UUID, actor: Actor, now: datetime) -> None:
    """End the agent's credential. Its links are closed by the gateway's next check."""
    if Agent.objects.filter(id=agent_id, revoked_at=None).update(revoked_at=now):
        record_event(
            tenant_id=None,
            actor=actor,
            verb="agent.revoke",
            subject=to_text("agt", agent_id),
            before={"revoked_at": None},
            after={"revoked_at": now.isoformat()},
            request_id=None,
            now=now,
        )
