"""Desired sets: sent when a node's version or the epoch rose, and not otherwise."""

import time

import pytest
from django.db.models import F

from agents import protocol
from rental.instances import passes
from rental.instances.secrets import put_secret
from rental.records.clock import database_now
from scheduler.models import Node
from scheduler.services.liveness import raise_control_epoch
from tests.factories.gateway import make_agent
from tests.factories.rental import (
    NOON,
    PERSON,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
)
from tests.gateway.eventually import eventually
from tests.gateway.outage import database_away

pytestmark = pytest.mark.django_db(transaction=True)


def raise_version(node_id):
    Node.objects.filter(id=node_id).update(version=F("version") + 1)


def test_a_raised_version_brings_the_desired_set_within_two_seconds(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    first = agent.take(protocol.Desired)

    raise_version(enrolled.node)
    began = time.monotonic()
    second = agent.take(protocol.Desired)

    assert second.node_version > first.node_version
    assert time.monotonic() - began < 2


def test_only_the_node_whose_version_rose_hears_of_it(server):
    enrolled = make_agent(nodes=("node-1", "node-2"))
    quiet, changed = enrolled.nodes.values()
    agent = server.connect(enrolled.credential)
    for node in (quiet, changed):
        agent.hello(node)
        agent.take(protocol.Desired, node=str(node))

    for _ in range(2):
        raise_version(changed)
        agent.take(protocol.Desired, node=str(changed))

    assert [m for m in agent.kept if isinstance(m, protocol.Desired)] == []


def test_a_new_epoch_sends_every_node_its_set_again(server):
    enrolled = make_agent(nodes=("node-1", "node-2"))
    agent = server.connect(enrolled.credential)
    for node in enrolled.nodes.values():
        agent.hello(node)
        agent.take(protocol.Desired, node=str(node))

    epoch = raise_control_epoch(now=database_now(), reason="test")

    for node in enrolled.nodes.values():
        assert agent.take(protocol.Desired, node=str(node)).control_epoch == epoch


def test_a_second_hello_is_answered_with_the_set_again(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    agent.take(protocol.Desired)

    agent.hello(enrolled.node)

    assert agent.take(protocol.Desired).node == str(enrolled.node)


def test_after_an_outage_the_versions_that_rose_meanwhile_are_sent(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    before = agent.take(protocol.Desired)

    with database_away():
        raise_version(enrolled.node)
        eventually(lambda: server.gateway.orders.late_since)

    assert agent.take(protocol.Desired).node_version > before.node_version


def test_values_of_secrets_travel_in_the_set_and_stand_in_no_log(server, caplog):
    make_offer()
    make_image()
    node = make_node()
    tenant = make_rich_tenant()
    enrolled = make_agent(nodes=("gateways-own",))
    Node.objects.filter(id=node.id).update(agent_id=enrolled.agent_id)
    put_secret(
        tenant_id=tenant.id, name="HF_TOKEN", value="hf_plain", actor=PERSON, now=database_now()
    )
    (instance,) = order(tenant, secrets=["HF_TOKEN"])
    passes.place(now=NOON)
    agent = server.connect(enrolled.credential)

    agent.hello(node.id)
    (sent,) = agent.take(protocol.Desired).orders

    assert sent.instance == str(instance.id)
    assert sent.spec.env == {"HF_TOKEN": "hf_plain"}
    assert sent.network == "100.64.0.0/22"
    assert "hf_plain" not in caplog.text
