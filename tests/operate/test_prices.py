"""Publishing prices: the 24-hour rule, whom it reaches, once, audited."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from billing.models import PriceVersion
from rental.operate.prices import earliest_rise, list_prices, reach_of
from rental.records.clock import database_now
from rental.tenants.models import AuditEvent
from tests.factories.rental import (
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    make_running,
    order,
)
from tests.operate.conftest import staff_with

pytestmark = pytest.mark.django_db
KEY = "compute/test-1/a100-80g-1t/on_demand"
PAGE = "/admin/prices/a100-80g-1t/on_demand/"


@pytest.fixture
def offer():
    return make_offer(now=database_now())


def local(at) -> str:
    """What a browser's field for a local time sends, in the deployment's zone."""
    from zoneinfo import ZoneInfo

    return timezone.localtime(at, ZoneInfo("Asia/Shanghai")).strftime("%Y-%m-%dT%H:%M")


def test_a_rise_that_is_too_early_finds_its_earliest_moment_filled_in(staff, offer):
    response = staff.post(PAGE, {"price": "0.50", "effective_at": "", "step": "look"})

    filled = response.context["form"]["effective_at"].value()
    again = staff.post(PAGE, {"price": "0.50", "effective_at": filled, "step": "publish"})

    assert again.status_code == 302
    (row,) = list_prices(now=database_now())
    assert row.next.price == 500_000
    assert local(row.next.during.lower) == filled


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        ("2026-12-01T08:00:00.5", "2026-12-02T08:15"),
        ("2026-12-01T08:04:59", "2026-12-02T08:15"),
        ("2026-12-01T08:05:00", "2026-12-02T08:30"),
        ("2026-12-01T23:55:00", "2026-12-03T00:15"),
    ],
)
def test_the_earliest_moment_leaves_ten_minutes_to_publish(now, moment):
    at = earliest_rise(now=datetime.fromisoformat(f"{now}+00:00"))
    assert at == datetime.fromisoformat(f"{moment}+00:00")


def versions():
    return PriceVersion.objects.filter(price_key=KEY).count()


def test_the_list_shows_the_price_in_force_and_the_next_one(offer):
    now = database_now()
    (row,) = list_prices(now=now)
    assert (row.key, row.now.price, row.next, row.running) == (KEY, 490_000, None, 0)


def test_a_cut_holds_at_once_after_a_look(staff, offer):
    sent = {"price": "0.45", "effective_at": ""}

    look = staff.post(PAGE, sent | {"step": "look"})
    assert (look.context["new"].before, look.context["new"].change) == (490_000, -40_000)
    assert versions() == 1

    assert staff.post(PAGE, sent | {"step": "publish"}).status_code == 302
    staff.post(PAGE, sent | {"step": "publish"})  # sent twice

    assert versions() == 2
    (row,) = list_prices(now=database_now())
    assert row.now.price == 450_000
    event = AuditEvent.objects.filter(verb="price.published").latest("at")
    assert (event.actor_kind, event.before, event.after["price"]) == (
        "staff", {"price": 490_000}, 450_000,
    )  # fmt: skip


@pytest.mark.parametrize("step", ["look", "publish"])
@pytest.mark.parametrize(
    ("price", "ahead", "field"),
    [
        ("0.50", None, "effective_at"),  # a rise at once
        ("0.50", timedelta(hours=23, minutes=58), "effective_at"),
        ("0.45", timedelta(hours=-1), "effective_at"),  # the past
        ("0.49", timedelta(hours=30), "price"),  # the price that it is
        ("-1", None, "price"),
        ("x", None, "price"),
        ("0.0000001", None, "price"),
    ],
)
def test_what_the_service_refuses_is_said_beside_the_field(staff, offer, price, ahead, field, step):
    at = local(database_now() + ahead) if ahead else ""

    response = staff.post(PAGE, {"price": price, "effective_at": at, "step": step})

    assert response.status_code == 200
    assert response.context["form"].errors[field]
    assert response.context["new"] is None
    assert versions() == 1


def test_a_rise_a_day_ahead_is_announced_and_nothing_goes_before_it(staff, offer):
    day = database_now() + timedelta(hours=24, minutes=2)
    sent = {"price": "0.55", "effective_at": local(day), "step": "publish"}
    assert staff.post(PAGE, sent).status_code == 302

    (row,) = list_prices(now=database_now())
    assert (row.now.price, row.next.price) == (490_000, 550_000)
    assert row.next.during.lower == day.replace(second=0, microsecond=0)

    again = staff.post(PAGE, {"price": "0.40", "effective_at": "", "step": "publish"})
    assert again.context["form"].errors["effective_at"]
    assert versions() == 2


def test_a_first_price_needs_no_notice(staff, offer):
    type(offer).objects.update(markets=["on_demand", "spot"])
    page = "/admin/prices/a100-80g-1t/spot/"
    assert staff.get(page).context["priced"].now is None
    assert staff.post(page, {"price": "0.1", "step": "publish"}).status_code == 302
    assert [row.now.price for row in list_prices(now=database_now())] == [490_000, 100_000]


def test_whom_a_price_reaches(offer):
    make_image()
    node, tenant, other = make_node(), make_rich_tenant(), make_rich_tenant()
    now = database_now()
    make_running(tenant, now=now)
    order(other, now=now, count=2)
    node.refresh_from_db()
    reach = reach_of(KEY)
    assert (reach.running, reach.resting, reach.tenants) == (1, 2, 2)
    assert list_prices(now=now)[0].running == 1


def test_a_market_that_the_offer_is_not_sold_on_is_not_found(staff, offer):
    assert staff.get("/admin/prices/a100-80g-1t/spot/").status_code == 404
    assert staff.get("/admin/prices/nothing/on_demand/").status_code == 404


def test_who_may_only_read_publishes_nothing(offer):
    client = staff_with("billing:read", "billing:credit", "rental:write")
    assert client.post(PAGE, {"price": "0.1", "step": "publish"}).status_code == 403
    assert PAGE not in client.get(reverse("operate:prices")).content.decode()
    assert versions() == 1


def test_the_list_asks_no_more_for_more_offers(staff, offer):
    def queries():
        with CaptureQueriesContext(connection) as asked:
            assert staff.get(reverse("operate:prices")).status_code == 200
        return len(asked)

    first = queries()
    for number in range(5):
        make_offer(f"o{number}", now=database_now())
    assert queries() == first <= 10
