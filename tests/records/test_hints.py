"""Hints: after the commit, dropped in the black hole, harmless when the broker is away."""

import time

import pytest
from celery import Celery
from django.db import transaction
from structlog.testing import capture_logs

from rental.records import hints
from rental.records.hints import hint


@pytest.fixture(autouse=True)
def _broker_is_there(monkeypatch):
    """Forget what an earlier test found out about its broker."""
    monkeypatch.setattr(hints, "_quiet_until", 0.0)


class Recorder:
    """A broker's stand-in: writes down what would be published."""

    name = "test.task"

    def __init__(self):
        self.calls = []

    def apply_async(self, **options):
        self.calls.append(options)


@pytest.mark.django_db(transaction=True)
def test_a_hint_goes_out_after_the_commit_and_expires():
    task = Recorder()

    with transaction.atomic():
        hint(task, instance_id="ins_1")
        assert task.calls == []

    assert task.calls == [{"kwargs": {"instance_id": "ins_1"}, "expires": 60, "retry": False}]


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_change_gives_no_hint():
    task = Recorder()

    with transaction.atomic():
        hint(task)
        transaction.set_rollback(True)

    assert task.calls == []


@pytest.mark.django_db(transaction=True)
def test_in_the_black_hole_nothing_is_sent_or_said(settings):
    settings.HINTS_ENABLED = False
    task = Recorder()

    with capture_logs() as events, transaction.atomic():
        hint(task)

    assert task.calls == []
    assert events == []


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_is_away_is_logged_and_the_commit_stands():
    # given an application whose broker's port is closed (port 1 is never listened on)
    app = Celery("away", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.broker_transport_options = {"max_retries": 0, "interval_start": 0}

    @app.task(name="test.away")
    def away():
        pass

    # when two changes are committed
    with capture_logs() as events, transaction.atomic():
        hint(away)
    began = time.monotonic()
    with transaction.atomic():
        hint(away)
    took = time.monotonic() - began

    # then the first loss is said, and the second costs nothing
    assert [(event["event"], event["task"]) for event in events] == [("hint.lost", "test.away")]
    assert took < 0.5


@pytest.mark.django_db(transaction=True)
def test_hints_go_out_again_after_the_pause(monkeypatch):
    class Away(Recorder):
        def apply_async(self, **options):
            raise ConnectionRefusedError("away")

    monkeypatch.setattr(hints, "PAUSE", 0.0)
    task = Recorder()

    with transaction.atomic():
        hint(Away())
    with transaction.atomic():
        hint(task)

    assert len(task.calls) == 1
