"""Who is let in, who speaks for which node, and what ends a connection."""

import pytest
from websockets.exceptions import InvalidStatus

from agents import protocol
from rental.gateway.consumer import LONGEST_FRAME
from rental.records.clock import database_now
from scheduler.models import Agent, NodeLiveness
from scheduler.services.enrolment import revoke_agent
from scheduler.services.liveness import raise_control_epoch
from tests.factories.gateway import OPERATOR, make_agent
from tests.gateway.eventually import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def pulse(node, seq=1):
    return protocol.Pulse(node=str(node), boot="boot-1", seq=seq)


@pytest.mark.parametrize("credential", ["", "nonsense", "tsa_{letters}_{wrong}"])
def test_a_wrong_credential_is_refused_before_the_socket_opens(server, credential):
    enrolled = make_agent()
    _, letters, _ = enrolled.credential.split("_", 2)

    with pytest.raises(InvalidStatus) as refusal:
        server.connect(credential.format(letters=letters, wrong="x" * 43))

    assert refusal.value.response.status_code == 403
    assert server.gateway.links.all_open() == []


def test_hello_is_answered_with_welcome_and_then_the_desired_set(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)

    welcome = agent.hello(enrolled.node)
    desired = agent.take(protocol.Desired)

    assert (welcome.version, welcome.control_epoch, welcome.committed) == (1, 1, 0)
    assert (desired.node, desired.orders) == (str(enrolled.node), [])


def test_welcome_names_the_epoch_of_a_restored_database_at_once(server):
    enrolled = make_agent()
    epoch = raise_control_epoch(now=database_now(), reason="test")

    welcome = server.connect(enrolled.credential).hello(enrolled.node)

    assert welcome.control_epoch == epoch


def test_an_agent_that_speaks_no_common_version_is_told_and_let_go(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)

    agent.say_hello(enrolled.node, oldest_version=7, newest_version=9)

    assert agent.take(protocol.Refused).code == "version"
    assert agent.close_code() == 4426


def test_a_newer_agent_is_spoken_to_in_our_version(server):
    enrolled = make_agent()

    welcome = server.connect(enrolled.credential).hello(enrolled.node, newest_version=9)

    assert welcome.version == protocol.VERSION


def test_one_connection_speaks_for_several_nodes(server):
    enrolled = make_agent(nodes=("node-1", "node-2"))
    first, second = enrolled.nodes.values()
    agent = server.connect(enrolled.credential)

    agent.hello(first)
    agent.hello(second)
    agent.send(pulse(second, seq=8))
    agent.send(pulse(first, seq=7))

    assert agent.take(protocol.PulseAck, node=str(first)).seq == 7
    assert agent.take(protocol.PulseAck, node=str(second)).seq == 8
    assert eventually(lambda: NodeLiveness.objects.count() == 2)


def test_a_foreign_node_is_refused_and_nothing_is_known_of_it(server):
    ours, theirs = make_agent("ours", nodes=("a",)), make_agent("theirs", nodes=("b",))
    agent = server.connect(ours.credential)
    agent.hello(ours.node)

    agent.say_hello(theirs.node)
    refused = agent.take(protocol.Refused)
    agent.send(pulse(theirs.node))
    agent.take(protocol.Refused, code="foreign_node")
    agent.send(pulse(ours.node))
    agent.take(protocol.PulseAck)

    assert (refused.node, refused.code) == (str(theirs.node), "foreign_node")
    eventually(lambda: NodeLiveness.objects.filter(node_id=ours.node).exists())
    assert not NodeLiveness.objects.filter(node_id=theirs.node).exists()


def test_frames_before_hello_are_refused(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)

    agent.send(pulse(enrolled.node))

    assert agent.take(protocol.Refused).code == "hello_first"


def test_a_newer_connection_for_a_node_replaces_the_older(server):
    enrolled = make_agent()
    older, newer = server.connect(enrolled.credential), server.connect(enrolled.credential)
    older.hello(enrolled.node)

    newer.hello(enrolled.node)

    assert older.close_code() == 4409
    newer.send(pulse(enrolled.node, seq=5))
    assert newer.take(protocol.PulseAck).seq == 5


@pytest.mark.parametrize("how", ["revoked", "enrolled again"])
def test_an_ended_credential_closes_the_link_and_then_the_door(server, how):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)

    if how == "revoked":
        revoke_agent(agent_id=enrolled.agent_id, actor=OPERATOR, now=database_now())
    else:
        make_agent()

    assert agent.close_code(timeout=5) == 4403
    with pytest.raises(InvalidStatus) as refusal:
        server.connect(enrolled.credential)
    assert refusal.value.response.status_code == 403


def test_one_malformed_frame_is_refused_and_three_in_a_row_end_the_link(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)

    agent.send_raw("{")
    assert agent.take(protocol.Refused).code == "malformed"
    agent.send(pulse(enrolled.node))
    agent.take(protocol.PulseAck)

    for text in ('{"type":"usage"}', '{"type":"nothing of ours"}', "[" * 10_000):
        agent.send_raw(text)
    assert agent.close_code() == 4400


def test_a_frame_above_the_limit_ends_the_link(server):
    enrolled = make_agent()
    agent = server.connect(enrolled.credential)

    agent.send_raw(" " * (LONGEST_FRAME + 1))

    assert agent.take(protocol.Refused).code == "too_big"
    assert agent.close_code() == 1009


def test_a_stopping_gateway_says_that_it_restarts(start_gateway):
    enrolled = make_agent()
    server = start_gateway()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)

    server.ask_to_stop()

    assert agent.close_code() == 1012
    assert Agent.objects.count() == 1
