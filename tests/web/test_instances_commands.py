"""The dialogs of commands: what they say, who may, stale pages, second clicks, many at once."""

import uuid

import pytest

from billing.models import Run
from rental.instances import services
from rental.instances.models import Instance, InstancePassword, Operation
from rental.instances.states import InstanceState
from rental.records.audit import AuditEvent
from rental.records.ids import to_text
from rental.tenants.models import Role
from scheduler.models import Node
from tests.factories.billing import report
from tests.factories.rental import PERSON, fresh, says
from tests.factories.tenants import make_ssh_key, make_tenant, make_user
from tests.web.rented import Rented, events_of, text_of

pytestmark = pytest.mark.django_db
S = InstanceState


@pytest.fixture
def rented():
    return Rented()


@pytest.fixture
def htmx(rented):
    return rented.browser(htmx=True)


def toasts(response):
    return [toast["text"] for toast in events_of(response).get("toast", [])]


def stop(instance, now):
    return services.stop_instance(
        tenant_id=instance.tenant_id, instance_id=instance.pk, actor=PERSON, now=now
    )


# --- what a dialog says


def test_the_stop_dialog_names_the_money_and_what_is_kept(rented, htmx):
    instance = rented.running(name="brave")
    run = Run.objects.get(instance_id=instance.pk)
    report(run, (0, 150), at=rented.now)

    text = text_of(htmx.get(rented.url(instance, "/stop")))

    assert "Billing of ¥0.49/h ends now." in text
    assert "The disk is kept, and free at present." in text
    assert "the GPU: it is free for others, and a start waits for it" in text


def test_the_release_dialog_asks_for_the_name_where_data_is_lost(rented, htmx):
    running, queued = rented.running(name="brave"), rented.queued(name="young")

    with_data = htmx.get(rented.url(running, "/release")).content.decode()
    without = htmx.get(rented.url(queued, "/release")).content.decode()

    assert 'name="name"' in with_data
    assert "Type brave to release it" in with_data
    assert 'name="name"' not in without


def stopped(rented, **rest):
    instance = rented.running(**rest)
    stop(instance, rented.now)
    says(instance, "gone", now=rented.now)
    return fresh(instance)


def test_the_start_dialog_names_price_gate_and_queue(rented, htmx):
    instance = stopped(rented, name="brave")

    text = text_of(htmx.get(rented.url(instance, "/start")))

    assert (
        "It costs ¥0.49/h from when it is ready; waiting and a failed start cost nothing." in text
    )
    assert "At least ¥0.25, half an hour of it, must be free in the balance." in text
    assert "You have ¥1,000.00." in text
    assert "With it the balance lasts 85 d" in text
    assert "it waits in the queue for up to 24 hours" in text


def test_what_waits_is_cancelled_and_says_that_nothing_was_charged(rented, htmx):
    instance = rented.queued(name="brave")

    text = text_of(htmx.get(rented.url(instance, "/cancel")))
    done = rented.command(htmx, instance, "cancel")

    assert "It leaves the queue. Nothing was charged, and nothing is." in text
    assert toasts(done) == ["brave waits no more; nothing was charged."]
    assert fresh(instance).state == S.STOPPED


def test_without_javascript_the_dialog_is_a_page(rented):
    instance = rented.running(name="brave")
    browser = rented.browser()

    page = browser.get(rented.url(instance, "/stop"))
    done = rented.command(browser, instance, "stop")

    assert "<h1" in page.content.decode()
    assert (done.status_code, done["Location"]) == (302, rented.url(instance))
    assert fresh(instance).state == S.STOPPING


# --- what a button does


@pytest.mark.parametrize(
    ("word", "make", "state"),
    [
        ("stop", "running", S.STOPPING),
        ("restart", "running", S.STARTING),
        ("cancel", "queued", S.STOPPED),
        ("retry", "failed", S.QUEUED),
    ],
)
def test_a_command_is_given_and_said(rented, htmx, word, make, state):
    instance = getattr(rented, make)(name="brave")

    done = rented.command(htmx, instance, word)

    assert done.status_code == 204
    assert fresh(instance).state == state
    fired = events_of(done)
    assert fired["close-dialog"] is True
    assert fired[f"changed-{to_text('ins', instance.pk)}"] is True
    assert toasts(done)[0].startswith("brave")


