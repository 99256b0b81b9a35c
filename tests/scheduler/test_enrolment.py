"""How agents get in: tokens, credentials, and enrolling again."""

from contextlib import contextmanager
from datetime import timedelta

import pytest

from scheduler.errors import EnrolmentRefused
from scheduler.models import Agent, EnrolmentToken, Node
from scheduler.services.enrolment import (
    authenticate_agent,
    enrol,
    issue_token,
    revoke_agent,
)
from tests.factories.scheduler import NOON, make_allocation, make_zone
from tests.factories.tenants import OPERATOR

pytestmark = pytest.mark.django_db


def issue(*, zone=None, uses=1, hours=1):
    return issue_token(
        zone=zone or make_zone(),
        uses=uses,
        expires_at=NOON + timedelta(hours=hours),
        actor=OPERATOR,
        now=NOON,
    )


def let_in(token=None, *, name="rack-1", nodes=("node-1", "node-2"), now=NOON):
    return enrol(token=token or issue(), agent_name=name, nodes=nodes, now=now)


@contextmanager
def refusal(code):
    with pytest.raises(EnrolmentRefused) as caught:
        yield
    assert caught.value.code == code


def test_a_token_makes_an_agent_with_its_nodes():
    enrolled = let_in()

    agent = Agent.objects.get()
    assert agent.id == enrolled.agent_id
    assert set(enrolled.nodes) == {"node-1", "node-2"}
    assert {node.agent_id for node in Node.objects.all()} == {agent.id}
    assert authenticate_agent(enrolled.credential) == agent


def test_no_secret_is_stored():
    token = issue()
    enrolled = let_in(token)

    stored = bytes(EnrolmentToken.objects.get().digest) + bytes(Agent.objects.get().digest)
    assert token.encode() not in stored
    assert enrolled.credential.encode() not in stored
    assert len(stored) == 64


def test_a_token_is_spent():
    token = issue(uses=2)
    let_in(token)
    let_in(token, name="rack-2", nodes=["node-3"])

    with refusal("used_up"):
        let_in(token, name="rack-3", nodes=["node-4"])

    assert Node.objects.count() == 3


def test_a_token_expires_at_its_hour():
    token = issue(hours=1, uses=2)

    let_in(token, now=NOON + timedelta(hours=1, microseconds=-1))
    with refusal("expired"):
        let_in(token, now=NOON + timedelta(hours=1))


def test_any_other_text_is_no_token():
    with refusal("bad_token"):
        let_in("tse_something")


@pytest.mark.parametrize("nodes", [[], ["a", "a"]])
def test_nodes_are_named_once_each(nodes):
    with refusal("no_nodes"):
        let_in(nodes=nodes)


@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a" * 64])
def test_names_are_plain(name):
    with refusal("name"):
        let_in(name=name)


def test_a_refused_enrolment_spends_nothing():
    let_in()
    token = issue()

    with refusal("node_taken"):
        let_in(token, name="rack-2", nodes=["node-3", "node-1"])

    assert EnrolmentToken.objects.get(uses_left=1)
    assert not Node.objects.filter(name="node-3").exists()
    assert not Agent.objects.filter(name="rack-2").exists()


def test_an_agent_that_enrols_again_keeps_its_nodes_and_what_they_hold():
    first = let_in()
    node = Node.objects.get(name="node-1")
    version = node.version

    second = let_in()

    assert (second.agent_id, second.nodes) == (first.agent_id, first.nodes)
    assert authenticate_agent(first.credential) is None
    assert authenticate_agent(second.credential) is not None
    node.refresh_from_db()
    assert node.version == version


def test_a_node_stays_in_its_zone():
    let_in()

    with refusal("zone"):
        let_in(issue(zone=make_zone("test-1b")))


def test_a_revoked_agent_is_nobody():
    enrolled = let_in()

    revoke_agent(agent_id=enrolled.agent_id, actor=OPERATOR, now=NOON)

    assert authenticate_agent(enrolled.credential) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text + "x",
        lambda text: text.replace("tsa_", "tsr_"),
        lambda text: text.upper(),
        lambda text: "",
        lambda text: "tsa_" + "0" * 26 + "_" + text.rpartition("_")[2],
    ],
)
def test_any_other_text_is_no_credential(spoil):
    enrolled = let_in()

    assert authenticate_agent(spoil(enrolled.credential)) is None


def test_an_allocation_s_node_is_not_another_agent_s_to_take():
    allocation = make_allocation()
    name = Node.objects.get(pk=allocation.node_id).name

    with refusal("node_taken"):
        let_in(nodes=[name])
