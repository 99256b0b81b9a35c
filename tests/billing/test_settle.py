"""Settle on the real database: what is charged, once, whatever comes in which order."""

import re
import threading
import uuid
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.errors import InsufficientBalance, TenantInArrears
from billing.models import Account, Charge, Posting, Reversal, RunDirty, Tally, Transfer, Wallet
from billing.queries import list_segments, spent_on
from billing.services.audit import find_errors
from billing.services.exhaust import close_exhausted
from billing.services.holds import free_hold, place_hold
from billing.services.ledger import arrears_of
from billing.services.runs import close_run, waive
from billing.services.settle import settle, settle_closed
from billing.services.wallets import credit, read_balance
from rental.records.models import AuditEvent
from tests.factories.billing import (
    CNY,
    NOON,
    STAFF,
    make_price,
    make_run,
    make_tenant,
    report,
)

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def posted(tenant):
    return Wallet.objects.get(tenant=tenant).posted


def amounts(run):
    return list(
        Charge.objects.filter(run=run).order_by("units").values_list("units_before", "amount")
    )


def assert_audit_is_clean():
    assert find_errors(now=NOON) == []


def test_a_run_of_1799_seconds_over_a_price_change_costs_the_worked_example():
    # given
    change = NOON + timedelta(minutes=10, seconds=3)
    make_price(4_900_000, until=change)
    make_price(5_390_000, since=change)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 300))
    close_run(run_id=run.id, at=NOON + timedelta(minutes=30), reason="stop")

    # when
    settle(now=NOON + HOUR)

    # then
    assert amounts(run) == [(0, 824_833), (0, 1_787_683)]
    assert posted(tenant) == 10 * CNY - 2_612_516
    run.refresh_from_db()
    assert run.settled
    assert_audit_is_clean()


def test_a_month_end_cuts_charges_and_nothing_else():
    start = datetime(2030, 11, 30, 15, 59, 57, tzinfo=UTC)  # 23:59:57 in Shanghai
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant, at=start)
    report(run, (0, 12))
    settle(now=start + HOUR)
    rows = Charge.objects.filter(run=run).order_by("units")
    assert list(rows.values_list("period", "amount")) == [
        (date(2030, 11, 1), 8_167),
        (date(2030, 12, 1), 89_833),
    ]
    assert_audit_is_clean()


def test_gaps_are_free_and_cost_the_same_when_they_are_filled_late():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 101), (203, 307))
    settle(now=NOON + HOUR)
    assert posted(tenant) == 10 * CNY - 1_674_167  # F(205)
    report(run, (101, 203))
    settle(now=NOON + 2 * HOUR)
    assert posted(tenant) == 10 * CNY - 2_507_167  # F(307)
    assert_audit_is_clean()


def test_settling_twice_changes_nothing():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 7))
    assert settle(now=NOON + HOUR) == 1
    before = (posted(tenant), Charge.objects.count(), Transfer.objects.count())
    assert settle(now=NOON + HOUR) == 0
    assert (posted(tenant), Charge.objects.count(), Transfer.objects.count()) == before
    assert Posting.objects.count() == 1


def test_ticks_after_the_stop_are_never_charged():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 20))
    close_run(run_id=run.id, at=NOON + timedelta(seconds=61), reason="stop")
    close_run(run_id=run.id, at=NOON, reason="second")
    settle(now=NOON + HOUR)
    run.refresh_from_db()
    assert (run.closed_at_tick, run.close_reason) == (11, "stop")
    assert posted(tenant) == 10 * CNY - 89_833  # F(11)


def test_a_run_that_never_started_costs_nothing():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant, started=False)
    close_run(run_id=run.id, at=NOON + HOUR, reason="failed")
    report(run, (0, 20), at=NOON + HOUR, age_ms=0)
    settle(now=NOON + HOUR)
    run.refresh_from_db()
    assert (run.started_at, run.closed_at_tick, run.settled) == (None, 0, True)
    assert posted(tenant) == 10 * CNY


