"""Occupancy and revenue: exact, from charges less reversals, and equal to the ledger."""

import csv
import io
from datetime import timedelta
from fractions import Fraction

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.models import Transfer
from billing.services.runs import close_run
from billing.services.settle import settle
from rental.instances.models import Instance
from rental.operate.occupancy import report
from rental.operate.words import card_hours, exact_money, money, percent
from scheduler.models import Gpu, Node
from tests.factories.billing import NOON, make_price, make_run
from tests.factories.billing import report as meter
from tests.factories.rental import make_image, make_node, make_offer, make_rich_tenant

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
A100 = "A100 80 GiB"


def rent(tenant, node, offer, *, hours=2, at=NOON):
    """An instance that ran for some hours, proven and settled."""
    key = f"compute/test-1/{offer.code}/on_demand"
    instance = Instance.objects.create(
        tenant=tenant,
        project=tenant.projects.get(),
        name="a",
        slug=f"a-{Instance.objects.count()}",
        state="running",
        state_at=at,
        offer=offer,
        image=make_image(code=f"i{Instance.objects.count()}"),
        price_key=key,
        region="test-1",
        disk_mib=1,
        created_at=at,
    )
    run = make_run(tenant, at=at, node=node.pk, instance=instance.pk, key=key)
    meter(run, (0, 600 * hours))
    return run


@pytest.fixture
def house():
    """Two cards on one node, enrolled a day ago; a tenth at 0.49 and a whole card at 4.90."""
    node = make_node(gpus=2, now=NOON)
    Node.objects.update(created_at=NOON - timedelta(days=1))
    tenth = make_offer(now=NOON - timedelta(days=2))
    whole = make_offer("a100-80g", tenths=10, price=4_900_000, now=NOON - timedelta(days=2))
    return node, make_rich_tenant(now=NOON), tenth, whole


def test_hours_and_revenue_are_those_of_the_charges(house):
    node, tenant, tenth, whole = house
    rent(tenant, node, tenth)
    rent(tenant, node, whole)
    settle(now=NOON + 2 * HOUR)

    found = report(since=NOON - timedelta(days=1), until=NOON + 3 * HOUR)

    (line,) = found.nodes
    assert (line.node, line.model, line.cards, line.idle) == (node.name, A100, 2, 2)
    assert line.revenue == 2 * 490_000 + 2 * 4_900_000
    assert line.sold == 2 * 600 * 1 + 2 * 600 * 10  # tenth-ticks
    assert line.available == 2 * 27 * 6000  # two cards for 27 hours
    assert line.per_sold == 4_900_000  # a card-hour costs the same in tenths
    assert line.per_available == 199_630  # 10.78 / 54, rounded half up
    assert (found.total.revenue, found.total.sold) == (line.revenue, line.sold)
    assert [one.model for one in found.models] == [A100]


def test_what_is_reversed_is_taken_off_and_the_total_is_what_revenue_moved_by(house):
    node, tenant, tenth, _whole = house
    run = rent(tenant, node, tenth)
    settle(now=NOON + 2 * HOUR)
    close_run(run_id=run.id, at=NOON + HOUR, reason="stop")  # known late: an hour is given back
    settle(now=NOON + 2 * HOUR + timedelta(minutes=1))

    found = report(since=NOON, until=NOON + 3 * HOUR)

    moved = Transfer.objects.filter(credit__kind="revenue").aggregate(n=Sum("amount"))["n"]
    back = Transfer.objects.filter(debit__kind="revenue").aggregate(n=Sum("amount"))["n"]
    assert found.total.revenue == moved - back == 490_000
    assert found.total.sold == 600


def test_only_what_was_booked_in_the_period_counts(house):
    node, tenant, tenth, _whole = house
    rent(tenant, node, tenth)
    settle(now=NOON + 2 * HOUR)

    assert report(since=NOON, until=NOON + 2 * HOUR).total.revenue == 0  # half-open
    assert report(since=NOON + 2 * HOUR, until=NOON + 3 * HOUR).total.revenue == 980_000


def test_a_mig_instance_counts_as_its_part_of_the_memory(house):
    node, tenant, _tenth, _whole = house
    mig = make_offer(
        "mig", tenths=9, slice="mig", isolation="hardware", vram_mib=20480,
        now=NOON - timedelta(days=2),
    )  # fmt: skip
    rent(tenant, node, mig, hours=1)
    settle(now=NOON + HOUR)
    assert report(since=NOON, until=NOON + 2 * HOUR).total.sold == Fraction(600 * 10, 4)


def test_a_missing_card_is_not_there_and_a_sick_one_is_not_idle(house):
    gpus = Gpu.objects.order_by("index")
    Gpu.objects.filter(pk=gpus[0].pk).update(health="missing")
    Gpu.objects.filter(pk=gpus[1].pk).update(health="unhealthy")
    total = report(since=NOON, until=NOON + HOUR).total
    assert (total.cards, total.idle, total.available) == (1, 0, 6000)


def test_revenue_of_nothing_we_know_still_counts():
    make_price(3_600_000)
    meter(make_run(make_rich_tenant(now=NOON)), (0, 600))
    settle(now=NOON + HOUR)
    found = report(since=NOON, until=NOON + 2 * HOUR)
    assert found.total.revenue == 3_600_000
    assert [(one.node, one.model, one.sold) for one in found.nodes] == [("", "", 0)]


def test_the_page_and_the_csv_ask_no_more_for_more_of_everything(staff, house):
    node, tenant, tenth, _whole = house

    def queries(name):
        with CaptureQueriesContext(connection) as asked:
            assert staff.get(reverse(f"operate:{name}"), {"period": "week"}).status_code == 200
        return len(asked)

    before = [queries("occupancy"), queries("occupancy_csv")]
    for _ in range(3):
        rent(tenant, make_node(gpus=3, now=NOON), tenth)
    settle(now=NOON + 2 * HOUR)
    assert [queries("occupancy"), queries("occupancy_csv")] == before
    assert max(before) <= 10


def test_the_csv_has_every_decimal_place(staff, house):
    response = staff.get(reverse("operate:occupancy_csv"), {"period": "nonsense"})
    assert response["Content-Disposition"] == 'attachment; filename="occupancy-day.csv"'
    (row,) = csv.DictReader(io.StringIO(response.content.decode()))
    assert (row["gpu_model"], row["cards"], row["revenue"]) == (A100, "2", "0.000000")
    assert row["revenue_per_card_hour_sold"] == ""


@pytest.mark.parametrize(
    ("amount", "short", "exact"),
    [
        (0, "0.00", "0.00"),
        (1, "0.000001", "0.000001"),
        (9_999, "0.009999", "0.009999"),
        (10_000, "0.01", "0.01"),
        (4_905_000, "4.91", "4.905"),
        (1_234_567_890_000, "1,234,567.89", "1,234,567.89"),
        (-1_500_000, "-1.50", "-1.50"),
        (-1, "-0.000001", "-0.000001"),
    ],
)
def test_amounts_in_words(amount, short, exact):
    assert (money(amount), exact_money(amount)) == (short, exact)


def test_hours_and_parts_in_words():
    assert card_hours(Fraction(6000 * 1234)) == "1,234.0"
    assert card_hours(Fraction(300)) == "0.1"  # 0.05: half goes up
    assert (percent(1, 3), percent(1, 0)) == ("33 %", "–")
