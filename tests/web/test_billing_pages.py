"""Billing: the API's figures to the last digit, sums that add up, and files that do no harm."""

import csv
import io
from datetime import date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from billing.models import Charge, Transfer, Wallet
from billing.month import billing_zone, group_month
from billing.services.runs import close_run
from billing.services.settle import settle
from billing.services.wallets import credit
from config.celery import BEAT, Hourly
from rental.instances.models import Instance
from rental.records.texts import money_text
from rental.tenants.models import Role, Tenant
from rental.tenants.services import remove_member
from rental.web.exports import BATCH, csv_answer, harmless
from rental.web.pages.billing.balance import SETTLE_MINUTE, next_settle
from rental.web.pages.billing.tabs import MOVEMENTS
from rental.web.periods import months_back, read_days, read_month
from tests.factories.billing import STAFF
from tests.factories.tenants import OPERATOR, make_tenant, make_user, owner_of
from tests.web.moneyed import HOUR, Moneyed
from tests.web.rented import text_of

pytestmark = pytest.mark.django_db
PAGES = ("billing", "billing/transfers", "billing/charges")
FILES = ("billing/transfers.csv", "billing/charges.csv")


@pytest.fixture
def world():
    return Moneyed(gpus=4)


def file_of(response):
    """The lines of a file as dictionaries."""
    assert response.status_code == 200
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def month_of(moment):
    return moment.astimezone(billing_zone()).strftime("%Y-%m")


def months(world, path=""):
    """The months that the tenant's charges lie in (two, where a test runs across midnight)."""
    periods = Charge.objects.of(world.tenant.id).values_list("period", flat=True).distinct()
    return [f"{period:%Y-%m}" for period in periods]


# --- the balance


def test_the_balance_page_shows_what_the_api_says(world):
    world.ran(hours=2, more=301)
    response = world.page("billing")
    balance, api = response.context["balance"], world.api("balance")
    for name in ("posted", "unposted", "held", "available", "burn_per_hour"):
        assert money_text(getattr(balance, name)) == api[name], name
    text = text_of(response)
    assert "Available ¥998.774183" in text
    assert "Used, not charged yet An estimate" in text
    assert "\N{MINUS SIGN}¥0.245817" in text


def test_the_next_charge_is_when_beat_settles():
    assert BEAT["billing.settle"] == Hourly(SETTLE_MINUTE)
    at = datetime(2026, 3, 1, 10, SETTLE_MINUTE, tzinfo=ZoneInfo("UTC"))
    assert next_settle(at - timedelta(seconds=1)) == at
    assert next_settle(at) == at + HOUR


def test_pots_that_are_no_cash_stand_apart(world):
    cash = Wallet.objects.get(tenant=world.tenant)
    account = type(cash.account).objects.create(tenant=world.tenant, kind="cash", currency="EUR")
    Wallet.objects.create(
        tenant=world.tenant, kind="gift", currency="CNY", account=account, posted=7_000_000
    )
    text = text_of(world.page("billing"))
    assert "Other pots gift ¥7.00" in text
    assert "Available ¥1,000.00" in text


# --- the ledger


def test_the_ledger_runs_from_nothing_to_the_balance(world):
    instance = world.ran(hours=3, more=0)
    close_run(run_id=instance.run_id or run_id(instance), at=world.now - HOUR / 2, reason="stop")
    settle(now=world.now, tenant_ids=[world.tenant.id])
    lines = [shown.line for shown in world.page("billing/transfers").context["lines"]]
    assert {line.transfer.code for line in lines} == {"credit", "usage", "reversal"}
    assert lines[0].after == Wallet.objects.get(tenant=world.tenant).posted
    assert [line.before for line in lines[:-1]] == [line.after for line in lines[1:]]
    assert lines[-1].before == 0
    changes = [row["change"] for row in world.api("transfers")["data"]]
    assert [money_text(line.change) for line in lines] == changes


def run_id(instance):
    return Charge.objects.filter(run__instance_id=instance.pk).first().run_id


def test_every_kind_of_movement_has_words(world):
    world.ran(hours=1)
    codes = set(Transfer.objects.values_list("code", flat=True))
    assert codes <= set(MOVEMENTS)


def test_the_ledger_is_read_page_by_page(world):
    for number in range(60):
        credit(
            tenant_id=world.tenant.id,
            amount=1_000_000,
            reason=f"no. {number}",
            actor=STAFF,
            key=f"k{number}-{world.tenant.id}",
            now=world.now,
        )
    first = world.page("billing/transfers")
    second = world.browser().get(first.context["next"])
    shown = [*first.context["lines"], *second.context["lines"]]
    assert len(shown) == 61
    assert len({line.text_id for line in shown}) == 61
    assert second.context["next"] == ""
    assert shown[50].line.after == shown[49].line.before
    # a cursor of another list leads to the beginning of this one
    other = first.context["next"].replace("after=", "from=2020-01-01&after=")
    assert world.browser().get(other).status_code == 302


