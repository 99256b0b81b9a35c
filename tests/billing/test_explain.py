"""What an instance cost, tick by tick: it adds up to the ledger, and names what is free."""

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from billing.core.rating import price_between
from billing.explain import Explanation, explain_instance, join_lines
from billing.models import Charge, Reversal
from billing.queries import spent_on
from billing.services.runs import close_run, waive
from billing.services.settle import settle
from rental.records.ids import new_id
from tests.factories.billing import (
    CNY,
    NOON,
    STAFF,
    TICK,
    make_price,
    make_run,
    make_tenant,
    report,
)

pytestmark = pytest.mark.django_db
PRICE = 4_900_000


@pytest.fixture
def tenant():
    make_price(PRICE)
    return make_tenant(balance=1000 * CNY)


def explanation_of(run) -> Explanation:
    return explain_instance(tenant_id=run.tenant_id, instance_id=run.instance_id)


def told(run, *, index=0):
    """(kind, why free, ticks, amount) of each line of a run."""
    return [
        (line.kind, line.free, (line.from_tick, line.until_tick), line.amount)
        for line in join_lines(explanation_of(run).runs[index].lines)
    ]


def test_what_is_charged_and_what_is_not_yet(tenant):
    run = make_run(tenant)
    report(run, (0, 600))
    settle(now=NOON + 600 * TICK)
    report(run, (600, 700))

    assert told(run) == [
        ("charged", "", (0, 600), 4_900_000),
        ("estimate", "", (600, 700), 816_667),
    ]
    whole = explanation_of(run)
    assert (whole.charged, whole.estimate, whole.total) == (4_900_000, 816_667, 5_716_667)
    assert whole.total == spent_on(run.instance_id, now=NOON + 700 * TICK)


def test_charges_that_continue_each_other_are_one_line(tenant):
    run = make_run(tenant)
    for until in (7, 20, 33):
        report(run, (0, until))
        settle(now=NOON + until * TICK)

    account = explanation_of(run).runs[0]
    assert [line.amount for line in account.lines] == [57_167, 106_166, 106_167]
    (line,) = join_lines(account.lines)
    assert (line.from_tick, line.until_tick, line.before, line.rows) == (0, 33, 0, 3)
    assert line.amount == 269_500 == 33 * PRICE // 600


def test_a_gap_is_free_and_so_is_the_end_that_nobody_saw(tenant):
    run = make_run(tenant)
    report(run, (0, 10), (15, 20))
    close_run(run_id=run.id, at=NOON + 25 * TICK, reason="user")
    settle(now=NOON + timedelta(days=1))

    assert told(run) == [
        ("charged", "", (0, 10), 81_667),
        ("free", "not_proven_yet", (10, 15), 0),
        ("charged", "", (15, 20), 40_833),
        ("free", "not_proven_yet", (20, 25), 0),
    ]

    settle(now=NOON + timedelta(days=40))  # no report is anybody's proof any more

    assert [free for kind, free, *_ in told(run) if kind == "free"] == ["not_proven", "not_proven"]


def test_what_the_node_did_after_the_stop_is_free(tenant):
    run = make_run(tenant)
    report(run, (0, 12))
    close_run(run_id=run.id, at=NOON + 10 * TICK, reason="user")
    settle(now=NOON + timedelta(hours=1))

    assert told(run) == [
        ("charged", "", (0, 10), 81_667),
        ("free", "after_stop", (10, 12), 0),
    ]


def test_a_failed_start_has_no_line_and_costs_nothing(tenant):
    run = make_run(tenant, started=False)
    close_run(run_id=run.id, at=NOON + 10 * TICK, reason="start_failed")

    assert told(run) == []
    assert explanation_of(run).total == 0


def test_what_is_waived_later_is_given_back_and_named(tenant):
    run = make_run(tenant)
    report(run, (0, 600))
    settle(now=NOON + 600 * TICK)
    waive(
        run_id=run.id, from_tick=100, until_tick=200, reason="fault", actor=STAFF,
        now=NOON + 601 * TICK,
    )  # fmt: skip
    settle(now=NOON + 602 * TICK)

    lines = told(run)
    assert ("free", "waived", (100, 200), 0) in lines
    assert ("returned", "", (100, 200), -816_667) in lines
    whole = explanation_of(run)
    assert whole.total == 4_900_000 - 816_667 == spent_on(run.instance_id, now=NOON)


