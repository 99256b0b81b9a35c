"""Samples: the last hour in Valkey, minutes in the table, and never in anybody's way."""

import socket
import time
import uuid
from datetime import timedelta

import pytest
from django.db import connection

from agents import protocol
from billing.models import Stretch
from rental.gateway import samples as lane_module
from rental.gateway.database import DatabaseClock
from rental.gateway.samples import SampleFrame, SamplesLane
from rental.instances.samples.models import InstanceSampleMinute
from rental.instances.samples.points import Point
from rental.instances.samples.queries import read_samples
from rental.instances.samples.recent import RecentGone, RecentSamples, recent
from rental.records.clock import database_now
from scheduler.models import Allocation
from tests.factories.gateway import make_agent, open_run, usage
from tests.factories.rental import (
    allocation_of,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    make_running,
)
from tests.gateway.eventually import eventually
from tests.gateway.outage import database_away

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def instance(transactional_db):
    make_offer()
    make_image()
    make_node()
    return make_running(make_rich_tenant())


def sample(allocation, *, util=50, vram=1000, watts=100, celsius=60, gpu="GPU-1"):
    return protocol.Sample(
        gpu_uuid=gpu,
        allocation=str(allocation),
        util_percent=util,
        vram_mib=vram,
        watts=watts,
        celsius=celsius,
    )


def frame(node_id, *samples, age_s=0, received_at=None):
    message = protocol.Samples(node=str(node_id), age_ms=age_s * 1000, samples=list(samples))
    return SampleFrame(node_id, message, received_at or database_now())


def points_of(instance):
    return recent().read(instance.pk, since=0)


@pytest.fixture
def run_lane():
    """Start a lane, give it frames, and return once it has written all and ended."""

    def run(*frames, database=None, last_hour=None):
        lane = SamplesLane(database or {}, clock=DatabaseClock(), last_hour=last_hour)
        lane.start()
        for one in frames:
            lane.put(one)
        lane.stop()
        lane.join(10)
        assert not lane.is_alive()
        return lane

    return run


@pytest.fixture
def dead_valkey():
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return RecentSamples(f"redis://127.0.0.1:{probe.getsockname()[1]}/0")


