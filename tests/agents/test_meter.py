"""Exact ticks at the boundaries: what is claimed, and what a break takes away."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.meter import Life, RunMeter, Traffic
from tests.agents.fakes import FakeClock

NOTHING = Traffic()
LIFE = Life("alc_1.1", "100", "boot-1")


@pytest.fixture
def clock():
    return FakeClock()


def begin(clock, traffic=NOTHING):
    return RunMeter.begin(
        run="run_1", allocation="alc_1", life=LIFE, now=clock.now(), traffic=traffic
    )


def see(meter, clock, **changes):
    return meter.see(**{"life": LIFE, "now": clock.now(), "traffic": Traffic(), **changes})


@pytest.mark.parametrize(
    ("age", "until"), [(0, 0), (5_999, 0), (6_000, 1), (6_001, 1), (11_999, 1), (12_000, 2)]
)
def test_a_tick_is_seen_when_the_container_is_alive_at_its_end(clock, age, until):
    meter = begin(clock)
    clock.advance(age)
    see(meter, clock)
    assert meter.stretch.until_tick == until


@pytest.mark.parametrize(("age", "until"), [(0, 0), (1, 1), (6_000, 1), (6_001, 2), (12_000, 2)])
def test_the_tick_in_which_we_end_it_counts(clock, age, until):
    meter = begin(clock)
    clock.advance(age)
    (stretch,) = meter.stop(now=clock.now())
    assert (stretch.from_tick, stretch.until_tick) == (0, until)
    assert meter.stop(now=clock.now()) == []


def test_coming_late_to_the_last_tick_starts_no_further_one(clock):
    meter = begin(clock)
    clock.advance(6_020)
    assert meter.stop(now=clock.now(), last_tick=1)[0].until_tick == 1


@pytest.mark.parametrize(("seen", "until"), [(0, 0), (1, 1), (6_000, 1), (7_000, 2)])
def test_found_ended_counts_to_the_last_look_and_not_to_now(clock, seen, until):
    meter = begin(clock)
    clock.advance(seen)
    see(meter, clock)
    clock.advance(60_000)
    (stretch,) = meter.lose()
    assert stretch.until_tick == until


def test_a_dead_agent_leaves_no_gap_while_the_container_lives(clock):
    meter = begin(clock)
    clock.advance(600_000)
    (stretch,) = see(meter, clock)
    assert (stretch.from_tick, stretch.until_tick) == (0, 100)


def test_a_suspended_node_proves_nothing_of_its_sleep(clock):
    meter = begin(clock)
    clock.advance(13_000)
    see(meter, clock)
    clock.suspend(20_000)
    closed, opened = see(meter, clock)
    assert (closed.from_tick, closed.until_tick) == (0, 2)
    assert opened.from_tick == 6  # 33 s: tick 5 began in the sleep
    clock.advance(3_000)
    see(meter, clock)
    assert (meter.stretch.from_tick, meter.stretch.until_tick) == (6, 6)
    clock.advance(6_000)
    see(meter, clock)
    assert (meter.stretch.from_tick, meter.stretch.until_tick) == (6, 7)


def test_another_start_of_the_container_begins_a_new_stretch(clock):
    meter = begin(clock)
    clock.advance(7_000)
    closed, opened = see(meter, clock, life=Life("alc_1.1", "200", "boot-1"))
    assert (closed.until_tick, opened.from_tick) == (0, 2)


def test_a_lost_gpu_ends_the_stretch_at_the_last_good_look(clock):
    meter = begin(clock)
    clock.advance(12_500)
    see(meter, clock)
    clock.advance(10_000)
    (closed,) = see(meter, clock, is_healthy=False)
    assert closed.until_tick == 2
    clock.advance(60_000)
    assert see(meter, clock, is_healthy=False) == []
    (opened,) = see(meter, clock)
    assert opened.from_tick == 14  # 82.5 s
    assert meter.stop(now=clock.now())[0].until_tick == 14


def test_another_boot_proves_nothing(clock):
    meter = begin(clock)
    clock.reboot()
    assert see(meter, clock) == []


def test_bytes_are_counted_from_the_start_of_the_stretch_and_never_fall(clock):
    meter = begin(clock, Traffic(100, 10))
    clock.advance(6_000)
    see(meter, clock, traffic=Traffic(1_100, 60))
    see(meter, clock, traffic=Traffic(0, 0))
    assert (meter.stretch.net_out, meter.stretch.net_in) == (1_000, 50)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["run", "suspend", "sick", "restart"]),
            st.integers(min_value=1, max_value=40_000),
        ),
        max_size=12,
    )
)
def test_no_tick_is_claimed_that_a_break_touches_and_none_twice(events):
    clock = FakeClock()
    meter = begin(clock)
    rows = {0: (0, 0)}
    life, broken, age = LIFE, [], 0
    for kind, ms in events:
        if kind == "suspend" and ms <= 1_000:
            continue  # below what two clock readings can tell
        if kind == "suspend":
            clock.suspend(ms)
        else:
            clock.advance(ms)
        if kind != "run":
            broken.append((age, age + ms))
        if kind == "restart":
            life = Life("alc_1.1", str(age + ms), "boot-1")
        age += ms
        for s in see(meter, clock, life=life, is_healthy=kind != "sick"):
            rows[s.from_tick] = (s.from_tick, s.until_tick)
    if meter.stretch is not None:
        rows[meter.stretch.from_tick] = (meter.stretch.from_tick, meter.stretch.until_tick)
    claimed = [tick for first, until in rows.values() for tick in range(first, until)]
    assert len(claimed) == len(set(claimed))
    for tick in claimed:
        assert (tick + 1) * 6_000 <= age
        assert not any(a < (tick + 1) * 6_000 and tick * 6_000 < b for a, b in broken)