def test_days_are_those_of_the_tenants_clock(world):
    Tenant.objects.filter(pk=world.tenant.pk).update(time_zone="America/New_York")
    at = datetime(2026, 3, 10, 3, 30, tzinfo=ZoneInfo("UTC"))  # the 9th, 23:30 in New York
    credit(tenant_id=world.tenant.id, amount=5, reason="late", actor=STAFF, key="late", now=at)

    def reasons(query):
        lines = world.page(f"billing/transfers?{query}").context["lines"]
        return [shown.line.transfer.reason for shown in lines]

    assert reasons("from=2026-03-09&until=2026-03-09") == ["late"]
    assert reasons("from=2026-03-10&until=2026-03-10") == []
    assert len(reasons("from=nonsense&until=2026-13-45")) == 2
    (line,) = file_of(world.page("billing/transfers.csv?from=2026-03-09&until=2026-03-09"))
    assert line["time"] == "2026-03-09 23:30:00"
    assert line["time_utc"] == "2026-03-10T03:30:00.000000Z"


# --- charges


def test_a_month_adds_up_however_it_is_grouped(world):
    world.ran(hours=2, more=0, name="one")
    world.ran(hours=3, more=0, name="two")
    charges = world.api("charges")["data"]
    for month in months(world):
        expected = sum(Decimal(c["amount"]) for c in charges if c["period"].startswith(month))
        totals = set()
        for by in ("instance", "project", "day"):
            context = world.page(f"billing/charges?month={month}&by={by}").context
            assert sum(shown.group.total for shown in context["groups"]) == context["total"]
            totals.add(context["total"])
        assert {Decimal(money_text(total)) for total in totals} == {expected}


def test_each_charge_is_explained_by_its_own_figures(world):
    world.ran(hours=2, more=0)
    for month in months(world):
        for shown in world.page(f"billing/charges?month={month}").context["rows"]:
            assert shown.high - shown.low == shown.charge.amount
            assert shown.after - shown.before == shown.ticks
            assert shown.cost_url.endswith("?tab=cost")


def test_what_is_used_and_not_charged_stands_below_the_total(world):
    world.ran(hours=0, more=300)
    month = month_of(world.now - timedelta(minutes=20))
    response = world.page(f"billing/charges?month={month}")
    assert response.context["total"] == 0
    assert 0 < response.context["estimate"] <= 245_000
    assert "Used in this month and not charged yet" in text_of(response)


def test_what_was_given_back_is_shown_and_off_the_total(world):
    instance = world.ran(hours=2, more=0)
    began = Charge.objects.filter(run__instance_id=instance.pk).first().run.started_at
    close_run(run_id=run_id(instance), at=began + HOUR * 1.5, reason="stop")
    settle(now=world.now, tenant_ids=[world.tenant.id])
    total = returned = 0
    for month in months(world):
        context = world.page(f"billing/charges?month={month}").context
        total += context["total"]
        returned += context["returned"]
        lines = file_of(world.page(f"billing/charges.csv?month={month}"))
        assert sum(Decimal(line["amount"]) for line in lines) == Decimal(
            money_text(context["total"])
        )
    assert (total, returned) == (735_000, 245_000)


def test_another_instance_and_project_can_be_left_out(world):
    one, _two = world.ran(name="one", more=0), world.ran(name="two", more=0)
    url = world.page(f"billing/charges?month={months(world)[0]}")
    shown = next(shown for shown in url.context["groups"] if shown.name == "one")
    context = world.browser().get(shown.url).context
    assert context["narrowed_to"] == "one"
    assert {row.charge.run.instance_id for row in context["rows"]} == {one.pk}
    assert context["estimate"] is None


@pytest.mark.parametrize("query", ["month=2026-99", "month=x", "by=x", "instance=ins_x", "after=x"])
def test_nonsense_in_the_address_is_no_error(world, query):
    assert world.page(f"billing/charges?{query}").status_code in (200, 302)


def test_pages_cost_the_same_queries_for_three_and_for_thirty(world):
    def queries(path):
        client = world.browser()
        url = f"/t/{world.tenant.slug}/{path}"
        client.get(url)
        with CaptureQueriesContext(connection) as seen:
            assert client.get(url).status_code == 200
        return len(seen)

    for number in range(3):
        world.ran(name=f"n{number}", hours=1, more=10)
    paths = [*PAGES, "billing/charges?by=day", "billing/charges?by=project"]
    few = {path: queries(path) for path in paths}
    for number in range(27):
        world.ran(name=f"m{number}", hours=1, more=10)
    assert {path: queries(path) for path in paths} == few
    assert max(few.values()) <= 35


