"""While PostgreSQL is away: pulses are answered, known agents come in, nothing is lost."""

import pytest
from websockets.exceptions import InvalidStatus

from agents import protocol
from billing.models import Stretch
from rental.gateway.process import Gateway
from scheduler.models import GatewayFlush, Node, NodeLiveness
from tests.factories.gateway import make_agent, open_run, usage
from tests.gateway.eventually import eventually
from tests.gateway.outage import database_away

pytestmark = pytest.mark.django_db(transaction=True)


def test_pulses_are_answered_and_usage_is_kept_until_it_can_be_stored(server):
    enrolled = make_agent()
    run = open_run(enrolled.node)
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    eventually(lambda: Node.objects.get(id=enrolled.node).cpu_milli_total)

    with database_away():
        agent.send(usage(enrolled.node, 1, run, until=10))
        for seq in range(1, 21):
            agent.send(protocol.Pulse(node=str(enrolled.node), boot="boot-1", seq=seq))
            agent.take(protocol.PulseAck, seq=seq)
        agent.send(usage(enrolled.node, 2, run, until=20))
        eventually(lambda: server.gateway.usage.late_since and server.gateway.pulses.late_since)
        assert not [m for m in agent.kept if isinstance(m, protocol.Ack)]

    agent.take(protocol.Ack, seq=2)
    assert Stretch.objects.get(run_id=run).until_tick == 20
    eventually(lambda: NodeLiveness.objects.filter(node_id=enrolled.node, seq=20).exists())


def test_a_known_agent_comes_in_and_an_unknown_one_is_asked_to_come_again(server, monkeypatch):
    known, unknown = make_agent("known", nodes=("a",)), make_agent("unknown", nodes=("b",))
    server.connect(known.credential).hello(known.node)

    with database_away():
        monkeypatch.setattr("rental.gateway.door.FRESH", 0)  # s: no answer is fresh enough
        again = server.connect(known.credential)
        again.hello(known.node)
        with pytest.raises(InvalidStatus) as refusal:
            server.connect(unknown.credential)

    assert refusal.value.response.status_code == 503
    eventually(lambda: server.connect(unknown.credential), ignoring=(InvalidStatus,))


def test_facts_of_an_outage_are_stored_in_their_order(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    eventually(lambda: Node.objects.get(id=enrolled.node).cpu_milli_total)

    with database_away():
        for cores in (8, 16, 32):
            facts = protocol.Facts(cpu_milli=cores * 1000, ram_mib=262_144, disk_mib=1_000_000)
            agent.hello(enrolled.node, facts=facts)

    eventually(lambda: Node.objects.get(id=enrolled.node).cpu_milli_total == 32_000)


def test_when_the_queue_overflows_the_link_is_closed_and_all_is_sent_again(server):
    enrolled = make_agent()
    runs = [open_run(enrolled.node) for _ in range(6)]
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    server.gateway.usage.limit = 3

    with database_away():
        for seq, run in enumerate(runs, start=1):
            agent.send(usage(enrolled.node, seq, run))
        agent.send(protocol.Pulse(node=str(enrolled.node), boot="boot-1", seq=1))
        agent.take(protocol.PulseAck)

    assert agent.close_code() == 1013
    assert not [m for m in agent.kept if isinstance(m, protocol.Ack)]

    server.gateway.usage.limit = 100
    again = eventually(lambda: server.connect(enrolled.credential), ignoring=(InvalidStatus,))
    again.hello(enrolled.node)
    for seq, run in enumerate(runs, start=7):
        again.send(usage(enrolled.node, seq, run))
    again.take(protocol.Ack, seq=12)
    assert Stretch.objects.filter(run_id__in=runs).count() == 6


@pytest.mark.parametrize("ear", ["facts", "orders"])
def test_a_gateway_that_stores_pulses_and_nothing_else_does_not_listen(ear):
    gateway = Gateway()
    late = {"facts": None, "orders": None, ear: "nothing written for 11 s"}
    gateway.facts.complaint = lambda: late["facts"]
    gateway.orders.complaint = lambda: late["orders"]

    gateway.pulses.turn()
    assert not GatewayFlush.objects.exists()

    late[ear] = None
    gateway.pulses.turn()
    assert GatewayFlush.objects.get().gateway_id == str(gateway.id)