@pytest.fixture
def silent_valkey():
    """An address that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        yield RecentSamples(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")


def test_an_agents_samples_become_points_and_a_minute(server, instance):
    enrolled = make_agent(nodes=("node-of-the-agent",))
    allocation = allocation_of(instance)
    Allocation.objects.filter(pk=allocation.pk).update(node_id=enrolled.node)
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)

    agent.send(
        protocol.Samples(
            node=str(enrolled.node),
            age_ms=120_000,
            samples=[
                sample(allocation.pk, util=40, vram=1000, watts=100, celsius=50),
                sample(allocation.pk, util=61, vram=2000, watts=150, celsius=70, gpu="GPU-2"),
                protocol.Sample(gpu_uuid="GPU-3", watts=40),  # nobody's
            ],
        )
    )

    (point,) = eventually(lambda: points_of(instance))
    assert point[1:] == (50, 3000, 250, 70)
    assert abs(point.at - (time.time() - 120)) < 5
    minute = eventually(
        lambda: InstanceSampleMinute.objects.of(instance.tenant_id).first(), timeout=12
    )
    assert (minute.instance_id, minute.count, minute.vram_sum) == (instance.pk, 1, 3000)


def test_a_node_cannot_write_for_anothers_allocation(run_lane, instance):
    other = make_node()

    run_lane(
        frame(other.pk, sample(allocation_of(instance).pk)),
        frame(other.pk, sample(uuid.uuid4()), sample("no id")),
    )

    assert points_of(instance) == []
    assert not InstanceSampleMinute.objects.exists()


def test_what_was_released_is_written_no_more(run_lane, instance):
    allocation = allocation_of(instance)
    Allocation.objects.filter(pk=allocation.pk).update(want="gone", released_at=database_now())

    run_lane(frame(allocation.node_id, sample(allocation.pk)))

    assert points_of(instance) == []


def test_two_gateways_see_halves_of_one_minute_and_the_table_has_the_whole(run_lane, instance):
    allocation = allocation_of(instance)
    moments = [database_now().replace(second=20, microsecond=0) - timedelta(minutes=3)] * 2

    run_lane(frame(allocation.node_id, sample(allocation.pk, util=10), received_at=moments[0]))
    run_lane(frame(allocation.node_id, sample(allocation.pk, util=31), received_at=moments[1]))

    minute = InstanceSampleMinute.objects.get()
    assert (minute.count, minute.util_sum, minute.util_max) == (2, 41, 31)
    assert (minute.minute, minute.tenant_id) == (
        moments[0].replace(second=0),
        instance.tenant_id,
    )


def test_valkey_gone_costs_samples_and_nothing_else(run_lane, instance, dead_valkey):
    allocation = allocation_of(instance)

    run_lane(frame(allocation.node_id, sample(allocation.pk), age_s=90), last_hour=dead_valkey)

    assert points_of(instance) == []
    assert InstanceSampleMinute.objects.get().count == 1  # minutes need no Valkey


def test_a_silent_valkey_is_asked_once_and_then_left_alone(silent_valkey):
    point = (uuid.uuid4(), Point(1, 2, 3, 4, 5))
    began = time.monotonic()
    with pytest.raises(RecentGone):
        silent_valkey.write([point])
    asked = time.monotonic()
    for _ in range(100):
        with pytest.raises(RecentGone):
            silent_valkey.write([point])

    assert asked - began < 1.5
    assert time.monotonic() - asked < 0.1


def test_usage_is_acked_while_valkey_is_silent(start_gateway, silent_valkey):
    server = start_gateway()
    server.gateway.samples._last_hour = silent_valkey
    enrolled = make_agent(nodes=("node-of-the-agent",))
    run = open_run(enrolled.node)
    agent = server.connect(enrolled.credential)
    agent.hello(enrolled.node)

    for _ in range(200):
        agent.send(protocol.Samples(node=str(enrolled.node), samples=[sample(uuid.uuid4())]))
    began = time.monotonic()
    agent.send(usage(enrolled.node, 1, run))
    ack = agent.take(protocol.Ack)

    assert (ack.seq, ack.refused) == (1, [])
    assert time.monotonic() - began < 2.0
    assert Stretch.objects.filter(run_id=run).exists()


def test_minutes_wait_while_postgresql_is_away_and_points_go_on(instance):
    allocation = allocation_of(instance)
    lane = SamplesLane({}, clock=DatabaseClock())
    lane.start()
    node = allocation.node_id
    now = database_now()
    lane.put(frame(node, sample(allocation.pk, util=10), received_at=now))
    eventually(lambda: len(points_of(instance)) == 1)

    with database_away():
        lane.put(frame(node, sample(allocation.pk, util=20), received_at=now))
        eventually(lambda: len(points_of(instance)) == 2)
    lane.stop()
    lane.join(15)

    assert InstanceSampleMinute.objects.get().util_sum == 30


def test_under_pressure_the_oldest_are_dropped(monkeypatch, instance):
    monkeypatch.setattr(lane_module, "LIMIT", 3)
    allocation = allocation_of(instance)
    lane = SamplesLane({}, clock=DatabaseClock())
    for util in range(10):
        lane.put(frame(allocation.node_id, sample(allocation.pk, util=util)))

    lane.start()
    lane.stop()
    lane.join(10)

    assert sorted(point.util_percent for point in points_of(instance)) == [7, 8, 9]


def test_figures_that_no_card_has_are_cut(run_lane, instance):
    allocation = allocation_of(instance)

    run_lane(
        frame(
            allocation.node_id,
            sample(allocation.pk, util=10**9, vram=-5, watts=10**12, celsius=-(10**9)),
        )
    )

    assert points_of(instance)[0][1:] == (100, 0, 65535, -128)


# --- what charts read


def fill_minutes(instance, now, values):
    """One minute each, the last one a minute before ``now``."""
    with connection.cursor() as cursor:
        for back, util in enumerate(reversed(values), start=1):
            cursor.execute(
                "INSERT INTO rental_instancesampleminute VALUES"
                " (%s, %s, date_trunc('minute', %s::timestamptz) - %s * interval '1 minute',"
                " 2, %s, %s, 2000, 1500, 200, 120, 120, 70)",
                [instance.pk, instance.tenant_id, now, back, 2 * util, util + 5],
            )


def test_an_hour_is_told_point_by_point_and_a_day_in_minutes(instance):
    now = database_now()
    recent().write(
        [(instance.pk, Point(int(now.timestamp()) - ago, 50, 1, 2, 3)) for ago in (30, 90)]
    )
    fill_minutes(instance, now, [10, 20])
    ask = {"tenant_id": instance.tenant_id, "instance_id": instance.pk, "now": now}

    minute = read_samples(minutes=1, **ask)
    hour = read_samples(minutes=60, **ask)
    day = read_samples(minutes=1440, **ask)

    assert (minute.source, len(minute.samples), len(hour.samples)) == ("points", 1, 2)
    assert hour.samples[0].at < hour.samples[1].at
    assert (day.source, day.step_s) == ("minutes", 60)
    assert [(s.util_percent, s.util_percent_max, s.vram_mib) for s in day.samples] == [
        (10, 15, 1000),
        (20, 25, 1000),
    ]


def test_two_weeks_are_gathered_into_steps_and_a_stranger_reads_none(instance):
    now = database_now()
    fill_minutes(instance, now, [10] * 30)
    ask = {"instance_id": instance.pk, "minutes": 20_160, "now": now}

    ours = read_samples(tenant_id=instance.tenant_id, **ask)
    theirs = read_samples(tenant_id=make_rich_tenant().id, **ask)

    assert ours.step_s == 14 * 60
    assert len(ours.samples) in {3, 4}
    assert {s.util_percent for s in ours.samples} == {10}
    assert theirs.samples == []


def test_while_valkey_is_away_the_hour_is_told_from_minutes(instance, dead_valkey, monkeypatch):
    now = database_now()
    fill_minutes(instance, now, [10, 20])
    monkeypatch.setattr("rental.instances.samples.queries.recent", lambda: dead_valkey)

    hour = read_samples(tenant_id=instance.tenant_id, instance_id=instance.pk, minutes=60, now=now)

    assert (hour.source, len(hour.samples)) == ("minutes", 2)


def test_the_list_of_an_instance_is_capped_and_expires(instance):
    client = recent()._client
    now = int(time.time())
    for start in range(0, 1000, 100):
        recent().write(
            [(instance.pk, Point(now + n, 1, 1, 1, 1)) for n in range(start, start + 100)]
        )

    key = f"tessera:samples:{instance.pk.hex}"
    assert client.llen(key) == 400
    assert 3500 < client.ttl(key) <= 3600
