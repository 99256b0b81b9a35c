"""The arithmetic, without a database: worked vectors and properties."""

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from billing.core.money import format_micro, parse_micro, round_half_up
from billing.core.rating import price_between, price_of_ticks
from billing.core.runway import Burn, exhausts_at
from billing.core.split import PricedFrom, SegmentShape, count, split, subtract, union
from billing.core.ticks import tick_at

WHOLE = Fraction(1)
SHANGHAI = ZoneInfo("Asia/Shanghai")
NOON = datetime(2030, 3, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "price", "share", "ticks", "amount"),
    [
        (1, "18.6", WHOLE, 1, "0.031000"),
        (7, "4.9", WHOLE, 2, "0.016333"),
        (3599, "4.9", WHOLE, 600, "4.900000"),
        (1, "18.6", Fraction(1, 10), 1, "0.003100"),
        (3600, "18.6", Fraction(1, 7), 600, "2.657143"),
        (21 * 86400, "4.9", Fraction(8), 302_400, "19756.800000"),
        (720 * 3600, "18.6", WHOLE, 432_000, "13392.000000"),
        (365 * 86400, "4.9", WHOLE, 5_256_000, "42924.000000"),
        (6, "4.9", Fraction(1, 4), 1, "0.002042"),
        (900, "4.9", WHOLE, 150, "1.225000"),
    ],
)
def test_worked_vectors(seconds, price, share, ticks, amount):
    assert tick_at(NOON, NOON + timedelta(seconds=seconds)) == ticks
    assert format_micro(price_of_ticks(ticks, price=parse_micro(price), share=share)) == amount


def one_run(started_at, ticks, versions):
    return split(
        [ticks],
        charged=[],
        started_at=started_at,
        segments=[SegmentShape("s", "k", WHOLE, 0, None)],
        versions=[PricedFrom(i, "k", *version) for i, version in enumerate(versions)],
        zone=SHANGHAI,
    )


def test_a_price_change_inside_a_run_begins_at_the_next_tick():
    change = NOON + timedelta(minutes=10, seconds=3)
    pieces = one_run(NOON, (0, 300), [(4_900_000, NOON, change), (5_390_000, change, None)])
    assert [(p.ticks, p.amount) for p in pieces] == [((0, 101), 824_833), ((101, 300), 1_787_683)]
    assert sum(p.amount for p in pieces) == parse_micro("2.612516")


def test_spot_pays_each_version_for_its_time():
    change = NOON + timedelta(minutes=20)
    pieces = one_run(NOON, (0, 300), [(980_000, NOON, change), (1_470_000, change, None)])
    assert [p.amount for p in pieces] == [326_667, 245_000]


def test_a_tick_belongs_to_the_month_in_which_it_starts():
    start = datetime(2026, 11, 30, 23, 59, 57, tzinfo=SHANGHAI)
    pieces = one_run(start, (0, 12), [(4_900_000, start - timedelta(days=1), None)])
    assert [(p.period, p.ticks, p.amount) for p in pieces] == [
        (date(2026, 11, 1), (0, 1), 8_167),
        (date(2026, 12, 1), (1, 12), 89_833),
    ]


def test_ten_thousand_cuts_of_a_year_add_up_exactly():
    cuts = sorted({(i * 7919 * 65_537) % 5_256_000 for i in range(10_000)} | {0, 5_256_000})
    total = sum(
        price_between(a, b, price=4_900_000, share=WHOLE)
        for a, b in zip(cuts, cuts[1:], strict=False)
    )
    assert total == 42_924_000_000


@given(
    st.lists(st.integers(0, 10**7), min_size=2),
    st.integers(0, 10**9),
    st.fractions(min_value=Fraction(1, 10**6), max_value=8, max_denominator=10**6),
)
def test_any_cutting_of_a_run_gives_the_same_total(cuts, price, share):
    cuts = sorted(cuts)
    pieces = [
        price_between(a, b, price=price, share=share) for a, b in zip(cuts, cuts[1:], strict=False)
    ]
    assert all(piece >= 0 for piece in pieces)
    assert sum(pieces) == price_between(cuts[0], cuts[-1], price=price, share=share)


def test_halves_go_up():
    assert [round_half_up(Fraction(n, 2)) for n in (1, 3, 5)] == [1, 2, 3]


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_an_amount_survives_its_text(amount):
    assert parse_micro(format_micro(amount)) == amount


@pytest.mark.parametrize("text", ["", "1e400", "NaN", "Infinity", "0.0000001", "1,0", "9" * 20])
def test_an_amount_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"amount|six"):
        parse_micro(text)


def test_an_amount_is_shown_with_fewer_places_half_up():
    assert format_micro(1_225_050, places=4) == "1.2251"
    assert format_micro(-5, places=2) == "-0.00"


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda t: (t[0], t[0] + t[1]))),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda t: (t[0], t[0] + t[1]))),
)
def test_sets_of_ticks(a, b):
    def ticks(ranges):
        return {t for first, last in ranges for t in range(first, last)}

    assert ticks(union(a)) == ticks(a)
    assert ticks(subtract(a, b)) == ticks(a) - ticks(b)
    assert count(union(a)) == len(ticks(a))


HOUR = 3_600_000_000  # microseconds


def test_money_for_one_hour_ends_one_tick_early():
    burn = Burn(((0, 3_600_000),), WHOLE, 1, 0)
    assert exhausts_at(3_600_000, [burn]) == HOUR - 6_000_000 - 2_000


def test_a_rise_ahead_shortens_the_runway():
    burn = Burn(((0, 1_000_000), (HOUR, 2_000_000)), WHOLE, 1, 0)
    # one hour at 1, half an hour at 2, less the reserve of 3,337 at the price of that time
    assert exhausts_at(2_000_000, [burn]) == HOUR + HOUR // 2 - 3_337 * 1_800 + 1_800


def test_nothing_burns_forever():
    assert exhausts_at(0, []) is None
    assert exhausts_at(10, [Burn(((0, 0),), WHOLE, 1, 0)]) is None


runs = st.lists(
    st.tuples(
        st.integers(0, 2 * HOUR),  # start
        st.sampled_from([(0, 1), (0, 2), (1, 1), (1, 3)]),  # price list, share denominator
    ),
    min_size=1,
    max_size=6,
)


@given(runs, st.integers(1, 30_000_000), st.integers(2 * HOUR, 5 * HOUR))
def test_runs_closed_at_the_end_of_the_money_are_always_paid(started, funds, change):
    prices = [((0, 4_900_000), (change, 5_390_000)), ((0, 1_500_001), (change, 700_000))]
    burns = [Burn(prices[p], Fraction(1, d), 1, start) for start, (p, d) in started]
    end = exhausts_at(funds, burns)
    assume(end >= max(start for start, _ in started))
    cost = 0
    for start, (p, d) in started:
        ticks = max(0, -((start - end) // 6_000_000))
        edge = min(ticks, max(0, -((start - change) // 6_000_000)))
        (_, first), (_, second) = prices[p]
        cost += price_of_ticks(edge, price=first, share=Fraction(1, d))
        cost += price_of_ticks(ticks - edge, price=second, share=Fraction(1, d))
    assert cost <= funds
