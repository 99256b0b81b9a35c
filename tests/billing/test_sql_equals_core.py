"""Settle's SQL gives what the pure core says, for any reports, order, closing and prices."""

from datetime import timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from billing.core.rating import price_of_ticks
from billing.core.split import PricedFrom, SegmentShape, meet, split, subtract, union
from billing.core.ticks import tick_at
from billing.models import Charge, PriceVersion, Reversal, Run
from billing.services.audit import find_errors
from billing.services.runs import close_run
from billing.services.settle import settle
from tests.factories.billing import CNY, LONG_AGO, NOON, make_price, make_run, make_tenant, report

SHANGHAI = ZoneInfo("Asia/Shanghai")
# Half an hour before a month begins in Shanghai, so that many runs cross it.
EVE = NOON.replace(month=3, day=31, hour=15, minute=30)

ranges = st.tuples(st.integers(0, 500), st.integers(1, 120)).map(lambda t: (t[0], t[0] + t[1]))


def prices(draw):
    """Write two to four versions around the run; return them for the core."""
    cuts = sorted(draw(st.sets(st.integers(1, 3_600_000), max_size=3)))
    instants = [EVE + timedelta(milliseconds=cut) for cut in cuts]
    for since, until in zip([LONG_AGO, *instants], [*instants, None], strict=True):
        make_price(draw(st.integers(0, 30_000_000)), since=since, until=until)
    return [
        PricedFrom(v.id, v.price_key, v.price, v.during.lower, v.during.upper)
        for v in PriceVersion.objects.order_by("during")
    ]


class AnyReports(TestCase):
    @given(st.data())
    @settings(max_examples=40, deadline=None)
    def test_any_order_gaps_late_closing_and_prices_give_the_same_charges(self, data):
        # given
        draw = data.draw
        versions = prices(draw)
        share = draw(st.sampled_from([Fraction(1), Fraction(1, 10), Fraction(1, 7), Fraction(8)]))
        tenant = make_tenant(balance=10**6 * CNY, now=EVE)
        run = make_run(
            tenant, at=EVE + timedelta(microseconds=draw(st.integers(0, 7_000_000))), share=share
        )
        seen = draw(st.lists(ranges, min_size=1, max_size=6))
        closes = draw(st.integers(0, 4_000_000))
        close_after = draw(st.integers(0, len(seen)))
        settle_after = draw(st.sets(st.integers(0, len(seen))))

        # when: reports, settles and the closing in any order, some twice
        at = EVE + timedelta(hours=2)
        for number, ticks in enumerate([*seen, *seen[:2]]):
            if number == close_after:
                close_run(
                    run_id=run.id, at=run.started_at + timedelta(milliseconds=closes), reason="stop"
                )
            report(run, ticks, at=at)
            if number in settle_after:
                settle(now=at)
        close_run(run_id=run.id, at=run.started_at + timedelta(milliseconds=closes), reason="stop")
        settle(now=at)
        settle(now=at)

        # then
        run = Run.objects.get(pk=run.id)
        closed = tick_at(run.started_at, run.started_at + timedelta(milliseconds=closes))
        assert run.closed_at_tick == closed
        due = [r for part in union(seen) if closed and (r := meet(part, (0, closed)))]
        wanted = split(
            due,
            charged=[],
            started_at=run.started_at,
            segments=[SegmentShape("s", versions[0].price_key, share, 0, None)],
            versions=versions,
            zone=SHANGHAI,
        )
        charges = list(Charge.objects.filter(run=run))
        reversals = list(Reversal.objects.filter(run=run))
        for version in versions:
            got = sum(c.amount for c in charges if c.price_version_id == version.id)
            got -= sum(r.amount for r in reversals if r.price_version_id == version.id)
            assert got == sum(p.amount for p in wanted if p.version == version.id)
        for period in {c.period for c in charges} | {p.period for p in wanted}:
            covered = subtract(
                [(c.units.lower, c.units.upper) for c in charges if c.period == period],
                [(r.units.lower, r.units.upper) for r in reversals],
            )
            assert covered == union(p.ticks for p in wanted if p.period == period)
        assert find_errors(now=at) == []


@pytest.mark.django_db
@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(0, 10**7),
    price=st.integers(0, 10**12),
    share=st.tuples(st.integers(1, 1000), st.integers(1, 1000)),
    offset=st.integers(-(10**10), 10**10),
)
def test_the_functions_of_the_database_are_those_of_the_core(n, price, share, offset):
    instant = NOON + timedelta(microseconds=offset)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT billing_price_of_ticks(%s, %s, %s, %s), billing_tick_at(%s, %s)",
            [n, price, *share, NOON, instant],
        )
        got = cursor.fetchone()
    assert got == (
        price_of_ticks(n, price=price, share=Fraction(*share)),
        tick_at(NOON, instant),
    )
