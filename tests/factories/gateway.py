"""Agents as the gateway meets them: enrolled, with a credential and nodes."""

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from uuid import UUID

from agents import protocol
from billing.services.runs import RunOpening, open_runs
from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.records.ids import new_id
from scheduler.models import Region, Zone
from scheduler.services.enrolment import enrol, issue_token
from tests.factories.tenants import default_project, make_tenant

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


def open_run(node_id, *, opened_at=None):
    """Open a run that this node reports, an hour ago unless said otherwise; return its id."""
    tenant = make_tenant()
    opening = RunOpening(
        run_id=new_id(),
        tenant_id=tenant.id,
        project_id=default_project(tenant).id,
        instance_id=new_id(),
        allocation_id=new_id(),
        reporter=node_id,
        session=1,
        price_key="compute/east/test/on_demand",
        market="on_demand",
        share=Fraction(1),
        opened_at=opened_at or database_now() - timedelta(hours=1),
    )
    open_runs([opening])
    return opening.run_id


def usage(node_id, seq, *runs, ready_s=1800, until=100, from_tick=0, net_out=0):
    """A usage frame: each run was ready ``ready_s`` ago and seen for [from_tick, until)."""
    stretch = protocol.Stretch(from_tick=from_tick, until_tick=until, net_out=net_out)
    return protocol.Usage(
        node=str(node_id),
        boot="boot-1",
        seq=seq,
        runs=[
            protocol.RunReport(run=str(run), ready_age_ms=ready_s * 1000, stretches=[stretch])
            for run in runs
        ],
    )
