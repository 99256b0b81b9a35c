"""The scheduler's gauges: names and exact values, from rows."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rental.gateway.scheduler_metrics import in_text
from scheduler.gauges import read_gauges
from scheduler.models import Gpu, Slice
from tests.factories.scheduler import A_CARD, NOON, make_allocation, make_node, make_request, place

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(seconds=90)
CARD = 'model="RTX 4090 24 GiB",region="test-1"'


def samples(*, now=LATER) -> dict[str, float]:
    lines = in_text(read_gauges(now=now)).decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_every_card_is_in_one_state_and_what_is_free_is_told_apart():
    make_allocation()  # a tenth of one card
    make_node(gpus=2)
    make_node(gpus=3, cordoned=True)
    make_node(status="lost")
    make_node(status=None)
    sick = make_node(gpus=2)
    Gpu.objects.filter(node=sick, index=0).update(health="unhealthy")
    Gpu.objects.filter(node=sick, index=1).update(health="missing")

    found = samples()

    states = {"part": 1, "idle": 2, "cordoned": 3, "silent": 2, "unhealthy": 1, "missing": 1}
    for state, cards in states.items():
        assert found[f'tessera_scheduler_cards{{{CARD},state="{state}"}}'] == cards, state
    assert sum(v for name, v in found.items() if name.startswith("tessera_scheduler_cards")) == 10
    assert found[f"tessera_scheduler_sold_milli{{{CARD}}}"] == 100
    assert found[f'tessera_scheduler_free_milli{{{CARD},state="idle"}}'] == 2_000
    assert found[f'tessera_scheduler_free_milli{{{CARD},state="part"}}'] == 900


@pytest.mark.parametrize(
    ("mode", "cells", "milli", "state"),
    [
        ("whole", ((0, 10),), 1_000, "full"),
        ("mig", ((0, 8),), 1_000, "full"),
        ("mig", ((4, 8),), 500, "part"),
        ("share_tenant", ((0, 9),), 900, "part"),
    ],
)
def test_what_is_held_of_a_card_counts_in_thousandths(mode, cells, milli, state):
    make_allocation()
    Slice.objects.update(mode=mode, cells=cells)

    found = samples()

    assert found[f"tessera_scheduler_sold_milli{{{CARD}}}"] == milli
    assert found[f'tessera_scheduler_cards{{{CARD},state="{state}"}}'] == 1


def test_what_was_released_is_idle_again():
    make_allocation()
    Slice.objects.update(released_at=NOON)
    assert samples()[f'tessera_scheduler_cards{{{CARD},state="idle"}}'] == 1


def test_nodes_are_counted_by_what_is_heard_of_them():
    make_node(), make_node(status="suspect"), make_node(status=None)
    make_node(cordoned=True)

    found = {name: value for name, value in samples().items() if "_nodes{" in name}

    of = 'tessera_scheduler_nodes{{cordoned="{}",region="test-1",status="{}"}}'.format
    assert found == {
        of("false", "live"): 1, of("false", "suspect"): 1, of("false", "never"): 1,
        of("true", "live"): 1,
    }  # fmt: skip


def test_the_queue_is_counted_by_what_refuses_most_and_its_oldest_wait():
    make_node(cordoned=True), make_node(cordoned=True)
    make_node(status="lost")
    make_request(at=NOON), make_request(at=NOON + timedelta(seconds=30))
    place()
    make_request(at=NOON + timedelta(seconds=60), shape=A_CARD)  # no pass has seen it

    found = samples()

    of = 'tessera_scheduler_waiting{{market="on_demand",reason="{}",region="test-1"}}'.format
    assert found[of("cordoned")] == 2
    assert found[of("unseen")] == 1
    oldest = 'tessera_scheduler_oldest_wait_seconds{market="on_demand",region="test-1"}'
    assert found[oldest] == 90


def test_a_request_that_was_placed_or_has_expired_waits_no_more():
    make_allocation()
    make_request(shape=A_CARD)
    last = NOON + timedelta(hours=24)

    def waiting(now):
        return sum(v for name, v in samples(now=now).items() if "_waiting" in name)

    assert (waiting(last - timedelta(seconds=1)), waiting(last)) == (1, 0)


def test_gauges_ask_no_more_of_a_larger_fleet():
    make_allocation()
    for _ in range(3):
        make_allocation(node=make_node(gpus=2))
        make_request()
    with CaptureQueriesContext(connection) as asked:
        read_gauges(now=NOON)
    assert len(asked) == 3
