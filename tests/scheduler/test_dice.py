"""Draws that never change: what is decided with them is recorded by its hash."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.dice import Dice, spread


def test_draws_what_splitmix64_draws():
    dice = Dice(1234567)

    # The first three of the reference implementation in C (Vigna, public domain) for this seed.
    assert [dice.draw() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 200), st.integers())
def test_spread_gives_each_index_its_part_to_within_one(weights, count, seed):
    drawn = Counter(spread(weights, count, Dice(seed)))

    assert sum(drawn.values()) == count
    for index, weight in enumerate(weights):
        exact = count * weight / sum(weights)
        assert exact - 1 < drawn[index] < exact + 1


@given(st.integers(0, 100), st.integers())
def test_shuffling_loses_nothing(length, seed):
    values = list(range(length))

    Dice(seed).shuffle(values)

    assert sorted(values) == list(range(length))
