"""One instance: header, tabs, timeline, cost to the micro-unit, events; and their queries."""

import csv
import io

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.core.rating import price_of_ticks
from billing.models import Charge, Run
from billing.queries import spent_on
from billing.services.settle import settle
from rental.instances import passes, services
from rental.records.ids import to_text
from rental.tenants.models import Role
from tests.factories.billing import report
from tests.factories.rental import PERSON, PRICE, fresh, says, seconds
from tests.factories.tenants import make_ssh_key
from tests.web.rented import Rented, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def rented():
    return Rented()


def used(rented, instance, ticks, *, settled=True):
    """Let the node prove ticks of the instance's run, as if it had begun so long ago."""
    run = Run.objects.get(instance_id=instance.pk, closed_at=None)
    began = rented.now - seconds(6 * 10_000)
    Run.objects.filter(pk=run.pk).update(opened_at=began, started_at=began)
    run.refresh_from_db()
    report(run, (0, ticks), at=rented.now)
    if settled:
        settle(now=rented.now)
    return run


# --- header and tabs


def test_the_header_says_state_price_and_what_was_spent(rented):
    instance = rented.running(name="brave")
    used(rented, instance, 600)

    text = text_of(rented.browser().get(rented.url(instance)))

    assert "¥0.49/h" in text
    assert "Spent so far ¥0.49" in text
    assert "proven to run" not in text or "not proven" not in text


def test_the_header_leads_to_the_timers_whoever_may_set_them(rented):
    url = rented.url(rented.running())
    link = f'href="{url}?tab=settings#timers"'

    owner = rented.browser().get(url, {"tab": "settings"}).content.decode()
    viewer = rented.browser(rented.member(Role.VIEWER)).get(url).content.decode()

    assert link in owner
    assert 'id="timers"' in owner
    assert link not in viewer


@pytest.mark.parametrize("tab", ["connect", "cost", "events"])
def test_an_open_tab_follows_the_instance(rented, tab):
    instance = rented.running()

    html = rented.browser().get(rented.url(instance), {"tab": tab}).content.decode()

    assert f'<div id="tab" class="mt-5" data-live="{to_text("ins", instance.pk)}"' in html


def test_the_connect_tab_has_every_line(rented):
    key = make_ssh_key(rented.tenant)
    instance = rented.running(name="brave", ssh_key_ids=[key.pk])

    html = rented.browser().get(rented.url(instance)).content.decode()

    for line in (
        "ssh -p 22022 root@127.0.0.1",
        "SHA256:test",
        f"Host {instance.slug}\n  HostName 127.0.0.1\n  Port 22022\n  User root",
        "scp -P 22022 -r ./data root@127.0.0.1:/workspace/",
        "vscode://vscode-remote/ssh-remote+root@127.0.0.1:22022/workspace",
        key.fingerprint,
    ):
        assert line in html, line


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("queued", "It is not ready yet."),
        ("failed", "It does not run, so nothing listens."),
    ],
)
def test_the_connect_tab_says_why_there_is_nothing_to_connect_to(rented, make, words):
    instance = getattr(rented, make)(name="x")

    assert words in text_of(rented.browser().get(rented.url(instance)))


@pytest.mark.parametrize("tab", ["connect", "charts", "cost", "events", "settings"])
@pytest.mark.parametrize("make", ["queued", "running", "failed"])
def test_every_tab_of_every_state_has_its_address(rented, tab, make):
    instance = getattr(rented, make)(name="x")

    page = rented.browser().get(f"{rented.url(instance)}?tab={tab}")

    assert (page.status_code, page.context["tab"]) == (200, tab)
    assert page.content.decode().count("<h1") == 1


def test_an_unknown_tab_is_the_first(rented):
    page = rented.browser().get(f"{rented.url(rented.queued())}?tab=nonsense")

    assert page.context["tab"] == "connect"


def test_charts_name_where_the_samples_are(rented):
    instance = rented.running()

    html = rented.browser().get(f"{rented.url(instance)}?tab=charts").content.decode()

    assert f'data-samples-url="{rented.url(instance)}/samples"' in html


def test_the_header_is_fetched_alone(rented):
    instance = rented.running(name="brave")

    html = rented.browser(htmx=True).get(rented.url(instance, "/header")).content.decode()

    assert '<span id="instance-name" hx-swap-oob="true">brave</span>' in html
    assert f'data-version="{fresh(instance).version}"' in html
    assert "<html" not in html


# --- timeline and failure


def test_the_timeline_has_each_step_with_time_and_duration(rented):
    instance = rented.queued()
    passes.place(now=rented.now + seconds(2))
    for second, phase in ((5, "accepted"), (6, "pulling")):
        at = rented.now + seconds(second)
        says(instance, phase, now=at, percent=43 if phase == "pulling" else None)

    steps = rented.browser().get(rented.url(instance)).context["steps"]

    assert [(step.label, step.state) for step in steps] == [
        ("Reserved", "done"),
        ("Node accepted", "done"),
        ("Image", "now"),
        ("Started", "wait"),
        ("SSH ready", "wait"),
    ]
    assert [step.seconds for step in steps[:2]] == [2.0, 3.0]


