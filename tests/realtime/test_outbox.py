"""What waits for one page: the newest of everything, and never more than a bound."""

import json
import uuid

import pytest

from rental.instances.samples.points import Point
from rental.realtime import outbox as outbox_module
from rental.realtime.backoff import Backoff
from rental.realtime.outbox import CloseCode, Outbox, public_id

ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def outbox():
    return Outbox()


def taken(outbox):
    return [json.loads(text) for text in outbox.take()]


def test_of_a_row_the_newest_version_is_told_whatever_the_order(outbox):
    for version in (3, 7, 5):
        outbox.put_row(ONE, version)
    outbox.put_row(TWO, 1)

    assert taken(outbox) == [{"k": "rows", "v": {public_id(ONE): 7, public_id(TWO): 1}}]
    assert taken(outbox) == []
    assert not outbox.has_some.is_set()


def test_too_many_rows_become_one_word(outbox, monkeypatch):
    monkeypatch.setattr(outbox_module, "MOST_ROWS", 2)
    for number in range(5):
        outbox.put_row(uuid.UUID(int=number), 1)

    assert taken(outbox) == [{"k": "resync"}]

    outbox.put_row(ONE, 2)
    assert taken(outbox) == [{"k": "rows", "v": {public_id(ONE): 2}}]


def test_of_samples_the_newest_are_kept(outbox, monkeypatch):
    for at in range(outbox_module.MOST_POINTS + 5):
        outbox.put_point(ONE, Point(at, 1, 2, 3, 4))

    (message,) = taken(outbox)
    assert message["id"] == public_id(ONE)
    assert [point[0] for point in message["s"]] == list(range(5, outbox_module.MOST_POINTS + 5))
    assert message["s"][0][1:] == [1, 2, 3, 4]


def test_a_beat_is_only_told_when_nothing_else_is(outbox):
    outbox.put_beat()
    outbox.put_delayed("rows", True)
    outbox.put_delayed("rows", False)
    assert taken(outbox) == [{"k": "delayed", "what": "rows", "is": False}]

    outbox.put_beat()
    assert taken(outbox) == [{"k": "beat"}]


def test_the_first_reason_to_close_stands(outbox):
    outbox.close(CloseCode.SIGNED_OUT)
    outbox.close(CloseCode.FORBIDDEN)

    assert outbox.goodbye is CloseCode.SIGNED_OUT


def test_waits_grow_to_a_bound_and_begin_anew():
    backoff = Backoff(0.2, 5.0)
    waits = [backoff.next() for _ in range(20)]

    assert all(0.05 <= wait <= 5.0 for wait in waits)
    assert min(waits[10:]) >= 1.25
    backoff.reset()
    assert backoff.next() <= 0.2
