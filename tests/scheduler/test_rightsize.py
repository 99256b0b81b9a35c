"""How large a slice should be: exact values at the edges, and what must hold for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.rightsize import Use, needed_tenths, next_tenths

pytestmark = pytest.mark.pure


def use(tenths, busy, *, peak=0, vram=10_000):
    return Use(tenths=tenths, vram_mib=vram, busy_percent=busy, vram_peak_mib=peak)


@pytest.mark.parametrize(
    ("seen", "needed"),
    [
        (use(5, 0), 1),  # idle: the least there is
        (use(5, 33), 2),  # 5 x 0.33 x 1.2 = 1.98
        (use(5, 34), 3),  # 2.04
        (use(5, 83), 5),  # 4.98
        (use(5, 84), 6),  # 5.04: more than it has
        (use(10, 100), 10),  # 12, but a card has ten
        (use(5, 0, peak=3_636), 2),  # 5 x 0.3636 x 1.1 = 1.9998
        (use(5, 0, peak=3_637), 3),  # 2.00035
        (use(5, 0, peak=3_637, vram=0), 1),  # memory that is not known says nothing
    ],
)
def test_a_slice_has_a_fifth_to_spare_of_work_and_a_tenth_of_memory(seen, needed):
    assert needed_tenths(seen) == needed


def test_it_grows_at_once_and_shrinks_by_one_step():
    assert next_tenths(use(2, 100)) == 3
    assert next_tenths(use(8, 10)) == 7
    assert next_tenths(use(8, 10), least=8) == 8
    assert next_tenths(use(3, 100), most=3) == 3


@given(st.integers(1, 10), st.integers(0, 100), st.integers(0, 20_000), st.integers(1, 10))
def test_more_work_never_asks_for_less(tenths, busy, peak, least):
    seen = use(tenths, busy, peak=peak)
    more = use(tenths, min(busy + 5, 100), peak=peak + 100)
    assert least <= needed_tenths(seen, least=least) <= 10
    assert needed_tenths(seen, least=least) <= needed_tenths(more, least=least)
    assert next_tenths(seen) >= needed_tenths(seen) or next_tenths(seen) == tenths - 1
