"""Who is there, and that silence counts only while the server listened."""

from datetime import timedelta

import pytest

from scheduler.models import AllocationDirty, GatewayFlush, NodeLiveness
from scheduler.services.liveness import (
    Pulse,
    is_listening,
    listening_since,
    raise_control_epoch,
    record_pulses,
    watch_nodes,
)
from tests.factories.scheduler import NOON, make_allocation, make_node

pytestmark = pytest.mark.django_db


def s(seconds):
    return NOON + timedelta(seconds=seconds)


def pulse(node, at, *, seq=1, boot="boot-1"):
    return Pulse(node_id=node.id, boot_id=boot, seq=seq, received_at=at)


def listen(begin, end, *nodes, gateway="gw-1"):
    """A gateway that flushes once a second in [begin, end], hearing ``nodes`` each time."""
    for second in range(begin, end + 1):
        record_pulses([pulse(node, s(second)) for node in nodes], gateway, s(second))


def status(node):
    return NodeLiveness.objects.get(node=node).status


@pytest.fixture
def silent():
    """A node that was last heard at second 0, and a gateway that listened since -100."""
    node = make_node()
    listen(-100, 0, node)
    return node


def test_the_newest_pulse_of_a_node_is_kept():
    node = make_node(status=None)

    record_pulses([pulse(node, s(2), seq=2), pulse(node, s(1), seq=1)], "gw-1", s(2))
    record_pulses([pulse(node, s(1), seq=1, boot="old")], "gw-1", s(3))

    row = NodeLiveness.objects.get(node=node)
    assert (row.seq, row.boot_id, row.received_at, row.status) == (2, "boot-1", s(2), "live")


def test_a_pulse_of_a_node_that_does_not_exist_harms_nobody():
    node = make_node(status=None)
    ghost = Pulse(node_id=make_allocation().id, boot_id="b", seq=1, received_at=NOON)

    record_pulses([ghost, pulse(node, NOON)], "gw-1", NOON)

    assert status(node) == "live"


@pytest.mark.parametrize(
    ("second", "expected"),
    [(11, "live"), (12, "suspect"), (23, "suspect"), (24, "lost")],
)
def test_suspect_after_12_seconds_and_lost_after_24(silent, second, expected):
    listen(1, second)

    watch_nodes(now=s(second))

    assert status(silent) == expected


def test_each_change_is_told_once_and_marks_what_the_node_holds():
    node = make_node()
    allocation = make_allocation(node=node)
    listen(-100, 0, node)
    AllocationDirty.objects.all().delete()
    listen(1, 12)

    [change] = watch_nodes(now=s(12))

    assert (change.node_id, change.before, change.after) == (node.id, "live", "suspect")
    assert AllocationDirty.objects.filter(allocation=allocation).exists()
    assert watch_nodes(now=s(13)) == []


def test_a_node_that_is_heard_again_is_live_again(silent):
    listen(1, 30)
    watch_nodes(now=s(30))
    assert status(silent) == "lost"

    listen(31, 31, silent)
    watch_nodes(now=s(32))

    assert status(silent) == "live"


def test_no_gateway_ever_listened_so_nobody_is_declared():
    node = make_node()

    assert watch_nodes(now=s(1_000)) == []
    assert status(node) == "live"
    assert listening_since(now=s(1_000)) is None


def test_while_the_gateway_is_silent_nobody_is_declared(silent):
    assert watch_nodes(now=s(40)) == []
    assert status(silent) == "live"


def test_a_hole_of_3_seconds_is_none_and_a_longer_one_gives_60_seconds(silent):
    record_pulses([], "gw-1", s(3))
    assert is_listening(now=s(3))

    record_pulses([], "gw-1", s(3) + timedelta(seconds=3, milliseconds=1))

    assert GatewayFlush.objects.get().hole_at == s(6.001)
    listen(7, 66)
    assert watch_nodes(now=s(66)) == []
    assert status(silent) == "live"
    record_pulses([], "gw-1", s(67))
    [change] = watch_nodes(now=s(67))
    assert change.after == "lost"


def test_a_gateway_s_start_gives_every_node_60_seconds(silent):
    listen(1, 20)
    listen(10, 20, gateway="gw-2")
    watch_nodes(now=s(20))
    assert status(silent) == "live"

    for second in range(21, 71):
        listen(second, second)
        listen(second, second, gateway="gw-2")
    assert watch_nodes(now=s(69)) == []

    assert [change.after for change in watch_nodes(now=s(70))] == ["lost"]


def test_a_gateway_that_ended_counts_60_seconds_and_then_no_more(silent):
    listen(-100, 0, gateway="gw-2")  # last flush at 0
    listen(1, 60)

    assert listening_since(now=s(59)) is None
    assert listening_since(now=s(60)) == s(-100)


def test_a_new_control_epoch_gives_every_node_60_seconds(silent):
    listen(1, 10)
    raise_control_epoch(now=s(10), reason="restore")
    listen(11, 70)

    assert watch_nodes(now=s(69)) == []
    assert [change.after for change in watch_nodes(now=s(70))] == ["lost"]


def test_what_was_declared_is_taken_back_even_when_the_server_was_deaf(silent):
    listen(1, 30)
    watch_nodes(now=s(30))

    record_pulses([pulse(silent, s(50))], "gw-1", s(50))  # after a hole

    watch_nodes(now=s(50))
    assert status(silent) == "live"