def test_what_was_charged_above_the_stop_comes_back():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 20))
    settle(now=NOON + timedelta(minutes=2))
    close_run(run_id=run.id, at=NOON + timedelta(seconds=61), reason="stop")
    settle_closed(now=NOON + timedelta(minutes=2))
    assert posted(tenant) == 10 * CNY - 89_833  # F(11)
    reversal = Reversal.objects.get()
    assert (reversal.units.lower, reversal.units.upper, reversal.amount) == (11, 20, 73_500)
    assert_audit_is_clean()
    settle(now=NOON + HOUR)
    assert Reversal.objects.count() == 1


def test_waived_ticks_come_back_and_stay_free():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 20))
    close_run(run_id=run.id, at=NOON + timedelta(seconds=120), reason="stop")
    settle(now=NOON + HOUR)
    waive(
        run_id=run.id,
        from_tick=5,
        until_tick=15,
        reason="our hardware",
        actor=STAFF,
        now=NOON + HOUR,
    )
    event = AuditEvent.objects.of(tenant.id).get(verb="run.waived")
    assert (event.actor_id, event.after["reason"]) == (STAFF.id, "our hardware")
    settle(now=NOON + HOUR)
    settle(now=NOON + 2 * HOUR)
    assert posted(tenant) == 10 * CNY - 81_667  # F(10)
    run.refresh_from_db()
    assert run.settled
    assert_audit_is_clean()


def test_what_the_wallet_lacks_is_owed_and_the_next_credit_pays_it():
    make_price(4_900_000)
    tenant = make_tenant(balance=CNY)
    run = make_run(tenant)
    report(run, (0, 1200))
    close_run(run_id=run.id, at=NOON + 2 * HOUR, reason="stop")
    settle(now=NOON + 2 * HOUR)
    assert (posted(tenant), arrears_of([tenant.id])) == (0, {tenant.id: 8_800_000})
    with pytest.raises(TenantInArrears) as refusal:
        place_hold(tenant_id=tenant.id, instance_id=run.instance_id, burn_per_hour=1, now=NOON)
    assert refusal.value.amount == 8_800_000
    assert_audit_is_clean()

    give = {"tenant_id": tenant.id, "reason": "paid", "actor": STAFF, "now": NOON}
    credit(amount=10 * CNY, key="k", **give)
    assert credit(amount=10 * CNY, key="k", **give).amount == 10 * CNY
    assert (posted(tenant), arrears_of([tenant.id])) == (1_200_000, {})
    assert_audit_is_clean()


def test_the_balance_shows_an_estimate_with_its_time():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant, share=Fraction(1, 10))
    report(run, (0, 600))
    close_exhausted(now=NOON + HOUR)
    balance = read_balance(tenant_id=tenant.id, now=NOON + HOUR)
    assert (balance.posted, balance.unposted, balance.available) == (10 * CNY, 490_000, 9_510_000)
    assert (balance.burn_per_hour, balance.as_of) == (490_000, NOON + HOUR)
    assert spent_on(run.instance_id, now=NOON + HOUR) == 490_000
    settle(now=NOON + HOUR)
    (line,) = list_segments(run.instance_id, now=NOON + HOUR)
    assert (line.charged_ticks, line.amount, line.estimate, line.price) == (
        600,
        490_000,
        0,
        490_000,
    )


def test_a_hold_is_an_hour_or_what_is_left_and_at_least_half_an_hour():
    tenant = make_tenant(balance=10 * CNY)

    def hold(n, burn):
        instance = make_price(burn, key=f"k{n}").id  # any fresh id
        held = place_hold(tenant_id=tenant.id, instance_id=instance, burn_per_hour=burn, now=NOON)
        return instance, held.amount

    first, amount = hold(1, 4_900_000)
    assert (hold(2, 4_900_000)[1], amount) == (4_900_000, 4_900_000)
    with pytest.raises(InsufficientBalance) as refusal:
        hold(3, 400_002)
    assert (refusal.value.needed, refusal.value.available) == (200_001, 200_000)
    assert hold(4, 400_000)[1] == 200_000
    free_hold(instance_id=first, now=NOON)
    free_hold(instance_id=first, now=NOON)
    assert Wallet.objects.get(tenant=tenant).held == 5_100_000
    assert_audit_is_clean()