def test_ticks_without_a_price_are_named_and_stay_due():
    tenant = make_tenant(balance=CNY)
    make_price(PRICE, until=NOON + 5 * TICK)
    run = make_run(tenant)
    report(run, (0, 10))

    assert told(run) == [
        ("estimate", "", (0, 5), 40_833),
        ("free", "no_price", (5, 10), 0),
    ]


def test_a_new_price_begins_a_new_line(tenant):
    run = make_run(tenant, key="compute/rising", share=Fraction(1, 2))
    make_price(1 * CNY, until=NOON + 5 * TICK, key="compute/rising")
    make_price(2 * CNY, since=NOON + 5 * TICK, key="compute/rising")
    report(run, (0, 10))

    lines = join_lines(explanation_of(run).runs[0].lines)
    assert [(line.from_tick, line.price, line.before) for line in lines] == [
        (0, 1 * CNY, 0),
        (5, 2 * CNY, 0),
    ]
    assert [line.amount for line in lines] == [
        price_between(0, 5, price=line.price, share=Fraction(1, 2)) if line.from_tick == 0
        else price_between(0, 5, price=2 * CNY, share=Fraction(1, 2))
        for line in lines
    ]  # fmt: skip


def test_runs_of_others_are_not_read(tenant):
    run = make_run(tenant)
    report(run, (0, 10))
    stranger = make_tenant(balance=CNY)

    found = explain_instance(tenant_id=stranger.id, instance_id=run.instance_id)

    assert (found.runs, found.total) == ([], 0)


def test_the_queries_do_not_grow_with_the_runs(tenant, django_assert_num_queries):
    instance = new_id()
    for hour in range(12):
        run = make_run(tenant, at=NOON + timedelta(hours=hour), instance=instance)
        report(run, (0, 10))
        close_run(run_id=run.id, at=run.opened_at + 10 * TICK, reason="user")

    with django_assert_num_queries(6):
        whole = explain_instance(tenant_id=tenant.id, instance_id=instance)
    assert (len(whole.runs), whole.total) == (12, 12 * 81_667)


class AnyLife(TestCase):
    """However reports, settles, a stop and a waiver interleave, the lines add up to the ledger."""

    @given(
        steps=st.lists(
            st.one_of(
                st.tuples(st.just("report"), st.integers(0, 60), st.integers(1, 20)),
                st.tuples(st.just("settle"), st.just(0), st.just(0)),
                st.tuples(st.just("waive"), st.integers(0, 60), st.integers(1, 10)),
                st.tuples(st.just("close"), st.integers(1, 70), st.just(0)),
            ),
            max_size=8,
        )
    )
    @hypothesis_settings(max_examples=20, deadline=None)
    def test_the_lines_add_up(self, steps):
        make_price(PRICE, key="compute/any")
        tenant = make_tenant(balance=100 * CNY)
        run = make_run(tenant, key="compute/any")
        late = NOON + timedelta(hours=2)
        for what, first, length in steps:
            if what == "report":
                report(run, (first, first + length), at=late)
            elif what == "waive":
                waive(
                    run_id=run.id, from_tick=first, until_tick=first + length, reason="x",
                    actor=STAFF, now=late,
                )  # fmt: skip
            elif what == "close":
                close_run(run_id=run.id, at=NOON + first * TICK, reason="user")
            else:
                settle(now=late, tenant_ids=[tenant.id])

        whole = explanation_of(run)
        charged = sum(Charge.objects.filter(run=run).values_list("amount", flat=True))
        back = sum(Reversal.objects.filter(run=run).values_list("amount", flat=True))
        assert whole.charged == charged - back
        assert whole.total == spent_on(run.instance_id, now=late)
        lines = [line for account in whole.runs for line in account.lines]
        assert sum(line.amount for line in lines) == whole.total
        for line in lines:
            if line.kind in ("charged", "estimate"):
                assert line.amount == price_between(
                    line.before, line.before + line.ticks, price=line.price, share=line.share
                )
