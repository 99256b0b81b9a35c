"""The overview: the API's figures, what comes, and a fixed number of queries."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Run, Wallet
from billing.services.settle import settle
from rental.instances.models import Instance
from rental.instances.notices import level_balance_notices
from rental.tenants.models import Membership, Role
from rental.tenants.services import remove_member
from rental.web.amounts import money_exact
from rental.web.pages.overview import MonthShown
from tests.factories.billing import report
from tests.factories.rental import make_rich_tenant
from tests.factories.tenants import OPERATOR, make_tenant, make_user, owner_of
from tests.web.moneyed import Moneyed
from tests.web.rented import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return Moneyed(gpus=4)


def now_of(response):
    return response.context["now"]


# --- figures


def test_the_balance_is_the_one_of_the_api(world):
    world.ran(hours=2, more=300)

    balance = now_of(world.page()).balance
    shown = world.api("balance")

    assert (balance.posted, balance.unposted) == (999_020_000, 245_000)
    assert shown["posted"] == "999.02"
    assert shown["unposted"] == "0.245"
    assert shown["available"] == "998.775"
    assert (balance.available, balance.burn_per_hour) == (998_775_000, 490_000)
    text = text_of(world.page())
    assert "¥998.78" in text
    assert "Ledger ¥999.02, less ¥0.25 not charged yet; ¥0.49 held" in text
    assert "¥0.49/h" in text


def test_the_end_of_the_money_is_the_row_that_stops_instances(world):
    world.ran()
    Wallet.objects.filter(tenant=world.tenant).update(exhausts_at=world.now + timedelta(hours=17))

    response = world.page()

    assert now_of(response).money.balance.exhausts_at == world.now + timedelta(hours=17)
    assert 17 * 3600 - 60 < now_of(response).money.left_s <= 17 * 3600
    assert "The balance runs out in 16 h 59 min" in text_of(response)


def test_money_that_has_ended_says_so(world):
    world.ran()
    Wallet.objects.filter(tenant=world.tenant).update(exhausts_at=world.now - timedelta(seconds=1))
    assert "The balance is used up." in text_of(world.page())


def test_a_debt_stands_above_everything(world):
    instance = world.ran(hours=1, more=0)
    Wallet.objects.filter(tenant=world.tenant).update(posted=10_000)  # more is owed than is there
    run = Run.objects.get(instance_id=instance.pk)
    report(run, (0, 1200), at=world.now + timedelta(hours=1))
    settle(now=world.now + timedelta(hours=1))

    response = world.page()

    assert now_of(response).money.owed > 0
    owed = money_exact(now_of(response).money.owed, "CNY")
    assert f"{owed} is owed: usage that the balance did not cover." in text_of(response)


@pytest.mark.parametrize(
    ("spent", "before", "percent", "text"),
    [
        (126, 100, 26, "+26 %"),
        (50, 100, -50, "\N{MINUS SIGN}50 %"),
        (2, 3, -33, "\N{MINUS SIGN}33 %"),
        (5, 0, None, "+0 %"),
    ],
)
def test_a_month_is_compared_in_whole_percent(spent, before, percent, text):
    spending = type("Spending", (), {"spent": spent, "before": before})
    shown = MonthShown(spending=spending)
    assert (shown.percent, shown.percent_text) == (percent, text)


def test_the_month_so_far_is_charged_and_used(world):
    world.ran(hours=0, more=300)
    month = world.page().context["month"]
    assert month.spending.spent == 245_000
    fragment = world.page("overview/month", htmx=True)
    assert fragment.context["month"].spending.spent == 245_000


# --- what is there


def test_what_runs_is_listed_with_its_price_and_what_is_stopped_is_not(world):
    running = world.ran(name="trainer")
    Instance.objects.filter(pk=world.ran(name="old").pk).update(state="stopped")

    now = now_of(world.page())

    assert [shown.row.instance.name for shown in now.instances] == ["trainer"]
    assert now.instances[0].row.price == 490_000
    assert now.instances[0].url == world.url(running)
    assert (now.live, now.more, now.total) == (1, 0, 2)


def test_a_fresh_tenant_is_shown_the_first_step():
    tenant = make_rich_tenant()
    world = Moneyed.__new__(Moneyed)
    world.tenant, world.owner = tenant, owner_of(tenant)
    response = world.page()
    text = text_of(response)
    assert "Launch your first instance" in text
    assert "First steps" in text
    assert response.status_code == 200


def test_who_had_instances_is_not_shown_the_first_step_again(world):
    released = Instance.objects.filter(pk=world.ran().pk)
    released.update(state="deleted", desired_state="deleted", deleted_at=world.now)

    response = world.page()

    assert (now_of(response).total, now_of(response).had_any) == (0, True)
    assert "No instances" in text_of(response)
    assert "Launch your first instance" not in text_of(response)


def test_who_may_launch_nothing_is_not_told_to():
    tenant = make_rich_tenant()
    world = Moneyed.__new__(Moneyed)
    world.tenant, world.owner = tenant, owner_of(tenant)

    text = text_of(world.page(user=world.member(Role.VIEWER)))

    assert "No instances" in text
    assert "Launch your first instance" not in text


def test_what_comes_is_said_once_for_all_that_it_happens_to(world):
    for name in ("a", "b", "c", "d"):
        world.ran(name=name)
    Wallet.objects.filter(tenant=world.tenant).update(exhausts_at=world.now + timedelta(hours=30))
    level_balance_notices(now=world.now)
    timed = Instance.objects.of(world.tenant.id).get(name="a")
    timed.auto_stop_at = world.now + timedelta(hours=2)
    timed.save(update_fields=["auto_stop_at"])

    coming = now_of(world.page()).coming

    assert [one.at for one in coming] == [
        world.now + timedelta(hours=2),
        world.now + timedelta(hours=30),
    ]
    assert coming[0].names == "a"
    assert coming[1].words == "The balance is used up: 4 instances stop and keep their disks."
    assert coming[1].names == "a, b, c and 1 more"


def test_a_timer_of_an_earlier_session_stops_nothing(world):
    instance = world.ran(name="a")
    Instance.objects.filter(pk=instance.pk).update(
        auto_stop_at=world.now + timedelta(hours=2), session=2, timers_session=1
    )
    assert now_of(world.page()).coming == []


def test_the_audit_log_is_shown_to_whom_it_is_open_and_commands_to_all(world):
    world.ran(name="trainer")
    owner = now_of(world.page()).happened
    viewer = now_of(world.page(user=world.member(Role.VIEWER))).happened
    assert [one.what for one in owner][:2] == ["Credit added", "Instance ordered"]
    assert [(one.what, one.name, one.who) for one in viewer] == [("create", "trainer", "")]


# --- cost and access


def queries(world, path, user=None):
    client = world.browser(user)
    client.get(f"/t/{world.tenant.slug}/{path}")
    with CaptureQueriesContext(connection) as seen:
        assert client.get(f"/t/{world.tenant.slug}/{path}").status_code == 200
    return len(seen)


@pytest.mark.parametrize("path", ["", "overview/now"])
def test_thirty_instances_cost_as_many_queries_as_three(world, path):
    for number in range(3):
        world.ran(name=f"n{number}", hours=1, more=10)
    three = queries(world, path)
    for number in range(27):
        world.ran(name=f"m{number}", hours=1, more=10)
    assert Instance.objects.of(world.tenant.id).count() == 30
    assert queries(world, path) <= three
    assert three <= 40


def test_every_role_sees_it_and_only_who_may_launch_is_offered_to(world):
    world.ran()
    for role in Role:
        user = world.member(role)
        response = world.page(user=user)
        assert response.status_code == 200, role
        offers = f'href="/t/{world.tenant.slug}/launch"' in response.content.decode()
        may = role in (Role.OWNER, Role.ADMIN, Role.DEVELOPER)
        assert offers == may, role


def test_strangers_and_who_has_left_find_nothing(world):
    world.ran(name="secret-project")
    gone = world.member(Role.ADMIN)
    remove_member(tenant=world.tenant, user=gone, actor=OPERATOR, now=world.now)
    for user in (gone, make_user(), owner_of(make_tenant())):
        for path in ("", "overview/now", "overview/month"):
            response = world.page(path, user=user)
            assert response.status_code == 404
            assert "secret-project" not in response.content.decode()
    assert Membership.objects.of(world.tenant.id).count() == 1


def test_the_fragment_replaces_itself_and_tells_how(world):
    world.ran()
    html = world.page("overview/now", htmx=True).content.decode()
    assert html.count('id="overview-now"') == 1
    assert 'data-live="*"' in html
    assert 'hx-trigger="live, every 30s"' in html
    assert "<h1" not in html