def test_settle_places_holds_anew():
    make_price(4_900_000)
    tenant = make_tenant(balance=5 * CNY)
    run = make_run(tenant)
    place_hold(tenant_id=tenant.id, instance_id=run.instance_id, burn_per_hour=4_900_000, now=NOON)
    report(run, (0, 60))
    settle(now=NOON + HOUR)
    wallet = Wallet.objects.get(tenant=tenant)
    assert (wallet.posted, wallet.held) == (4_510_000, 4_510_000)
    assert_audit_is_clean()


def test_at_the_end_of_the_money_billing_closes_the_runs_at_the_instant_in_the_row():
    # given: money for one hour
    make_price(3_600_000)
    tenant = make_tenant(balance=3_600_000)
    run = make_run(tenant)
    assert close_exhausted(now=NOON) == 0
    wallet = Wallet.objects.get(tenant=tenant)
    end = NOON + HOUR - timedelta(microseconds=6_002_000)
    assert (wallet.exhausts_at, wallet.burn) == (end, 3_600_000)

    # when: it runs on, and the sweep is ten minutes late
    report(run, (0, 690))
    assert close_exhausted(now=NOON + timedelta(minutes=70)) == 1

    # then
    run.refresh_from_db()
    assert (run.closed_at_tick, run.close_reason) == (599, "balance_exhausted")
    assert abs(run.closed_at - end) < timedelta(milliseconds=10)
    assert RunDirty.objects.filter(run_id=run.id).exists()
    settle(now=NOON + 2 * HOUR)
    wallet.refresh_from_db()
    assert (wallet.posted, wallet.exhausts_at, wallet.burn) == (3_600_000 - 3_594_000, None, 0)
    assert arrears_of([tenant.id]) == {}
    assert close_exhausted(now=NOON + 2 * HOUR) == 0
    assert_audit_is_clean()


def test_a_settle_that_comes_first_does_not_charge_beyond_the_end_of_the_money():
    make_price(3_600_000)
    tenant = make_tenant(balance=3_600_000)
    run = make_run(tenant)
    close_exhausted(now=NOON)
    report(run, (0, 690))
    settle(now=NOON + timedelta(minutes=70))
    assert (posted(tenant), arrears_of([tenant.id])) == (6_000, {})


def test_a_credit_moves_the_end_of_the_money():
    make_price(3_600_000)
    tenant = make_tenant(balance=3_600_000)
    make_run(tenant)
    close_exhausted(now=NOON)
    credit(tenant_id=tenant.id, amount=3_600_000, reason="more", actor=STAFF, key="more", now=NOON)
    wallet = Wallet.objects.get(tenant=tenant)
    assert wallet.exhausts_at == NOON + 2 * HOUR - timedelta(microseconds=6_002_000)


def test_ticks_without_a_price_wait_for_one():
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 10))
    settle(now=NOON + HOUR)
    assert not Charge.objects.exists()
    make_price(4_900_000)
    settle(now=NOON + HOUR)
    assert posted(tenant) == 10 * CNY - 81_667


def test_runs_of_nobody_who_reports_are_settled_36_days_after_they_closed():
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    close_run(run_id=run.id, at=NOON + HOUR, reason="stop")
    settle(now=NOON + timedelta(days=36))
    run.refresh_from_db()
    assert not run.settled
    settle(now=NOON + HOUR + timedelta(days=36, seconds=1))
    run.refresh_from_db()
    assert run.settled


@pytest.mark.django_db(transaction=True)
def test_starts_at_once_never_hold_the_same_money():
    burn = 4 * CNY
    tenant = make_tenant(balance=7 * CNY)  # an hour of one, and three quarters of another
    held, refused = [], []

    def start():
        try:
            hold = place_hold(
                tenant_id=tenant.id, instance_id=uuid.uuid4(), burn_per_hour=burn, now=NOON
            )
            held.append(hold.amount)
        except InsufficientBalance as refusal:
            refused.append(refusal.available)
        connection.close()

    threads = [threading.Thread(target=start) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]

    assert sorted(held) == [3 * CNY, 4 * CNY]
    assert refused == [0] * 6
    assert Wallet.objects.get(tenant=tenant).held == 7 * CNY


