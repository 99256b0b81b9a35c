"""Hellos and phases: stored in order, and a bad one costs nobody else anything."""

import pytest

from agents import protocol
from rental.records.ids import new_id
from scheduler.models import Gpu, Node
from tests.factories.gateway import make_agent
from tests.gateway.eventually import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def facts(*cards):
    return protocol.Facts(
        cpu_milli=64_000,
        ram_mib=262_144,
        disk_mib=1_000_000,
        gpus=[
            protocol.GpuFact(uuid=card, index=index, model="RTX 4090", memory_mib=24_576)
            for index, card in enumerate(cards)
        ],
    )


def phase(node, allocation, *, seq=1):
    return protocol.Phase(
        node=str(node),
        allocation=str(allocation),
        instance=str(new_id()),
        incarnation=1,
        phase="running",
        seq=seq,
    )


def test_hello_brings_the_nodes_facts(server):
    enrolled = make_agent()

    server.connect(enrolled.credential).hello(enrolled.node, facts=facts("GPU-1", "GPU-2"))

    eventually(lambda: Gpu.objects.filter(node_id=enrolled.node).count() == 2)
    assert Node.objects.get(id=enrolled.node).cpu_milli_total == 64_000


def test_a_phase_that_makes_no_sense_is_refused_and_the_others_are_stored(server):
    nodes = tuple(f"node-{number}" for number in range(10))
    enrolled = make_agent(nodes=nodes)
    agent = server.connect(enrolled.credential)
    for node in enrolled.nodes.values():
        agent.hello(node)

    bad = enrolled.nodes["node-4"]
    agent.send(phase(bad, "no id"))
    for name, node in enrolled.nodes.items():
        agent.say_hello(node, facts=facts(f"GPU-{name}"))

    refused = agent.take(protocol.Refused)
    assert (refused.node, refused.code) == (str(bad), "unusable")
    assert "no id" in refused.detail
    eventually(lambda: Gpu.objects.count() == 10)


def test_a_node_that_another_agent_took_over_closes_the_link(server):
    enrolled, other = make_agent(), make_agent("other", nodes=("elsewhere",))
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)

    Node.objects.filter(id=enrolled.node).update(agent_id=other.agent_id)

    assert agent.close_code(timeout=5) == 4403


def test_a_link_that_ends_speaks_for_nobody(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)

    agent.socket.close()

    eventually(lambda: not server.gateway.links.by_node())
    assert server.gateway.links.all_open() == []
