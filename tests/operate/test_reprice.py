"""Many prices by a percentage: old and new before it is published, and all of them or none."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse

from billing.errors import PriceNotAllowed
from billing.models import PriceVersion
from rental.operate.prices import list_prices
from rental.operate.reprice import Change, changed, publish_changes
from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.tenants.models import AuditEvent
from tests.factories.rental import make_offer
from tests.operate.conftest import staff_with
from tests.operate.test_prices import local

pytestmark = pytest.mark.django_db
PAGE = "/admin/prices/change/"
CUT = {"percent": "-10", "rounding": "10000", "effective_at": ""}


@pytest.fixture
def offers():
    """0.49 and 4.90 on sale, 2.00 not on sale."""
    now = database_now()
    make_offer(now=now)
    make_offer("whole", price=4_900_000, now=now)
    old = make_offer("old", price=2_000_000, now=now)
    type(old).objects.filter(pk=old.pk).update(active=False)


def key_of(code):
    return f"compute/test-1/{code}/on_demand"


def now_prices():
    return {row.offer.pk: row.now.price for row in list_prices(now=database_now())}


def versions():
    return PriceVersion.objects.count()


def look_and_publish(client, sent):
    look = client.post(PAGE, sent | {"step": "look"})
    return look, client.post(PAGE, sent | {"step": "publish", "seen": look.context["seen"]})


@pytest.mark.parametrize(
    ("price", "percent", "rounding", "becomes"),
    [
        (490_000, "5", 10_000, 510_000),  # 0.5145
        (490_000, "5", 1, 514_500),
        (490_000, "-10", 10_000, 440_000),  # 0.441
        (500_000, "1", 10_000, 510_000),  # 0.505: a half goes up
        (60_000, "5", 10_000, 60_000),
        (1, "-33.34", 1, 1),
    ],
)
def test_what_a_price_becomes(price, percent, rounding, becomes):
    assert changed(price, percent=Decimal(percent), rounding=rounding) == becomes


def test_all_on_sale_are_lowered_after_a_look(staff, offers):
    look = staff.post(PAGE, CUT | {"step": "look"})

    assert [(one.before, one.after) for one in look.context["changes"]] == [
        (490_000, 440_000), (4_900_000, 4_410_000),
    ]  # fmt: skip
    assert versions() == 3

    sent = CUT | {"step": "publish", "seen": look.context["seen"]}
    assert staff.post(PAGE, sent).status_code == 302
    assert now_prices() == {"a100-80g-1t": 440_000, "whole": 4_410_000, "old": 2_000_000}
    events = AuditEvent.objects.filter(verb="price.published", actor_kind="staff")
    assert events.count() == 2


def test_sent_twice_it_lowers_once(staff, offers):
    look, _first = look_and_publish(staff, CUT)
    lowered = now_prices()

    again = staff.post(PAGE, CUT | {"step": "publish", "seen": look.context["seen"]})

    assert again.status_code == 200
    assert "Nothing was published" in again.content.decode()
    assert now_prices() == lowered


def test_only_those_that_are_ticked(staff, offers):
    page = staff.get(PAGE, {"key": key_of("whole")})
    assert [row.offer.pk for row in page.context["rows"]] == ["whole"]

    _look, done = look_and_publish(staff, CUT | {"key": [key_of("whole"), key_of("old")]})

    assert done.status_code == 302
    assert now_prices() == {"a100-80g-1t": 490_000, "whole": 4_410_000, "old": 1_800_000}


@pytest.mark.parametrize("ahead", [None, timedelta(hours=23)])
def test_a_rise_finds_its_earliest_moment_filled_in(staff, offers, ahead):
    sent = CUT | {"percent": "5", "effective_at": local(database_now() + ahead) if ahead else ""}

    early = staff.post(PAGE, sent | {"step": "look"})

    assert early.context["form"].errors["effective_at"]
    assert early.context["changes"] == []
    filled = early.context["form"]["effective_at"].value()
    _look, done = look_and_publish(staff, sent | {"effective_at": filled})
    assert done.status_code == 302
    assert [row.next.price for row in list_prices(now=database_now()) if row.next] == [
        510_000, 5_150_000,
    ]  # fmt: skip


def test_one_that_would_be_refused_keeps_all_from_being_published(staff, offers):
    day = local(database_now() + timedelta(hours=25))
    alone = "/admin/prices/whole/on_demand/"
    assert (
        staff.post(alone, {"price": "5", "effective_at": day, "step": "publish"}).status_code == 302
    )
    before = versions()

    look, refused = look_and_publish(staff, CUT)

    faults = {one.priced.offer.pk: bool(one.fault) for one in look.context["changes"]}
    assert faults == {"a100-80g-1t": False, "whole": True}
    assert 'value="publish"' not in look.content.decode()
    assert refused.status_code == 200
    assert versions() == before


def test_what_the_service_refuses_at_the_last_moment_undoes_the_others(offers):
    now = database_now()
    rows = [row for row in list_prices(now=now) if row.offer.active]
    wanted = {"a100-80g-1t": 440_000, "whole": 5_000_000}  # the second is a rise at once
    changes = [
        Change(priced=row, before=row.before, after=wanted[row.offer.pk], fault="") for row in rows
    ]

    with pytest.raises(PriceNotAllowed):
        publish_changes(changes, begins_at=now, actor=Actor(kind="staff", id="usr_1"), now=now)

    assert versions() == 3
    assert now_prices() == {"a100-80g-1t": 490_000, "whole": 4_900_000, "old": 2_000_000}


@pytest.mark.parametrize(
    ("field", "value"),
    [("percent", "0"), ("percent", "-100"), ("percent", "x"), ("percent", ""), ("rounding", "7")],
)
def test_nonsense_is_said_beside_the_field(staff, offers, field, value):
    page = staff.post(PAGE, CUT | {field: value, "step": "publish"})
    assert page.status_code == 200
    assert page.context["form"].errors[field]
    assert versions() == 3


def test_a_price_never_falls_to_nothing_by_rounding(staff, offers):
    look = staff.post(PAGE, CUT | {"percent": "-99", "step": "look"})
    faults = [bool(one.fault) for one in look.context["changes"]]
    assert faults == [True, False]


def test_who_may_only_read_changes_nothing_and_ticks_nothing(offers):
    client = staff_with("billing:read")
    assert client.post(PAGE, CUT | {"step": "publish"}).status_code == 403
    assert 'name="key"' not in client.get(reverse("operate:prices")).content.decode()
    assert versions() == 3
