"""How large a slice should be: exact values at the edges, and what must hold for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.rightsize import Seen, needed_tenths

pytestmark = pytest.mark.pure


def use(tenths, busy, *, peak=0, vram=10_000):
    return Seen(tenths=tenths, vram_mib=vram, busy_percent=busy, vram_peak_mib=peak)


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


@given(st.integers(1, 10), st.integers(0, 100), st.integers(0, 20_000))
def test_more_work_never_asks_for_less(tenths, busy, peak):
    seen = use(tenths, busy, peak=peak)
    more = use(tenths, min(busy + 5, 100), peak=peak + 100)
    assert 1 <= needed_tenths(seen) <= needed_tenths(more) <= 10
