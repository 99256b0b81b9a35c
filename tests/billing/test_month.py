"""What a month has cost: groupings add up to the charges, months and days are Shanghai's."""

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing import month
from billing.models import Charge, Reversal
from billing.queries import list_transfers, read_ledger
from billing.services.runs import close_run, waive
from billing.services.settle import settle
from billing.services.wallets import read_balance
from tests.factories.billing import CNY, STAFF, make_price, make_run, make_tenant, report

SHANGHAI = ZoneInfo("Asia/Shanghai")
MARCH = date(2026, 3, 1)
MONEY = 100_000 * CNY  # more than March costs


def at(*moment: int) -> datetime:
    return datetime(*moment, tzinfo=SHANGHAI)


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (at(2026, 3, 15, 9, 30), at(2026, 2, 15, 9, 30)),
        (at(2026, 3, 31, 12), at(2026, 3, 1)),  # February has no 31st: all of it
        (at(2026, 1, 1), at(2025, 12, 1)),
    ],
)
def test_the_same_days_of_the_month_before_end_with_it(now, before):
    assert month.same_moment_before(now.astimezone(UTC)) == before


@pytest.fixture
def tenant(db):
    """Two instances in March: one over a midnight with an odd price, one in the evening."""
    make_price(4_900_001)
    tenant = make_tenant(balance=MONEY, now=at(2026, 3, 1))
    night = make_run(tenant, at=at(2026, 3, 9, 22, 59, 57), share=Fraction(1, 3))
    report(night, (0, 1801))
    evening = make_run(tenant, at=at(2026, 3, 10, 18))
    report(evening, (0, 601), (700, 707))
    settle(now=at(2026, 3, 10, 20))
    tenant.runs_made = night, evening
    return tenant


def test_every_grouping_of_a_month_adds_up_to_its_charges(tenant):
    charged = sum(Charge.objects.of(tenant.id).values_list("amount", flat=True))
    assert charged == 4_902_723 + 4_965_334
    for by in ("instance", "project", "day"):
        groups = month.group_month(tenant_id=tenant.id, period=MARCH, by=by)
        assert sum(group.total for group in groups) == charged, by
        assert sum(group.ticks for group in groups) == 1801 + 608, by


def test_days_are_cut_at_midnight_in_the_zone_of_the_bill(tenant):
    first, second = month.group_month(tenant_id=tenant.id, period=MARCH, by="day")
    # the first run began 1 h and 3 s before midnight: tick 600 is the last that starts on the 9th
    assert (first.key, first.ticks) == (date(2026, 3, 9), 601)
    assert (second.key, second.ticks) == (date(2026, 3, 10), 1200 + 608)
    night, _ = tenant.runs_made
    (charge,) = Charge.objects.filter(run=night)
    assert first.total == (2 * charge.amount * 601 + 1801) // (2 * 1801)


def test_a_month_reads_only_its_own_charges(tenant):
    assert month.group_month(tenant_id=tenant.id, period=date(2026, 2, 1), by="day") == []
    assert month.list_month(tenant_id=tenant.id, period=date(2026, 4, 1)).count() == 0
    assert month.list_month(tenant_id=tenant.id, period=MARCH).count() == 3


def test_one_instance_or_project_can_be_looked_at_alone(tenant):
    night, _ = tenant.runs_made
    (charge,) = Charge.objects.filter(run=night)
    (group,) = month.group_month(
        tenant_id=tenant.id, period=MARCH, by="instance", instance_id=night.instance_id
    )
    assert (group.key, group.total) == (night.instance_id, charge.amount)
    chosen = {"tenant_id": tenant.id, "period": MARCH, "project_id": night.project_id}
    assert [g.key for g in month.group_month(by="project", **chosen)] == [night.project_id]
    stranger = make_tenant()
    assert month.group_month(tenant_id=stranger.id, period=MARCH, by="day") == []


def test_what_was_given_back_is_a_line_of_its_own_and_off_the_total(tenant):
    night, _ = tenant.runs_made
    close_run(run_id=night.id, at=night.started_at + 1000 * timedelta(seconds=6), reason="stop")
    settle(now=at(2026, 3, 10, 21))
    (back,) = Reversal.objects.filter(run=night)
    groups = month.group_month(tenant_id=tenant.id, period=MARCH, by="day")
    assert [group.ticks for group in groups] == [601, 399 + 608]
    assert [group.returned for group in groups] == [0, back.amount]
    net = sum(Charge.objects.of(tenant.id).values_list("amount", flat=True)) - back.amount
    assert sum(group.total for group in groups) == net
    assert month.spend_month(tenant_id=tenant.id, now=at(2026, 3, 20)).charged == net


def test_the_month_so_far_is_what_is_charged_and_what_is_used(tenant):
    _, evening = tenant.runs_made
    report(evening, (707, 1307))
    spending = month.spend_month(tenant_id=tenant.id, now=at(2026, 3, 10, 21))
    charged = sum(Charge.objects.of(tenant.id).values_list("amount", flat=True))
    balance = read_balance(tenant_id=tenant.id, now=at(2026, 3, 10, 21))
    assert (spending.charged, spending.estimate) == (charged, balance.unposted)
    assert spending.spent == MONEY - balance.available


def test_a_month_is_compared_with_the_same_days_of_the_one_before(tenant):
    """On 10 April at 00:00 the one who compares sees 9 March, to the tick."""
    first, second = month.group_month(tenant_id=tenant.id, period=MARCH, by="day")
    spending = month.spend_month(tenant_id=tenant.id, now=at(2026, 4, 10))
    assert (spending.period, spending.before_period) == (date(2026, 4, 1), MARCH)
    assert (spending.spent, spending.before) == (0, first.total)
    later = month.spend_month(tenant_id=tenant.id, now=at(2026, 4, 30))
    assert later.before == first.total + second.total


def test_ticks_of_two_months_are_charged_and_estimated_in_theirs(tenant):
    run = make_run(tenant, at=at(2026, 3, 31, 23, 59, 57))
    report(run, (0, 12))
    now = at(2026, 4, 1, 0, 2)
    assert month.spend_month(tenant_id=tenant.id, now=now).estimate == 89_833
    settle(now=now)
    (april,) = month.list_month(tenant_id=tenant.id, period=date(2026, 4, 1))
    assert (april.amount, april.units.lower) == (89_833, 1)


def test_the_ledger_is_read_with_the_balance_along_it(tenant):
    night, _ = tenant.runs_made
    waive(
        run_id=night.id,
        from_tick=0,
        until_tick=600,
        reason="test",
        actor=STAFF,
        now=at(2026, 3, 10, 21),
    )
    settle(now=at(2026, 3, 10, 22))
    transfers = list(list_transfers(tenant_id=tenant.id))
    with CaptureQueriesContext(connection) as seen:
        lines = read_ledger(transfers)
    assert len(seen) == 1
    assert [line.transfer.code for line in lines] == ["reversal", "usage", "credit"]
    assert lines[-1].before == 0
    assert [line.before for line in lines[:-1]] == [line.after for line in lines[1:]]
    assert lines[0].after == read_balance(tenant_id=tenant.id, now=at(2026, 3, 10, 22)).posted
    assert read_ledger([transfers[0], transfers[2]]) == [lines[0], lines[2]]
    assert read_ledger([]) == []
