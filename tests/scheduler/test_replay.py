"""Replays: what was asked, given and refused in a window, to the second."""

import pytest

from scheduler.core.boards import make_board, make_policy
from scheduler.core.forecast import Forecast
from scheduler.core.replay import Visit, replay
from tests.scheduler.test_policies import fleet, whole

pytestmark = pytest.mark.pure


def outcome(*visits, begin=0, end=10, nodes=((2, 64, "A"),)):
    room = fleet(*nodes)
    board = make_board(room, make_policy("best_fit", room, Forecast.of({whole(): 1})), "numpy")
    return replay(board, visits, begin=begin, end=end)


def test_counts_what_was_given_and_what_was_refused():
    found = outcome(Visit(0, 10, whole()), Visit(2, 7, whole()), Visit(5, 9, whole()))

    # Two cards for ten seconds; one is used for 10, one for 5, and 4 of 19 seconds were refused.
    assert found.allocated == 75
    assert found.refused == pytest.approx(100 * 4 / 19)
    assert found.refused_large == 0
    assert found.visits == 3


def test_who_leaves_makes_room_for_who_comes_at_that_moment():
    found = outcome(Visit(0, 5, whole(2)), Visit(5, 10, whole(2)), Visit(9, 12, whole(2)))

    assert found.allocated == 100
    assert found.refused_large == pytest.approx(100 * 6 / 26)


def test_what_was_before_the_window_fills_the_fleet_and_is_not_counted():
    found = outcome(Visit(0, 20, whole(2)), Visit(1, 3, whole()), Visit(12, 13, whole()), begin=10)

    assert found.visits == 0
    found = outcome(
        Visit(0, 20, whole(2)), Visit(1, 3, whole()), Visit(12, 13, whole()), begin=10, end=20
    )
    assert (found.allocated, found.refused, found.visits) == (100, 100, 1)


def test_an_empty_window_has_nothing_to_say():
    found = outcome(nodes=((0, 64, "A"),))

    assert (found.allocated, found.refused, found.refused_large, found.visits) == (0, 0, 0, 0)