def test_a_second_click_is_the_first_one_again(rented, htmx):
    instance = rented.running(name="brave")
    sent = {"generation": instance.generation, "once": uuid.uuid4().hex}

    first = htmx.post(rented.url(instance, "/stop"), sent)
    second = htmx.post(rented.url(instance, "/stop"), sent)

    assert (first.status_code, second.status_code) == (204, 204)
    assert toasts(first) == toasts(second)
    assert Operation.objects.filter(instance=instance, kind="stop").count() == 1
    assert fresh(instance).generation == instance.generation + 1


def test_a_stale_page_cannot_act(rented, htmx):
    instance = rented.running(name="brave")
    services.rename_instance(
        tenant_id=instance.tenant_id,
        instance_id=instance.pk,
        name="braver",
        actor=PERSON,
        now=rented.now,
    )

    refused = rented.command(htmx, instance, "stop", generation=instance.generation)

    assert refused.status_code == 412
    text = text_of(refused)
    assert "It has changed since you looked at it, so nothing was done." in text
    assert "braver" in text  # drawn anew, with the generation of now
    assert f'name="generation" value="{fresh(instance).generation}"' in refused.content.decode()
    assert fresh(instance).state == S.RUNNING


def test_a_command_without_its_generation_or_key_is_no_command(rented, htmx):
    instance = rented.running(name="brave")

    bare = htmx.post(rented.url(instance, "/stop"), {"once": uuid.uuid4().hex})
    keyless = htmx.post(rented.url(instance, "/stop"), {"generation": instance.generation})

    assert (bare.status_code, keyless.status_code) == (400, 400)
    assert fresh(instance).state == S.RUNNING


def test_a_command_that_has_no_meaning_is_refused_in_words(rented, htmx):
    instance = rented.failed(name="broken")

    refused = rented.command(htmx, instance, "restart")

    assert refused.status_code == 409
    assert "restart" in text_of(refused).lower()
    assert fresh(instance).state == S.FAILED


def test_a_start_without_money_is_refused_and_changes_nothing(rented, htmx):
    tenant = make_tenant()
    instance = stopped(rented, name="brave")
    Instance.objects.filter(pk=instance.pk).update(tenant=tenant)
    browser = rented.browser(tenant.memberships.get().user, htmx=True)
    url = f"/t/{tenant.slug}/instances/{to_text('ins', instance.pk)}/start"

    refused = browser.post(url, {"generation": instance.generation, "once": uuid.uuid4().hex})

    assert refused.status_code == 402
    assert "The balance does not cover half an hour" in text_of(refused)
    assert fresh(instance).state == S.STOPPED


def test_release_wants_the_name_and_keeps_what_is_protected(rented, htmx):
    instance = rented.running(name="brave")

    wrong = rented.command(htmx, instance, "release", name="Brave")
    assert wrong.status_code == 422
    assert text_of(wrong).count("Nothing was released.") == 1
    assert 'value="Brave"' in wrong.content.decode()
    assert fresh(instance).state == S.RUNNING

    Instance.objects.filter(pk=instance.pk).update(protected=True)
    kept = rented.command(htmx, instance, "release", name="brave")
    assert kept.status_code == 409
    assert fresh(instance).state == S.RUNNING

    Instance.objects.filter(pk=instance.pk).update(protected=False)
    done = rented.command(htmx, instance, "release", name="brave")
    assert done.status_code == 204
    assert fresh(instance).state == S.RELEASING


# --- who may


def test_a_viewer_may_look_and_do_nothing(rented):
    instance = rented.running(name="brave", password_login=True)
    viewer = rented.browser(rented.member(Role.VIEWER), htmx=True)
    before = fresh(instance)
    posts = {
        "/stop": {},
        "/restart": {},
        "/release": {"name": "brave"},
        "/rename": {"name": "x"},
        "/password": {},
        "/settings": {"part": "protected", "protected": "1"},
    }
    for path, fields in posts.items():
        sent = {"generation": before.generation, "once": uuid.uuid4().hex} | fields
        assert viewer.post(rented.url(instance, path), sent).status_code == 403, path
    bulk = {"id": to_text("ins", instance.pk), "once": uuid.uuid4().hex}
    assert viewer.post(f"{rented.home}/bulk-stop", bulk).status_code == 403
    assert viewer.get(rented.url(instance, "/stop")).status_code == 403

    after = fresh(instance)
    assert (after.version, after.generation, after.name) == (
        before.version,
        before.generation,
        "brave",
    )
    assert not AuditEvent.objects.filter(verb="instance.password_revealed").exists()


