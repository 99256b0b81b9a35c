"""The words of instances: why one waits, why one failed, how far one is. Pure."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from agents.protocol import REASONS as NODE_REASONS
from rental.instances.states import REASONS, StateWord
from rental.web.forms.instances import read_filters
from rental.web.pages.instances.bulk import _ids
from rental.web.pages.instances.connect import ways_of
from rental.web.pages.instances.timeline import progress_words, steps_of
from rental.web.pages.instances.words import FAILURES, NODE_WORDS, WAITS, failure_of, waits_for
from scheduler.core.placement import DIMENSIONS

NOON = datetime(2030, 3, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        ({}, "looking for a place"),
        ({"gpu": 1}, "1 node has no free GPU"),
        ({"gpu": 2, "cordoned": 1}, "1 node takes nothing new, 2 nodes have no free GPU"),
        ({"gpu": 2, "model": 40}, "2 nodes have no free GPU"),
        ({"model": 40}, "40 nodes have other GPUs"),
        (
            {"gang": 3, "apart": 1},
            "1 node has one already from which it is kept apart, "
            "3 members of its group would find a place",
        ),
        ({"releasing": 1}, "its node has not yet confirmed the end of the session before"),
        ({"moonphase": 3}, "3 nodes: moonphase"),
    ],
)
def test_why_it_waits(reasons, words):
    assert waits_for(reasons) == words


def test_every_dimension_of_the_scheduler_has_its_words():
    assert set(DIMENSIONS) <= set(WAITS)


def test_failures_are_reasons_and_the_nodes_words_are_the_protocols():
    assert set(FAILURES) <= set(REASONS)
    assert set(NODE_WORDS) <= set(NODE_REASONS)


def test_a_failed_start_is_free_and_one_that_ran_is_charged_to_here():
    start = failure_of({"code": "start_failed", "detail": "start_failed no image"}, was_ready=False)
    assert start.happened == "The runtime of the node could not start it."
    assert start.not_done == "Nothing was charged for this start. Its disk is kept."
    assert start.raw == "start_failed no image"

    ran = failure_of({"code": "node_failed"}, was_ready=True)
    assert ran.not_done.startswith("It was charged up to this moment")

    dead = failure_of({"code": "node_dead"}, was_ready=True)
    assert "disk is kept" not in dead.not_done
    assert "empty disk" in dead.next_step


def test_an_unknown_reason_is_shown_as_it_is():
    assert failure_of({"code": "gremlins"}, was_ready=False).happened == "Gremlins"


def operation(state, done, *, percent=None, error=None):
    at = [f"2030-03-05T12:00:0{i}.000000Z" for i in range(6)]
    names = ("reserved", "node_accepted", "image", "started", "ssh_ready")
    steps = [
        {
            "name": name,
            "started_at": at[i] if i <= done else None,
            "finished_at": at[i + 1] if i < done else None,
        }
        for i, name in enumerate(names)
    ]
    finished = None if state == "running" else NOON + timedelta(seconds=9)
    return {
        "state": state,
        "steps": steps,
        "percent": percent,
        "error": error,
        "finished_at": finished,
    }


def test_the_step_on_its_way_counts_up_to_now():
    steps = steps_of(operation("running", 2, percent=43), now=NOON + timedelta(seconds=7))

    assert [step.state for step in steps] == ["done", "done", "now", "wait", "wait"]
    assert [step.seconds for step in steps] == [1, 1, 5, None, None]
    assert (steps[2].note, progress_words(steps)) == ("43 %", "Image, 43 %")


def test_the_step_that_failed_has_the_raw_error():
    failed = operation("failed", 2, error={"code": "start_failed", "detail": "no such manifest"})

    steps = steps_of(failed, now=NOON + timedelta(days=1))

    assert [step.state for step in steps] == ["done", "done", "failed", "wait", "wait"]
    assert (steps[2].raw, steps[2].seconds) == ("no such manifest", 7)
    assert steps_of(operation("cancelled", 2), now=NOON)[2].state == "wait"


def test_filters_that_cannot_be_read_count_as_not_said():
    bad = read_filters({"word": "odd", "project": "prj_x", "sort": "price", "q": " a  b "})

    assert (bad.word, bad.project, bad.sort, bad.q) == ("", "", "-created", "a  b")
    assert bad.query() == "?q=a++b"
    assert read_filters({"word": StateWord.RUNNING}).query(after="x") == "?word=running&after=x"


def test_marks_are_ids_with_the_generation_that_was_seen():
    good = "ins_01m8q475xmevbtk4tdw073qzkk"
    assert list(_ids([f"{good}:7", "ins_x", "", ":", "prj_1"]).values()) == [7]
    assert list(_ids([f"{good}:x", good]).values()) == [None]


class Sheet:
    class instance:  # noqa: N801
        slug = "brave-x"

    def __init__(self, ssh):
        self.ssh = ssh


@pytest.mark.parametrize(
    ("port", "host", "workspace", "command", "upload"),
    [
        (22, "h.example", "", "ssh root@h.example", "root@h.example:/workspace/"),
        (2200, "10.0.0.1", "/srv/w", "ssh -p 2200 root@10.0.0.1", "root@10.0.0.1:/srv/w/"),
        (22, "10.0.0.1", "/my w", "ssh root@10.0.0.1", "'root@10.0.0.1:/my w/'"),
        (2200, "2001:db8::1", "", "ssh -p 2200 root@2001:db8::1",
         "'root@[2001:db8::1]:/workspace/'"),
    ],
)  # fmt: skip
def test_lines_to_paste(port, host, workspace, command, upload):
    ssh = {"host": host, "port": port, "user": "", "host_key_fingerprint": "SHA256:x",
           "workspace": workspace}  # fmt: skip
    ways = ways_of(Sheet(ssh))

    assert ways.command == command
    assert ways.upload == f"scp -P {port} -r ./data {upload}"
    assert ways.editor.endswith(f":{port}{quote(workspace or '/workspace')}")
    assert ways_of(Sheet(None)) is None