# --- files


def test_the_file_of_the_ledger_is_the_ledger(world):
    world.ran(hours=2)
    lines = file_of(world.page("billing/transfers.csv"))
    assert sum(Decimal(line["change"]) for line in lines) == Decimal("999.02")
    assert lines[0]["balance_after"] == "999.02"
    assert [line["id"] for line in lines] == [row["id"] for row in world.api("transfers")["data"]]


def test_a_name_that_is_a_formula_stays_a_text(world):
    instance = world.ran(hours=1, more=0)
    evil = '=HYPERLINK("http://x","y")'
    Instance.objects.filter(pk=instance.pk).update(name=evil)
    credit(
        tenant_id=world.tenant.id, amount=5, reason="@SUM(1)", actor=STAFF, key="evil",
        now=world.now,
    )  # fmt: skip
    lines = file_of(world.page(f"billing/charges.csv?month={months(world)[0]}"))
    assert {line["instance"] for line in lines} == {"'" + evil}
    reasons = {line["reason"] for line in file_of(world.page("billing/transfers.csv"))}
    assert "'@SUM(1)" in reasons


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx"])
def test_texts_are_made_harmless_and_numbers_stay(text):
    assert harmless(text) == "'" + text
    assert harmless(Decimal("-1.25")) == Decimal("-1.25")
    assert (harmless(-3), harmless("a=b"), harmless(None)) == (-3, "a=b", None)


def test_under_asgi_a_file_is_sent_in_turn():
    """Django would first collect all of a plain iterator."""
    taken = []

    def batches():
        for number in range(3):
            taken.append(number)
            yield [(number,)]

    request = ASGIRequest({"type": "http", "method": "GET", "path": "/", "headers": []}, None)
    response = csv_answer(request, name="x.csv", header=("n",), batches=batches())
    assert response.is_async

    async def read():
        chunks = []
        async for chunk in response.streaming_content:
            chunks.append((chunk, len(taken)))
        return chunks

    assert async_to_sync(read)() == [
        (b"\xef\xbb\xbfn\r\n", 0),
        (b"0\r\n", 1),
        (b"1\r\n", 2),
        (b"2\r\n", 3),
    ]


def test_no_more_than_a_batch_is_read_at_once(world):
    """A long ledger is many short queries and no long one."""
    for number in range(3):
        credit(
            tenant_id=world.tenant.id, amount=5, reason="x", actor=STAFF, key=f"{number}x",
            now=world.now,
        )  # fmt: skip
    response = world.page("billing/transfers.csv")
    with CaptureQueriesContext(connection) as seen:
        file_of(response)
    (listing, _balances) = (query["sql"] for query in seen.captured_queries)
    assert f"LIMIT {BATCH + 1}" in listing


# --- who


def test_every_role_reads_it(world):
    world.ran(hours=1)
    for role in Role:
        user = world.member(role)
        for path in PAGES:
            assert world.page(path, user=user).status_code == 200, (role, path)


def test_strangers_and_who_has_left_find_nothing(world):
    world.ran(hours=1, name="secret-project")
    gone = world.member(Role.BILLING)
    remove_member(tenant=world.tenant, user=gone, actor=OPERATOR, now=world.now)
    for user in (gone, make_user(), owner_of(make_tenant())):
        for path in (*PAGES, *FILES):
            assert world.page(path, user=user).status_code == 404


def test_the_figures_of_others_are_in_no_sum(world):
    world.ran(hours=1)
    other = Moneyed.__new__(Moneyed)
    other.tenant = make_tenant()
    other.owner = owner_of(other.tenant)
    assert other.page("billing").context["balance"].posted == 0
    assert other.page("billing/charges").context["total"] == 0
    assert file_of(other.page("billing/transfers.csv")) == []
    instance = Instance.objects.of(world.tenant.id).get()
    foreign = group_month(
        tenant_id=other.tenant.id, period=date(2026, 1, 1), by="day", instance_id=instance.pk
    )
    assert foreign == []


# --- days and months in addresses


def test_months_and_days_are_read_from_addresses():
    march = date(2026, 3, 1)
    assert read_month("2026-02", otherwise=march) == date(2026, 2, 1)
    for nonsense in ("", "2026-2", "2026-13", "0001-01", "2026-02-01"):
        assert read_month(nonsense, otherwise=march) == march
    assert months_back(march, since=date(2026, 1, 15)) == [
        march,
        date(2026, 2, 1),
        date(2026, 1, 1),
    ]
    query = RequestFactory().get("/?from=2026-03-01&until=2026-03-01").GET
    days = read_days(query, ZoneInfo("Asia/Shanghai"))
    assert days.until - days.since == timedelta(days=1)
