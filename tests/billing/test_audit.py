"""The audit finds what is planted, one by one; every trigger is bypassed to plant it."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from billing.services.audit import find_errors
from billing.services.holds import place_hold
from billing.services.runs import close_run
from billing.services.settle import settle
from tests.factories.billing import CNY, NOON, make_price, make_run, make_tenant, report

pytestmark = pytest.mark.django_db

PLANTED = {
    "a wallet with more than its transfers": (
        "I2",
        "UPDATE billing_wallet SET posted = posted + 1",
    ),
    "held without holds": ("I3", "UPDATE billing_wallet SET held = held + 1"),
    "a transfer that was made smaller": (
        "I2",
        "UPDATE billing_transfer SET amount = amount - 1 WHERE code = 'usage'",
    ),
    "a transfer that vanished": ("I20", "DELETE FROM billing_transfer WHERE code = 'usage'"),
    "a charge one micro-unit too high": ("I6", "UPDATE billing_charge SET amount = amount + 1"),
    "a charge that vanished": ("I4", "DELETE FROM billing_charge WHERE lower(units) = 0"),
    "a charge for ticks that nobody proved": (
        "I4",
        "UPDATE billing_charge SET units = int8range(lower(units), upper(units) + 1)"
        " WHERE lower(units) > 0",
    ),
    "a tally that forgets": ("I4", "UPDATE billing_tally SET charged = '{}'"),
    "a run marked settled too early": (
        "I20",
        "UPDATE billing_run SET settled = true, closed_at_tick = 400 WHERE closed_at IS NOT NULL",
    ),
    "a stretch from the future": ("I5", "UPDATE billing_stretch SET until_tick = 100000"),
    "a price changed backwards": ("I6", "UPDATE billing_priceversion SET price = price * 2"),
    "a price moved in time": (
        "I9",
        "UPDATE billing_priceversion SET during = tstzrange('2031-01-01', NULL)"
        " WHERE upper_inf(during)",
    ),
    "a charge in another month": (
        "I10",
        "UPDATE billing_charge SET period = period - interval '1 month'",
    ),
    "a posting with another total": ("I20", "UPDATE billing_posting SET total = total + 1"),
    "a charge without a posting": (
        "I20",
        "UPDATE billing_charge SET posting_id = gen_random_uuid()",
    ),
    "a guard switched off": ("I11", "ALTER TABLE billing_charge DISABLE TRIGGER USER"),
    "a transfer between two currencies": (
        "I1",
        "UPDATE billing_account SET currency = 'USD' WHERE kind = 'revenue'",
    ),
}


@pytest.fixture
def ledger():
    change = NOON + timedelta(minutes=20)
    make_price(4_900_000, until=change)
    make_price(5_390_000, since=change)
    tenant = make_tenant(balance=100 * CNY)
    run = make_run(tenant)
    place_hold(tenant_id=tenant.id, instance_id=run.instance_id, burn_per_hour=CNY, now=NOON)
    report(run, (0, 210), (220, 405))
    close_run(run_id=run.id, at=NOON + timedelta(minutes=40), reason="stop")
    settle(now=NOON + timedelta(hours=1))
    # A second proof after the settle, so that something is due and not yet charged.
    report(run, (210, 215))


def test_a_right_ledger_is_right(ledger):
    out = StringIO()
    call_command("audit_ledger", stdout=out)
    assert out.getvalue() == "The ledger is right.\n"


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_error_is_found(ledger, what):
    invariant, plant = PLANTED[what]
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(plant)
        assert cursor.rowcount != 0
        cursor.execute("SET LOCAL session_replication_role = origin")

    assert invariant in {finding.invariant for finding in find_errors(now=NOON)}
    out = StringIO()
    with pytest.raises(SystemExit) as stopped:
        call_command("audit_ledger", stdout=out)
    assert stopped.value.code == 1
    assert invariant in out.getvalue()