@pytest.mark.django_db(transaction=True)
def test_two_settles_at_once_charge_once():
    make_price(4_900_000)
    runs = []
    for _ in range(6):
        tenant = make_tenant(balance=10 * CNY)
        for _ in range(5):
            run = make_run(tenant)
            report(run, (0, 7), (9, 31))
            runs.append(run)

    def work():
        settle(now=NOON + HOUR)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]

    assert Charge.objects.count() == 60
    assert Posting.objects.count() == 6
    assert all(
        [(r.lower, r.upper) for r in t.charged] == [(0, 7), (9, 31)] for t in Tally.objects.all()
    )
    assert Account.objects.filter(kind="revenue").count() == 1
    assert_audit_is_clean()


def test_a_run_with_a_hole_closed_long_ago_does_not_cut_the_charges_of_others_small():
    """Its proof may come for 35 days; until then the hourly settle is soon enough."""
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    holed, running = make_run(tenant), make_run(tenant)
    report(holed, (0, 5), (7, 10))
    close_run(run_id=holed.id, at=NOON + timedelta(minutes=1), reason="stop")
    settle_closed(now=NOON + timedelta(minutes=2))
    report(running, (0, 600))
    settle_closed(now=NOON + HOUR)
    assert not Charge.objects.filter(run=running).exists()
    report(holed, (5, 7), at=NOON + HOUR)
    settle(now=NOON + HOUR)
    assert Charge.objects.filter(run=running).count() == 1
    holed.refresh_from_db()
    assert holed.settled


def test_a_tenant_whose_settle_fails_stops_no_other_of_his_shard():
    """The trigger stands for what nobody foresaw in one tenant's rows."""
    make_price(4_900_000)
    tenants = [make_tenant(balance=10 * CNY) for _ in range(5)]
    for tenant in tenants:
        report(make_run(tenant), (0, 10))
    bad = tenants[2]
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'a bad row'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON billing_posting FOR EACH ROW
                WHEN (NEW.tenant_id = '{bad.id}') EXECUTE FUNCTION refuse();
            """
        )
    assert settle(now=NOON + HOUR) == 4
    assert [posted(tenant) for tenant in tenants if tenant != bad] == [10 * CNY - 81_667] * 4
    assert posted(bad) == 10 * CNY


def test_a_tenant_whose_end_of_money_fails_stops_no_other_from_ending():
    make_price(4_900_000)
    tenants = sorted((make_tenant(balance=CNY) for _ in range(3)), key=lambda tenant: tenant.id)
    runs = [make_run(tenant) for tenant in tenants]
    bad = tenants[0]
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'a bad row'; END $$;
            CREATE TRIGGER refuse BEFORE UPDATE ON billing_wallet FOR EACH ROW
                WHEN (NEW.tenant_id = '{bad.id}') EXECUTE FUNCTION refuse();
            """
        )
    assert close_exhausted(now=NOON + 10 * HOUR) == 2
    for run in runs:
        run.refresh_from_db()
    assert [run.closed_at is None for run in runs] == [True, False, False]


def test_the_charges_of_a_run_are_found_by_an_index():
    """No tick is charged twice: the constraint's index serves whoever names its component."""
    make_price(4_900_000)
    tenant = make_tenant(balance=10 * CNY)
    run = make_run(tenant)
    report(run, (0, 20))
    settle(now=NOON + timedelta(minutes=2))
    close_run(run_id=run.id, at=NOON + timedelta(seconds=61), reason="stop")
    with CaptureQueriesContext(connection) as seen:
        list_segments(run.instance_id, now=NOON + HOUR)
        settle(now=NOON + HOUR)
        find_errors(now=NOON + HOUR)
    of_one_run = [
        query["sql"]
        for query in seen.captured_queries
        if re.search(r'FROM "?billing_charge"?\s.*WHERE .*run_id"? (=|IN)', query["sql"], re.S)
        and query["sql"].lstrip().startswith("SELECT")
        and "billing_posting" not in query["sql"]
    ]
    assert len(of_one_run) == 3
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for sql in of_one_run:
            cursor.execute("EXPLAIN " + sql)
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "no_tick_is_charged_twice" in plan, sql


def test_reading_a_balance_writes_nothing():
    tenant = make_tenant()
    balance = read_balance(tenant_id=tenant.id, now=NOON)
    assert (balance.posted, balance.available, balance.exhausts_at) == (0, 0, None)
    assert balance.currency == "CNY"
    assert not Wallet.objects.filter(tenant=tenant).exists()
