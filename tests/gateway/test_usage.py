"""Usage: stored, then acked; what is forged or malformed costs nobody else anything."""

import pytest
from django.db import connection
from prometheus_client import REGISTRY

from agents import protocol
from billing.models import Run, Stretch
from rental.gateway.usage import BATCH
from rental.records.ids import new_id
from tests.factories.gateway import make_agent, open_run, usage
from tests.gateway.eventually import eventually
from tests.gateway.outage import another_connection

pytestmark = pytest.mark.django_db(transaction=True)


def stretches_of(run):
    rows = Stretch.objects.filter(run_id=run).order_by("from_tick")
    return list(rows.values_list("from_tick", "until_tick", "net_out"))


@pytest.fixture
def enrolled():
    return make_agent()


@pytest.fixture
def agent(server, enrolled):
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    return agent


def test_an_ack_means_that_the_stretch_is_stored(agent, enrolled):
    run = open_run(enrolled.node)

    agent.send(usage(enrolled.node, 1, run, until=100, net_out=5))
    ack = agent.take(protocol.Ack)

    assert (ack.node, ack.seq, ack.refused) == (str(enrolled.node), 1, [])
    assert stretches_of(run) == [(0, 100, 5)]
    assert Run.objects.get(id=run).started_at is not None


def test_no_ack_before_the_commit_while_pulses_are_answered(agent, enrolled):
    run = open_run(enrolled.node)

    with another_connection() as other, other.transaction():
        other.execute("LOCK TABLE billing_stretch IN ACCESS EXCLUSIVE MODE")
        agent.send(usage(enrolled.node, 1, run))
        waits = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'billing_stretch'::regclass"
        eventually(lambda: other.execute(waits).fetchone() is not None)
        for seq in range(5):
            agent.send(protocol.Pulse(node=str(enrolled.node), boot="boot-1", seq=seq))
            agent.take(protocol.PulseAck, seq=seq)
        assert not [m for m in agent.kept if isinstance(m, protocol.Ack)]

    assert agent.take(protocol.Ack).seq == 1
    assert stretches_of(run) == [(0, 100, 0)]


def test_repetition_and_disorder_keep_the_maximum(agent, enrolled):
    run = open_run(enrolled.node)

    for seq, until in enumerate((50, 120, 120, 70), start=1):
        agent.send(usage(enrolled.node, seq, run, until=until))
    agent.take(protocol.Ack, seq=4)

    assert stretches_of(run) == [(0, 120, 0)]


def test_usage_for_another_nodes_run_changes_no_row(server, agent, enrolled):
    victim = make_agent("victim", nodes=("victim-1",))
    theirs, ours = open_run(victim.node), open_run(enrolled.node)
    before = Run.objects.filter(id=theirs).values().get()

    agent.send(usage(enrolled.node, 1, theirs, ours))
    ack = agent.take(protocol.Ack)

    assert len(ack.refused) == 1
    assert str(theirs) in ack.refused[0]
    assert stretches_of(theirs) == []
    assert Run.objects.filter(id=theirs).values().get() == before
    assert stretches_of(ours) == [(0, 100, 0)]


@pytest.mark.parametrize(
    "poison",
    [
        {"net_out": 2**63},
        {"from_tick": 7, "until": 3},
        {"run": "\x00"},
    ],
)
def test_one_malformed_frame_among_a_thousand_delays_no_other(server, poison):
    nodes = tuple(f"node-{number}" for number in range(20))
    enrolled = make_agent(nodes=nodes)
    agent = server.connect(enrolled.credential)
    runs = {}
    for node in enrolled.nodes.values():
        agent.hello(node)
        runs[node] = open_run(node)
    bad_node = enrolled.nodes["node-7"]
    bad = {"run": runs[bad_node], "until": 40} | poison

    def failures():
        return (
            REGISTRY.get_sample_value("tessera_gateway_lane_failures_total", {"lane": "usage"}) or 0
        )

    failures_before = failures()
    for seq in range(1, 51):
        for node, run in runs.items():
            if seq == 25 and node == bad_node:
                agent.send(usage(node, seq, bad.pop("run"), **bad))
            else:
                agent.send(usage(node, seq, run, until=seq))

    refused = []
    for node in runs:
        last = 0
        while last < 50:
            ack = agent.take(protocol.Ack, node=str(node))
            last = ack.seq
            refused += [(node, words) for words in ack.refused]

    # Every batch was committed at the first try, so an ack waited for its own flush alone.
    assert failures() == failures_before
    assert [node for node, _ in refused] == [bad_node]
    assert all(stretches_of(run) == [(0, 50, 0)] for run in runs.values())


def test_a_full_queue_is_written_in_batches(server, agent, enrolled):
    run = open_run(enrolled.node)

    with another_connection() as other, other.transaction():
        other.execute("LOCK TABLE billing_stretch IN ACCESS EXCLUSIVE MODE")
        for seq in range(1, 2 * BATCH + 2):
            agent.send(usage(enrolled.node, seq, run, until=min(seq, 300)))
        agent.send(protocol.Pulse(node=str(enrolled.node), boot="boot-1", seq=1))
        agent.take(protocol.PulseAck)

    agent.take(protocol.Ack, seq=2 * BATCH + 1)
    assert stretches_of(run) == [(0, 300, 0)]


def test_a_broken_connection_costs_a_retry_and_no_frame(server, agent, enrolled):
    run = open_run(enrolled.node)

    with another_connection() as other:
        for seq in range(1, 6):
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'gateway-usage'"
            )
            agent.send(usage(enrolled.node, seq, run, until=seq))
            assert agent.take(protocol.Ack, seq=seq).refused == []

    assert stretches_of(run) == [(0, 5, 0)]


def test_two_gateways_that_write_the_same_runs_never_deadlock(start_gateway):
    enrolled = make_agent()
    runs = [open_run(enrolled.node) for _ in range(40)]
    agents = [start_gateway().connect(enrolled.credential) for _ in range(2)]
    for agent in agents:
        agent.hello(enrolled.node)

    def deadlocks():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
            return cursor.fetchone()[0]

    before = deadlocks()
    for seq in range(1, 101):
        agents[0].send(usage(enrolled.node, seq, *runs, until=seq))
        agents[1].send(usage(enrolled.node, seq, *reversed(runs), until=seq))
    for agent in agents:
        agent.take(protocol.Ack, seq=100)

    assert deadlocks() == before
    assert all(stretches_of(run) == [(0, 100, 0)] for run in runs)


def test_a_stopping_gateway_stores_what_it_received(start_gateway):
    enrolled = make_agent()
    server = start_gateway()
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)
    run = open_run(enrolled.node)

    with another_connection() as other, other.transaction():
        other.execute("LOCK TABLE billing_stretch IN ACCESS EXCLUSIVE MODE")
        agent.send(usage(enrolled.node, 1, run))
        agent.send(protocol.Pulse(node=str(enrolled.node), boot="boot-1", seq=1))
        agent.take(protocol.PulseAck)
        server.ask_to_stop()
        assert agent.close_code() == 1012
    server.stop()

    assert stretches_of(run) == [(0, 100, 0)]


def test_an_unknown_run_is_refused(agent, enrolled):
    unknown = new_id()

    agent.send(usage(enrolled.node, 1, unknown))

    assert len(agent.take(protocol.Ack).refused) == 1
    assert stretches_of(unknown) == []
