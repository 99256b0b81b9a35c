"""The entry gate, pure."""

import pytest

from billing.core.gate import (
    held_for,
    held_for_several,
    least_for,
    least_for_several,
)


@pytest.mark.parametrize(
    ("burn", "left", "held"),
    [
        (490_000, 490_001, 490_000),  # an hour
        (490_000, 300_000, 300_000),  # what is left
        (490_000, 245_000, 245_000),  # exactly half an hour
        (490_000, 244_999, None),
        (3, 1, None),  # half of 3 is 2, rounded up
        (3, 2, 2),
        (0, 0, 0),  # what costs nothing needs nothing
        (490_000, -5, None),
    ],
)
def test_holds_an_hour_or_what_is_left_and_refuses_below_half_an_hour(burn, left, held):
    assert held_for(burn, left=left) == held
    assert (left >= least_for(burn)) == (held is not None)


def test_several_are_held_one_after_another():
    assert held_for_several(100, count=3, left=300) == 300
    assert held_for_several(100, count=3, left=250) == 250  # the last has half an hour
    assert held_for_several(100, count=3, left=249) is None
    assert least_for_several(100, count=3) == 250
    assert least_for_several(3, count=1) == least_for(3) == 2