def test_a_failed_start_says_what_was_not_done_and_what_to_do(rented):
    instance = rented.failed(detail="image pull: no such manifest")

    page = rented.browser().get(rented.url(instance))

    text = text_of(page)
    assert "The runtime of the node could not start it." in text
    assert "Nothing was charged for this start." in text
    assert "image pull: no such manifest" in text
    assert [b.word for b in page.context["shown"].buttons] == ["retry", "release"]
    failed = [step for step in page.context["steps"] if step.state == "failed"]
    assert [step.name for step in failed] == ["image"]


# --- cost


def test_the_cost_tab_adds_up_to_billing_to_the_micro_unit(rented):
    instance = rented.running(name="brave")
    run = used(rented, instance, 601)
    report(run, (601, 777), at=rented.now)

    page = rented.browser().get(f"{rented.url(instance)}?tab=cost")
    cost = page.context["cost"]

    charged = sum(Charge.objects.filter(run=run).values_list("amount", flat=True))
    assert (cost.charged, cost.total) == (charged, price_of_ticks(777, price=PRICE, share=1))
    assert cost.total == spent_on(instance.pk, now=rented.now) == page.context["spent"]
    rows = [row for one in cost.runs for row in one.rows]
    assert [(row.line.from_tick, row.line.until_tick) for row in rows] == [(0, 601), (601, 777)]
    for row in rows:
        assert row.high - row.low == row.line.amount
    text = text_of(page)
    assert "F(601) − F(0)" in text
    assert "F(777) − F(601)" in text
    assert "¥0.634550" in text or "¥0.63455" in text


def test_the_cost_tab_says_why_a_failed_start_is_free(rented):
    instance = rented.failed()

    text = text_of(rented.browser().get(f"{rented.url(instance)}?tab=cost"))

    assert "It never became ready: a failed start costs nothing." in text


def test_the_cost_file_has_every_charge_and_adds_up(rented):
    instance = rented.running(name="brave")
    run = used(rented, instance, 601)
    report(run, (601, 777), at=rented.now)
    settle(now=rented.now)
    report(run, (777, 800), at=rented.now)

    answer = rented.browser().get(rented.url(instance, "/cost.csv"))

    text = b"".join(answer.streaming_content).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["kind"] for row in rows] == ["charged", "charged", "estimate"]
    micro = sum(round(float(row["amount"]) * 1_000_000) for row in rows)
    assert micro == spent_on(instance.pk, now=rented.now)
    assert answer["Content-Disposition"] == f'attachment; filename="cost-{instance.slug}.csv"'


# --- events, roles, queries


def test_the_events_tell_who_did_what_and_how_it_ended(rented):
    instance = rented.running(name="brave")
    services.rename_instance(
        tenant_id=instance.tenant_id,
        instance_id=instance.pk,
        name="braver",
        actor=PERSON,
        now=rented.now,
    )

    lines = rented.browser().get(f"{rented.url(instance)}?tab=events").context["lines"]

    told = [(line.words, line.note) for line in lines]
    assert ("Renamed", "name: brave to braver") in told
    assert ("Ready", "") in told


def test_a_viewer_reads_all_tabs_and_cannot_change_settings(rented):
    instance = rented.running(name="brave")
    viewer = rented.browser(rented.member(Role.VIEWER))
    for tab in ("connect", "charts", "cost", "events"):
        assert viewer.get(f"{rented.url(instance)}?tab={tab}").status_code == 200

    page = viewer.get(f"{rented.url(instance)}?tab=settings")

    html = page.content.decode()
    assert html.count("<fieldset") == html.count('" disabled>') == 6
    assert "Your role may look and not change anything." in text_of(page)
    assert "Danger zone" not in html


def test_the_page_costs_the_same_however_old_the_instance_is(rented):
    instance = rented.running(name="brave")
    browser = rented.browser()
    browser.get(rented.url(instance))
    paths = [f"{rented.url(instance)}?tab={tab}" for tab in ("connect", "cost", "events")]

    def counts():
        found = []
        for path in paths:
            with CaptureQueriesContext(connection) as seen:
                assert browser.get(path).status_code == 200
            found.append(len(seen))
        return found

    young = counts()
    for turn in range(4):
        at = rented.now + seconds(10 * turn)
        services.restart_instance(
            tenant_id=instance.tenant_id, instance_id=instance.pk, actor=PERSON, now=at
        )
        for phase in ("accepted", "starting", "running"):
            says(instance, phase, now=at + seconds(1))
    assert counts() == young
