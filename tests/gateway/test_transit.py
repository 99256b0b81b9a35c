"""Frames that a cut link held back: what they say about the past is corrected on arrival."""

from datetime import UTC, datetime, timedelta

from agents.protocol import RunReport, Usage
from rental.gateway.transit import WINDOW, Transit, add_age

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_frame_held_up_for_a_minute_is_a_minute_late():
    # given a link on which frames take no time to speak of
    transit = Transit()
    for second in range(0, 30, 3):
        sent_ms = 1_000_000 + second * 1000
        at = NOON + timedelta(seconds=second)
        assert transit.held_up_ms(sent_ms=sent_ms, received_at=at) == 0

    # when one that was sent at 30 s arrives at 90 s
    late = transit.held_up_ms(sent_ms=1_030_000, received_at=NOON + timedelta(seconds=90))

    # then it is known to be 60 s late, and the next one is on time again
    assert late == 60_000
    assert transit.held_up_ms(sent_ms=1_090_500, received_at=NOON + timedelta(seconds=90.5)) == 0


def test_a_slow_link_from_the_beginning_is_no_delay():
    transit = Transit()
    assert transit.held_up_ms(sent_ms=5, received_at=NOON) == 0
    assert transit.held_up_ms(sent_ms=3_005, received_at=NOON + timedelta(seconds=3)) == 0


def test_a_fast_clock_makes_nothing_early():
    transit = Transit()
    for second in range(WINDOW * 2):
        sent_ms = 1_000_000 + second * 1100  # 10 % fast
        assert (
            transit.held_up_ms(sent_ms=sent_ms, received_at=NOON + timedelta(seconds=second)) == 0
        )


def test_an_agent_that_does_not_say_when_it_sent_is_taken_at_its_word():
    assert Transit().held_up_ms(sent_ms=0, received_at=NOON) == 0


def test_readiness_lies_as_far_back_as_it_did_plus_the_way():
    usage = Usage(
        node="n",
        boot="b",
        seq=1,
        runs=[RunReport(run="a", ready_age_ms=500), RunReport(run="b", ready_age_ms=None)],
    )
    assert [run.ready_age_ms for run in add_age(usage, 60_000).runs] == [60_500, None]
    assert add_age(usage, 0) is usage
