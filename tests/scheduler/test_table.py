"""
Faults that other schedulers had, each with the test that says it is not ours.

A test of a row is named after it (``test_row_21_…``), wherever its room is. The numbers are those
of our research; what each row is about stands here. A row that has no test yet is awaited, by
name: this list says what is not proven.
"""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

ROWS = {
    1: "processes on a card are counted, not instances",
    3: "MIG parts are remembered by start and size, not by their place in a list",
    5: "growing beyond what there is is refused whole",
    7: "what restarts is known by instance and incarnation",
    9: "memory decides the MIG profile, and nothing that runs is moved",
    11: "a card in use cannot be cut now, and is tried again",
    13: "starts that fail back off, and a node on which they do is left alone",
    15: "what is being released is not free",
    17: "nothing is left in memory of a gang that has gone",
    19: "a gang's lost member goes before fresh requests",
    21: "one spot leaves rather than a whole gang",
    23: "one victim for several requests",
    25: "the node that loses least",
    27: "more used than allowed is nothing left, not very much",
    29: "a container inside a container has the same limit",
    31: "the second request sees the room after the eviction",
    33: "instances of a lost node are started elsewhere, and the old ones never again",
    35: "a card that was cut anew has nothing left of the last layout",
    37: "a share whose MPS server dies is failed, and not billed",
    39: "gangs do not wait for each other",
    41: "two members lost one after the other are both replaced once",
    43: "measured memory is sold, not the model's",
    45: "links that only one side reports",
}
# They need what an agent with real cards does (its drivers are an issue of their own), or are open.
AWAITED = {1, 7, 11, 13, 27, 29, 37, 43, 45}


def rows_with_tests():
    folder = Path(__file__).parents[1]
    texts = (path.read_text() for path in folder.rglob("test_*.py"))
    return {int(row) for text in texts for row in re.findall(r"^ *def test_row_(\d+)_", text, re.M)}


def test_every_row_has_a_test_or_is_awaited():
    assert rows_with_tests() == set(ROWS) - AWAITED
