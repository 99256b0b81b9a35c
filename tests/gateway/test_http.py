"""The gateway's HTTP side: enrolment, health, metrics, and nothing else."""

import httpx
import pytest

from scheduler.models import Agent, Node
from tests.factories.gateway import make_agent, make_token
from tests.gateway.eventually import eventually
from tests.gateway.outage import database_away

pytestmark = pytest.mark.django_db(transaction=True)


def enrol(server, **body):
    return httpx.post(f"http://{server.address}/agent/v1/enrol", json=body)


def test_a_token_becomes_a_credential_that_opens_the_socket(server):
    answer = enrol(server, token=make_token(), agent="agent-1", nodes=["node-1"])

    assert answer.status_code == 201
    node = answer.json()["nodes"]["node-1"]
    assert server.connect(answer.json()["credential"]).hello(node).node == node


def test_a_used_token_enrols_nobody(server):
    token = make_token(uses=1)
    enrol(server, token=token, agent="agent-1", nodes=["node-1"])

    answer = enrol(server, token=token, agent="agent-2", nodes=["node-2"])

    assert (answer.status_code, answer.json()["code"]) == (403, "used_up")
    assert answer.headers["content-type"] == "application/problem+json"
    assert not Agent.objects.filter(name="agent-2").exists()


def test_another_agents_node_cannot_be_taken(server):
    make_agent("agent-1", nodes=("node-1",))

    answer = enrol(server, token=make_token(), agent="agent-2", nodes=["node-1"])

    assert (answer.status_code, answer.json()["code"]) == (409, "node_taken")
    assert Node.objects.get(name="node-1").agent.name == "agent-1"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"token": 1}', b"[", b"\xff"])
def test_a_malformed_enrolment_is_refused(server, body):
    answer = httpx.post(f"http://{server.address}/agent/v1/enrol", content=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


def test_enrolment_says_when_the_database_is_away(server):
    token = make_token()

    with database_away():
        answer = enrol(server, token=token, agent="agent-1", nodes=["node-1"])

    assert (answer.status_code, answer.json()["code"]) == (503, "database_away")
    assert Agent.objects.count() == 0


def test_health_is_good_while_the_lanes_work(server):
    assert httpx.get(f"http://{server.address}/healthz").status_code == 200


def test_health_names_the_lane_that_is_late_and_recovers(server):
    for lane in server.gateway.lanes:
        lane.late_after = 0.5  # s instead of 5: the bound, not the wait, is what is tested

    def health():
        return httpx.get(f"http://{server.address}/healthz")

    with database_away():
        answer = eventually(lambda: (a := health()).status_code == 503 and a)
    assert any("nothing written for" in reason for reason in answer.json()["reasons"])
    eventually(lambda: health().status_code == 200)


def test_metrics_count_the_links(server):
    enrolled = make_agent()
    server.connect(enrolled.credential).hello(enrolled.node)

    answer = httpx.get(f"http://{server.address}/metrics")

    assert "tessera_gateway_links 1.0" in answer.text.splitlines()


def test_metrics_have_the_gauges_of_the_scheduler_while_the_database_answers(server):
    make_agent("agent-1", nodes=("node-1",))

    def lines():
        return httpx.get(f"http://{server.address}/metrics").text.splitlines()

    [nodes] = [line for line in lines() if line.startswith("tessera_scheduler_nodes{")]
    assert nodes.endswith('status="never"} 1.0')
    with database_away():
        answer = httpx.get(f"http://{server.address}/metrics")
    assert answer.status_code == 200
    assert "tessera_gateway_links" in answer.text
    assert "tessera_scheduler_" not in answer.text


@pytest.mark.parametrize("path", ["/", "/admin/", "/v1/instances", "/accounts/login/"])
def test_nothing_of_the_web_process_is_served(server, path):
    answer = httpx.get(f"http://{server.address}{path}")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_fault_of_the_gateway_is_told_without_a_page(server, monkeypatch):
    monkeypatch.setattr(server.gateway, "complaints", None)

    answer = httpx.get(f"http://{server.address}/healthz")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
