"""A few rooms of benchmarks.invariants, which does a million events; and that it sees a fault."""

import numpy as np
import pytest

from benchmarks.invariants import run_room
from scheduler.core import placement
from scheduler.core.fits import Sieve

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("seed", range(1, 7))
def test_random_events_break_no_rule(seed):
    seen, wrong = run_room(seed, 120)

    assert not wrong
    assert seen["placed"] > 5
    assert seen["refused"] > 5


def everything(self, rows):
    return np.ones((len(rows), self._room.columns), dtype=np.bool_)


def nothing(self, rows):
    return np.zeros((len(rows), self._room.columns), dtype=np.bool_)


@pytest.mark.parametrize(
    ("rule", "instead", "text"),
    [
        ("_has_memory", everything, "card memory sold twice"),
        ("_ask_nodes", lambda self: None, "placed where nothing may be placed"),
        ("_has_cells", nothing, "refused though it fits"),
    ],
)
def test_a_rule_that_is_not_kept_is_seen(monkeypatch, rule, instead, text):
    monkeypatch.setattr(Sieve, rule, instead)

    wrong = {one.partition(" (")[0] for seed in (1, 3, 5) for one in run_room(seed, 60)[1]}

    assert text in wrong


def test_reasons_that_do_not_add_up_are_seen(monkeypatch):
    monkeypatch.setattr(placement.Board, "choose", lambda self, kind: None)

    assert "reasons do not add up to the nodes (seed 1)" in run_room(1, 60)[1]
