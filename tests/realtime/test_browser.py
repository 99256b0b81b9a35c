"""live.js and charts.js in Chromium, on real pages of a real web process."""

import time

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from playwright.sync_api import expect, sync_playwright

from rental.instances.models import Instance
from rental.instances.samples.points import Point
from rental.instances.samples.recent import recent
from rental.records.ids import to_text
from tests.factories.rental import (
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    make_running,
    order,
)
from tests.factories.tenants import owner_of
from tests.gateway.eventually import eventually
from tests.realtime.conftest import sign_in

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.xdist_group("live-browser"),
]

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium():
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright keeps an event loop in this thread, which Django would take for a server's.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def tenant(transactional_db):
    make_offer()
    make_image()
    return make_rich_tenant()


class Tab:
    """One page, signed in, that keeps what it complained of."""

    def __init__(self, browser, web, session):
        self.context = browser.new_context(base_url=f"http://{web.address}", locale="en")
        host = web.address.split(":")[0]
        cookies = {settings.SESSION_COOKIE_NAME: session, "django_language": "en"}
        self.context.add_cookies(
            [{"name": n, "value": v, "domain": host, "path": "/"} for n, v in cookies.items()]
        )
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda m: m.type == "error" and self.complaints.append(m.text))


@pytest.fixture
def tab(web, tenant, chromium):
    session = sign_in(owner_of(tenant))
    opened = Tab(chromium, web, session)
    opened.session = session
    opened.page.set_default_timeout(15_000)
    yield opened
    opened.context.close()


def rename(instance, name):
    Instance.objects.filter(pk=instance.pk).update(name=name)


def row_of(tab, instance):
    return tab.page.locator(f"#row-{to_text('ins', instance.pk)}")


def test_a_row_changes_by_itself(tab, web, tenant):
    (instance,) = order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances")
    eventually(lambda: web.hub and web.hub.sockets)

    began = time.monotonic()
    rename(instance, "changed-elsewhere")

    expect(row_of(tab, instance)).to_contain_text("changed-elsewhere", timeout=3_000)
    assert time.monotonic() - began < 3
    assert tab.page.locator("#live-banner").is_hidden()
    assert tab.complaints == []


def test_a_list_shows_what_was_ordered_elsewhere_and_keeps_its_marks(tab, web, tenant):
    (first,) = order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances")
    mark = tab.page.locator(f"#mark-{to_text('ins', first.pk)}")
    mark.check()
    eventually(lambda: web.hub and web.hub.sockets)

    (second,) = order(tenant)

    expect(row_of(tab, second)).to_be_visible(timeout=3_000)
    expect(mark).to_be_checked()
    assert tab.page.locator("[data-marked-words]").inner_text() == "1 marked"
    assert tab.complaints == []


def test_the_overview_shows_the_first_instance_by_itself(tab, web, tenant):
    tab.page.goto(f"/t/{tenant.slug}/")
    eventually(lambda: web.hub and web.hub.sockets)

    (instance,) = order(tenant)

    link = tab.page.locator(f"#overview-now a[href$='{to_text('ins', instance.pk)}']").first
    expect(link).to_be_visible(timeout=3_000)
    assert tab.complaints == []


def test_a_row_of_another_page_costs_a_list_few_fetches(tab, web, tenant):
    order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances?word=failed")
    eventually(lambda: web.hub and web.hub.sockets)
    fetches = []
    tab.page.on("request", lambda request: "/instances?" in request.url and fetches.append(1))

    (unseen,) = order(tenant)
    for number in range(30):
        rename(unseen, f"name-{number}")
    eventually(lambda: tab.page.wait_for_timeout(50) or fetches)
    tab.page.wait_for_timeout(1_500)  # as long as the page gathers, and more
    assert len(fetches) <= 6  # of 31 changes; each costs one where the machine is slow


def test_many_changes_cost_few_fetches_and_end_with_the_newest(tab, web, tenant):
    (instance,) = order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances")
    eventually(lambda: web.hub and web.hub.sockets)
    fetches = []
    tab.page.on("request", lambda request: request.url.endswith("/row") and fetches.append(1))

    for number in range(60):
        rename(instance, f"name-{number}")

    expect(row_of(tab, instance)).to_contain_text("name-59", timeout=8_000)
    assert len(fetches) < 30


def test_with_websockets_blocked_the_page_asks_and_says_so(tab, tenant):
    tab.page.add_init_script("delete window.WebSocket")
    (instance,) = order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances")
    expect(tab.page.locator("#live-banner")).to_be_visible(timeout=6_000)

    rename(instance, "changed-elsewhere")

    expect(row_of(tab, instance)).to_contain_text("changed-elsewhere", timeout=9_000)
    assert tab.complaints == []


def test_after_a_restart_the_page_is_back_and_has_what_it_missed(tab, web, tenant):
    (instance,) = order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances")
    eventually(lambda: web.hub and web.hub.sockets)

    web.restart()
    rename(instance, "changed-elsewhere")

    expect(row_of(tab, instance)).to_contain_text("changed-elsewhere", timeout=15_000)
    eventually(lambda: web.hub and web.hub.sockets, timeout=30)
    expect(tab.page.locator("#live-banner")).to_be_hidden()


def test_without_valkey_the_page_says_so_and_rows_go_on(relay, tab, web, tenant):
    (instance,) = order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances")
    eventually(lambda: web.hub and web.hub.sockets)
    expect(tab.page.locator("#live-banner")).to_be_hidden()

    relay.cut()
    expect(tab.page.locator("#live-banner")).to_be_visible(timeout=20_000)
    rename(instance, "changed-elsewhere")
    expect(row_of(tab, instance)).to_contain_text("changed-elsewhere", timeout=3_000)

    relay.mend()
    expect(tab.page.locator("#live-banner")).to_be_hidden(timeout=20_000)
    assert tab.complaints == []


def test_after_the_session_ended_the_page_goes_to_the_log_in(tab, web, tenant):
    order(tenant)
    tab.page.goto(f"/t/{tenant.slug}/instances")
    eventually(lambda: web.hub and web.hub.sockets)

    Session.objects.filter(pk=tab.session).delete()

    tab.page.wait_for_url("**/accounts/login/**", timeout=9_000)
    assert f"next=/t/{tenant.slug}/instances" in tab.page.url


def test_charts_draw_the_last_hour_and_take_new_points(tab, web, tenant):
    make_node()
    instance = make_running(tenant)
    now = int(time.time())
    points = [Point(now - ago, 40, 2048, 100, 60) for ago in range(600, 0, -10)]
    recent().write([(instance.pk, point) for point in points])
    tab.page.goto(f"/t/{tenant.slug}/instances/{to_text('ins', instance.pk)}?tab=charts")
    latest = tab.page.locator('[data-chart="util"] [data-now]')
    expect(latest).to_have_text("40 %")
    expect(tab.page.locator(".uplot")).to_have_count(4)
    eventually(lambda: web.hub and web.hub._by_chart)

    recent().write([(instance.pk, Point(now + 1, 83, 4096, 200, 71))])

    expect(latest).to_have_text("83 %", timeout=3_000)
    table = tab.page.locator("[data-charts-table]")
    expect(table.locator('[data-figures="vram"] [data-last]')).to_have_text("4.0 GiB")
    expect(table.locator('[data-figures="util"] [data-highest]')).to_have_text("83 %")
    tab.page.locator('[data-minutes="1440"]').click()
    expect(tab.page.locator("[data-charts-state]")).to_contain_text("No minute is complete yet")
    assert tab.complaints == []
