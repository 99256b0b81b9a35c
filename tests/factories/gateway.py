"""Agents as the gateway meets them: enrolled, with a credential and nodes."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from rental.records.audit import Actor
from rental.records.clock import database_now
from scheduler.models import Region, Zone
from scheduler.services.enrolment import enrol, issue_token

OPERATOR = Actor(kind="system", id="tests")


@dataclass(frozen=True)
class EnrolledAgent:
    agent_id: UUID
    credential: str
    nodes: dict[str, UUID]

    @property
    def node(self):
        """The only node."""
        (node_id,) = self.nodes.values()
        return node_id


def make_token(*, uses=1):
    region, _ = Region.objects.get_or_create(code="east")
    zone, _ = Zone.objects.get_or_create(code="east-1", defaults={"region": region})
    now = database_now()
    return issue_token(
        zone=zone, uses=uses, expires_at=now + timedelta(hours=1), actor=OPERATOR, now=now
    )


def make_agent(name="agent-1", *, nodes=("node-1",)):
    enrolled = enrol(token=make_token(), agent_name=name, nodes=nodes, now=database_now())
    return EnrolledAgent(enrolled.agent_id, enrolled.credential, enrolled.nodes)