def test_a_stranger_finds_no_command(rented):
    instance = rented.running(name="brave")
    stranger = make_user()
    make_tenant(owner=stranger)
    browser = rented.browser(stranger, htmx=True)

    assert rented.command(browser, instance, "stop").status_code == 404
    assert browser.post(f"{rented.home}/bulk-stop", {"once": "x" * 12}).status_code == 404
    assert fresh(instance).state == S.RUNNING


# --- many at once


def marks(*instances):
    return [f"{to_text('ins', one.pk)}:{one.generation}" for one in instances]


def test_the_bulk_dialog_names_what_stops_what_it_saves_and_what_is_left(rented, htmx):
    up, waits = rented.running(name="up"), rented.running(name="up-too")
    down = stopped(rented, name="down")
    ids = [to_text("ins", one.pk) for one in (up, waits, down)]

    dialog = htmx.get(f"{rented.home}/bulk-stop", {"id": ids})

    text = text_of(dialog)
    assert "Billing of ¥0.98/h in all ends now." in text
    assert "Stop 2 instances" in text
    assert "down : Not possible while it is: Stopped." in text
    assert dialog.context["marks"] == marks(up, waits)


def test_many_are_stopped_each_by_its_own_command(rented, htmx):
    up, queued, failed = (
        rented.running(name="up"),
        rented.queued(name="waits"),
        rented.failed(name="broken"),
    )
    stale = rented.running(name="stale")
    sent = {"id": [*marks(up, queued, failed), marks(stale)[0][:-1] + "9"], "once": "k" * 20}

    done = htmx.post(f"{rented.home}/bulk-stop", sent)
    again = htmx.post(f"{rented.home}/bulk-stop", sent)

    assert done.status_code == 204
    assert fresh(up).state == S.STOPPING
    assert fresh(failed).state == S.FAILED
    assert fresh(stale).state == S.RUNNING
    said = toasts(done)
    assert len(said) == 3
    assert "broken was not stopped" in said[1]
    assert "stale was not stopped: It has changed since you looked at it" in said[2]
    assert toasts(again) == said
    assert Operation.objects.filter(instance=up, kind="stop").count() == 1
    assert {key for key in events_of(done) if key.startswith("changed-")} == {
        f"changed-{to_text('ins', one.pk)}" for one in (up, queued, failed, stale)
    }


def test_the_bulk_command_reaches_no_strangers_instance(rented):
    instance = rented.running(name="brave")
    owner = make_user()
    theirs = make_tenant(owner=owner)

    done = rented.browser(owner, htmx=True).post(
        f"/t/{theirs.slug}/instances/bulk-stop", {"id": marks(instance), "once": "k" * 20}
    )

    assert (done.status_code, toasts(done)) == (204, [])
    assert fresh(instance).state == S.RUNNING


# --- name, settings, password


def test_a_name_is_changed_where_it_stands(rented, htmx):
    instance = rented.running(name="brave")
    url = rented.url(instance, "/rename")

    form = htmx.get(f"{url}?edit")
    done = rented.command(htmx, instance, "rename", name="braver")
    bad = rented.command(htmx, instance, "rename", name=" ")

    assert 'value="brave"' in form.content.decode()
    assert 'hx-swap-oob="true">braver' in done.content.decode()
    assert (bad.status_code, fresh(instance).name) == (422, "braver")


def change(browser, rented, instance, part, **fields):
    sent = {"part": part, "generation": fresh(instance).generation, "once": uuid.uuid4().hex}
    return browser.post(rented.url(instance, "/settings"), sent | fields)


