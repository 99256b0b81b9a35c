"""The list of instances: what it shows, filters, pages, and what it costs to read."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rental.instances import passes
from rental.instances.models import Instance
from rental.records.ids import to_text
from rental.tenants.models import Project, Role
from rental.tenants.services import remove_member
from rental.web.pages.instances import listing
from tests.factories.rental import fresh, make_offer, order
from tests.factories.tenants import OPERATOR, make_tenant, make_user, owner_of
from tests.web.rented import Rented, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def rented():
    return Rented()


def names(response):
    return [shown.instance.name for shown in response.context["rows"]]


def test_a_running_instance_shows_how_to_reach_it_and_what_it_costs(rented):
    instance = rented.running(name="brave")

    page = rented.browser().get(rented.home)

    text = text_of(page)
    assert "brave" in text
    assert 'data-copy="ssh -p 22022 root@127.0.0.1"' in page.content.decode()
    assert "¥0.49/h" in text
    (shown,) = page.context["rows"]
    assert [button.word for button in shown.buttons] == ["stop", "restart", "release"]
    assert f'data-version="{fresh(instance).version}"' in page.content.decode()


def test_what_waits_says_why_and_which_place_it_has(rented):
    make_offer("a100-80g", tenths=10, price=4_900_000, now=rented.now)
    for name in ("a", "b"):
        rented.running(name=name, offer="a100-80g")
    for name in ("c", "d"):
        rented.queued(name=name, offer="a100-80g")
    passes.place(now=rented.now)

    rows = {s.instance.name: s for s in rented.browser().get(rented.home).context["rows"]}

    assert rows["c"].why == "1 node has no free GPU; place 1 in the queue"
    assert rows["d"].why == "1 node has no free GPU; place 2 in the queue"
    assert [button.word for button in rows["d"].buttons] == ["cancel", "release"]


def test_filters_are_in_the_address_and_can_be_combined(rented):
    rented.running(name="brave")
    rented.failed(name="broken")
    other = Project.objects.create(tenant=rented.tenant, slug="x", name="Other")
    rented.queued(name="bravo", project_id=other.id)
    browser = rented.browser()

    assert names(browser.get(rented.home)) == ["bravo", "broken", "brave"]
    assert names(browser.get(f"{rented.home}?word=running")) == ["brave"]
    assert names(browser.get(f"{rented.home}?q=BRAV")) == ["bravo", "brave"]
    project = to_text("prj", other.id)
    assert names(browser.get(f"{rented.home}?q=brav&project={project}")) == ["bravo"]
    assert names(browser.get(f"{rented.home}?sort=name")) == ["brave", "bravo", "broken"]
    assert names(browser.get(f"{rented.home}?word=nonsense&project=x&sort=y")) == [
        "bravo",
        "broken",
        "brave",
    ]


def test_what_is_deleted_is_under_its_filter_alone(rented):
    instance = rented.queued(name="gone")
    rented.command(rented.browser(htmx=True), instance, "release")
    browser = rented.browser()

    assert names(browser.get(rented.home)) == []
    assert "No instances yet" in text_of(browser.get(rented.home))
    assert names(browser.get(f"{rented.home}?word=deleted")) == ["gone"]
    assert "No instance matches" in text_of(browser.get(f"{rented.home}?q=nothing"))


def test_an_id_finds_its_instance(rented):
    instance = rented.queued(name="one")
    rented.queued(name="two")

    found = rented.browser().get(rented.home, {"q": to_text("ins", instance.pk)})

    assert names(found) == ["one"]


def test_pages_follow_each_other_and_a_foreign_cursor_begins_anew(rented, monkeypatch):
    monkeypatch.setattr(listing, "PAGE_ROWS", 2)
    for number in range(5):
        rented.queued(name=f"n{number}")
    browser, seen, query = rented.browser(), [], ""
    while True:
        page = browser.get(f"{rented.home}{query}")
        seen += names(page)
        query = page.context["next"]
        if not query:
            break
    assert seen == ["n4", "n3", "n2", "n1", "n0"]

    again = browser.get(f"{rented.home}?after=nonsense&q=n")
    assert (again.status_code, again["Location"]) == (302, f"{rented.home}?q=n")


def queries_of(get):
    with CaptureQueriesContext(connection) as seen:
        assert get().status_code == 200
    return len(seen)


def test_the_list_costs_the_same_for_3_rows_and_for_30(rented):
    rented.running(name="up")
    rented.failed(name="down")
    rented.queued(name="waits")
    browser = rented.browser()
    browser.get(rented.home)  # the session writes down the tenant once

    few = queries_of(lambda: browser.get(rented.home))
    for number in range(3):
        order(rented.tenant, count=9, name=f"many{number}", now=rented.now)
    many = queries_of(lambda: browser.get(rented.home))

    assert len(browser.get(rented.home).context["rows"]) == 30
    # Three are the queue, which a process reads once in SCHEDULER_STOCK_KEPT (never kept in tests).
    assert (few, many) == (19, 19)


def test_a_row_is_read_alone_and_keeps_its_mark(rented):
    instance = rented.running(name="brave")
    browser, text = rented.browser(htmx=True), to_text("ins", instance.pk)

    plain = browser.get(rented.url(instance, "/row")).content.decode()
    marked = browser.get(rented.url(instance, "/row"), {"id": text}).content.decode()

    assert plain.strip().startswith(f'<tr id="row-{text}"')
    assert (" checked" in plain, " checked" in marked) == (False, True)
    assert f'data-live="{text}"' in plain


def test_numbers_beside_the_words_follow_what_happens(rented):
    instance = rented.queued(name="brave")
    browser = rented.browser()
    assert (
        '<span id="count-waiting" class="tabular text-muted">1</span>'
        in browser.get(rented.home).content.decode()
    )
    Instance.objects.filter(pk=instance.pk).update(state="stopped")

    with CaptureQueriesContext(connection) as caught:
        answer = browser.get(f"{rented.home}/counts")

    html = answer.content.decode()
    assert '<span id="count-all" class="tabular text-muted" hx-swap-oob="true">1<' in html
    assert 'id="count-waiting" class="tabular text-muted" data-none hx-swap-oob="true">0<' in html
    assert 'id="count-stopped" class="tabular text-muted" hx-swap-oob="true">1<' in html
    assert len([query for query in caught if "GROUP BY" in query["sql"]]) == 1


def test_the_palette_finds_instances_by_name(rented):
    instance = rented.running(name="brave")
    rented.running(name="other")

    found = rented.browser(htmx=True).get(f"/t/{rented.tenant.slug}/find", {"q": "brav"})

    html = found.content.decode()
    assert html.count('role="option"') == 1
    assert f'data-href="{rented.url(instance)}"' in html
    assert rented.browser().get(f"/t/{rented.tenant.slug}/find").content.strip() == b""


def test_names_are_text_wherever_they_stand(rented):
    rented.running(name="<b>x</b>")

    page = rented.browser().get(rented.home).content.decode()

    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page


def test_a_viewer_sees_and_gets_no_button(rented):
    rented.running(name="brave")

    page = rented.browser(rented.member(Role.VIEWER)).get(rented.home)

    (shown,) = page.context["rows"]
    assert shown.buttons == []
    assert 'type="checkbox"' not in page.content.decode()


def test_strangers_and_removed_members_find_nothing(rented):
    instance = rented.running(name="brave")
    stranger = make_user()
    make_tenant(owner=stranger)
    member = rented.member(Role.ADMIN)
    for path in (
        rented.home,
        rented.url(instance),
        rented.url(instance, "/row"),
        rented.url(instance, "/header"),
        rented.url(instance, "/cost.csv"),
        rented.url(instance, "/stop"),
    ):
        assert rented.browser(stranger).get(path).status_code == 404, path
        assert rented.browser(member).get(path).status_code == 200, path
    browser = rented.browser(member)
    remove_member(tenant=rented.tenant, user=member, actor=OPERATOR, now=rented.now)
    assert browser.get(rented.home).status_code == 404
    assert browser.get(rented.url(instance)).status_code == 404


def test_another_tenants_instance_is_not_there(rented):
    theirs = make_tenant()
    instance = rented.running(name="brave")
    before = fresh(instance).version
    browser = rented.browser(owner_of(theirs), htmx=True)
    home = f"/t/{theirs.slug}/instances"
    url = f"{home}/{to_text('ins', instance.pk)}"
    sent = {"generation": instance.generation, "once": "k" * 20, "name": "brave"}

    for path in ("", "/row", "/header", "/cost.csv", "/stop", "/release", "/rename", "/password"):
        assert browser.get(f"{url}{path}").status_code == 404, path
    for path in ("/stop", "/release", "/rename", "/password"):
        assert browser.post(f"{url}{path}", sent).status_code == 404, path
    settings = sent | {"part": "name"}
    assert browser.post(f"{url}/settings", settings).status_code == 404
    dialog = browser.get(f"{home}/bulk-stop", {"id": to_text("ins", instance.pk)})
    assert (dialog.context["stops"], dialog.context["skipped"]) == ([], [])
    assert fresh(instance).version == before