def test_each_part_of_the_settings_is_saved_by_itself(rented, htmx):
    instance = rented.running(name="brave")
    key = make_ssh_key(rented.tenant)

    assert change(htmx, rented, instance, "name", name="braver").status_code == 200
    assert change(htmx, rented, instance, "protected", protected="1").status_code == 200
    assert change(htmx, rented, instance, "keys", key=to_text("ssh", key.pk)).status_code == 200
    assert change(htmx, rented, instance, "timers", stop_in="4").status_code == 200
    assert change(htmx, rented, instance, "password", password_login="1").status_code == 200

    row = fresh(instance)
    assert (row.name, row.protected, row.ssh_key_ids, row.password_login) == (
        "braver",
        True,
        [key.pk],
        True,
    )
    left = (row.auto_stop_at - rented.now).total_seconds()
    assert 4 * 3600 <= left < 4 * 3600 + 60


def test_what_happens_when_its_node_fails_is_a_setting(rented, htmx):
    instance = rented.running(name="brave")
    Node.objects.update(facts={"runtime": "null"})

    saved = change(htmx, rented, instance, "failover", on_node_loss="replace")

    assert saved.status_code == 200
    row = fresh(instance)
    assert (row.on_node_loss, row.migrate_ok) == ("replace", False)

    change(htmx, rented, instance, "failover", on_node_loss="keep", migrate_ok="1")
    Node.objects.update(facts={"runtime": "local"})
    refused = change(htmx, rented, instance, "failover", on_node_loss="replace", migrate_ok="1")
    assert refused.status_code == 422
    assert "no guard yet" in refused.content.decode()
    assert fresh(instance).on_node_loss == "keep"


def test_timers_are_on_the_tenants_clock_and_both_can_be_taken_off(rented, htmx):
    instance = rented.running(name="brave")
    type(rented.tenant).objects.filter(pk=rented.tenant.pk).update(time_zone="Asia/Shanghai")

    change(
        htmx, rented, instance, "timers", auto_stop_at="2027-01-02T08:30", max_duration_h="1000.5"
    )
    row = fresh(instance)
    assert row.auto_stop_at.isoformat() == "2027-01-02T00:30:00+00:00"
    assert row.max_duration_s == 1000 * 3600 + 1800

    change(htmx, rented, instance, "timers", auto_stop_at="", max_duration_h="")
    row = fresh(instance)
    assert (row.auto_stop_at, row.max_duration_s) == (None, None)


def test_a_setting_that_cannot_be_is_refused_in_its_card_and_nothing_changes(rented, htmx):
    instance = rented.running(name="brave")

    past = change(htmx, rented, instance, "timers", auto_stop_at="2020-01-01T00:00")
    words = change(htmx, rented, instance, "timers", auto_stop_at="tomorrow")
    stale = change(htmx, rented, instance, "protected", protected="1", generation=99)
    nothing = change(htmx, rented, instance, "everything")

    assert (past.status_code, words.status_code) == (422, 422)
    assert 'value="2020-01-01T00:00"' in past.content.decode()  # what was typed stays
    assert (stale.status_code, nothing.status_code) == (412, 400)
    assert fresh(instance).version == instance.version or not fresh(instance).protected
    assert fresh(instance).auto_stop_at is None


def test_the_password_is_shown_on_a_click_audited_and_gone_again(rented, htmx):
    instance = rented.running(name="brave", password_login=True)
    page = rented.browser().get(rented.url(instance)).content.decode()

    shown = htmx.post(rented.url(instance, "/password"))
    password = shown.context["password"]
    hidden = htmx.get(rented.url(instance, "/password")).content.decode()

    assert len(password) >= 12
    assert password in shown.content.decode()
    assert password not in page
    assert password not in hidden
    assert shown["Cache-Control"] == "no-store"
    assert AuditEvent.objects.filter(verb="instance.password_revealed").count() == 1

    rotated = htmx.post(rented.url(instance, "/password"), {"rotate": "1"})
    assert rotated.context["password"] != password
    assert InstancePassword.objects.filter(instance=instance).count() == 1


def test_a_password_that_is_off_is_refused_in_words(rented, htmx):
    instance = rented.running(name="brave")

    refused = htmx.post(rented.url(instance, "/password"))

    assert refused.status_code == 409
    assert "assword" in text_of(refused)
