"""The audit log: who did what, before and after, narrowed by the address, and as a file."""

import ast
import csv
import io
import re
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from rental.records.audit import SYSTEM, Actor, AuditEvent, record_event
from rental.records.ids import to_text
from rental.tenants.models import Role
from rental.tenants.services import change_member_role, remove_member
from rental.web.audit_words import VERBS, changes_of
from tests.factories.tenants import (
    OPERATOR,
    make_api_key,
    make_ssh_key,
    make_tenant,
    make_user,
    owner_of,
)
from tests.web.moneyed import Moneyed
from tests.web.rented import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return Moneyed()


def person(user):
    return Actor(kind="user", id=to_text("usr", user.pk))


def write(world, verb="ssh_key.added", *, actor=OPERATOR, at=None, **rest):
    facts = {"subject": "ssh_01k0e9w7m4f0bt6zq3yh2x5v8c", "request_id": "req_1"} | rest
    with transaction.atomic():
        record_event(
            tenant_id=world.tenant.id, actor=actor, verb=verb, now=at or world.now, **facts
        )


def events_on(response):
    return response.context["events"]


def test_an_event_says_who_what_and_what_changed(world):
    developer = world.member(Role.DEVELOPER)
    change_member_role(
        tenant=world.tenant, user=developer, role=Role.VIEWER, actor=person(world.owner),
        now=world.now,
    )  # fmt: skip
    response = world.page("audit?verb=member.role_changed")
    (shown,) = events_on(response)
    assert shown.who == str(world.owner)
    assert shown.what == "Role changed"
    assert shown.name == str(developer)
    assert shown.url == f"/t/{world.tenant.slug}/team"
    assert [(str(c.name), c.before, c.after) for c in shown.changes] == [
        ("role", "developer", "viewer")
    ]
    assert "role before: developer → after: viewer" in text_of(response)


def test_keys_the_operator_and_we_have_names(world):
    key, _ = make_api_key(world.tenant)
    write(world, actor=Actor(kind="api_key", id=to_text("key", key.pk)))
    write(world, actor=SYSTEM)
    write(world, actor=OPERATOR)
    write(world, actor=Actor(kind="user", id="usr_who_is_that"))
    shown = events_on(world.page("audit?verb=ssh_key.added"))
    assert {one.who for one in shown} == {"key test key", "Tessera", "Operator", "usr_who_is_that"}


def test_an_instance_is_named_and_linked(world):
    instance = world.queued(name="trainer")
    shown = events_on(world.page("audit?verb=instance.created"))[0]
    assert (shown.name, shown.url) == ("trainer", world.url(instance))
    by_subject = events_on(world.page(f"audit?subject={to_text('ins', instance.pk)}"))
    assert {one.event.subject for one in by_subject} == {to_text("ins", instance.pk)}


def test_amounts_times_and_lists_are_readable():
    event = AuditEvent(
        subject="x",
        before={"posted": 0, "same": 1, "generation": 1},
        after={
            "posted": 12_345_678,
            "same": 1,
            "generation": 2,
            "scopes": ["a", "b"],
            "expires_at": None,
            "ends_at": "2026-03-01T00:00:00Z",
            "odd_at": "2026-99-01T00:00:00Z",
            "project": "p1",
        },
    )
    said = {str(c.name): (c.before, c.after) for c in changes_of(event, {"p1": "Research"})}
    assert said == {
        "balance": ("¥0.00", "¥12.345678"),
        "may": (None, "a, b"),
        "ends_at": (None, "2026-03-01 00:00:00"),
        "odd_at": (None, "2026-99-01T00:00:00Z"),
        "project": (None, "Research"),
    }


def test_filters_stand_in_the_address_and_in_the_form(world):
    write(world, actor=person(world.owner), at=world.now - timedelta(days=40))
    write(world, "ssh_key.removed", actor=person(world.owner))
    me = to_text("usr", world.owner.pk)
    assert {e.event.verb for e in events_on(world.page(f"audit?actor={me}"))} >= {
        "ssh_key.added",
        "ssh_key.removed",
    }
    assert events_on(world.page("audit?actor=system")) == []
    day = (world.now - timedelta(days=40)).astimezone(ZoneInfo("Asia/Shanghai")).date()
    response = world.page(f"audit?actor={me}&from={day}&until={day}")
    assert [e.event.verb for e in events_on(response)] == ["ssh_key.added"]
    assert [c.value for c in response.context["actors"] if c.is_chosen] == [me]
    assert f'value="{day}"' in response.content.decode()
    assert events_on(world.page("audit?verb=no.such")) == []


def test_older_events_are_a_page_further(world):
    for number in range(55):
        write(world, request_id=f"req_{number}")
    first = world.page("audit?verb=ssh_key.added")
    second = world.browser().get(first.context["next"])
    shown = [one.event.request_id for one in (*events_on(first), *events_on(second))]
    assert len(shown) == len(set(shown)) == 55
    assert second.context["first"].endswith("audit?verb=ssh_key.added")
    other = first.context["next"].replace("ssh_key.added", "ssh_key.removed")
    assert world.browser().get(other).status_code == 302


def test_as_many_events_cost_as_many_queries(world):
    def queries():
        client = world.browser()
        client.get(f"/t/{world.tenant.slug}/audit")
        with CaptureQueriesContext(connection) as seen:
            client.get(f"/t/{world.tenant.slug}/audit")
        return len(seen)

    def some(count):
        for _ in range(count):
            key, _text = make_api_key(world.tenant)
            write(world, actor=Actor(kind="api_key", id=to_text("key", key.pk)))
            write(world, actor=person(world.member(Role.VIEWER)), subject=world_instance)

    world_instance = to_text("ins", world.queued().pk)
    some(3)
    few = queries()
    some(20)
    assert queries() == few
    assert few <= 22


def file_of(response):
    text = b"".join(response.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def test_the_file_has_all_of_the_filter_and_harms_nobody(world):
    for number in range(3):
        write(world, after={"name": "=cmd()"}, request_id=f"=req_{number}")
    write(world, "ssh_key.removed")
    at = datetime(2026, 3, 1, 16, 30, tzinfo=ZoneInfo("UTC"))
    write(world, "run.waived", at=at, subject="@run")
    lines = file_of(world.page("audit.csv?verb=ssh_key.added"))
    assert [line["request_id"] for line in lines] == ["'=req_2", "'=req_1", "'=req_0"]
    assert lines[0]["after"] == '{"name": "=cmd()"}'
    assert (lines[0]["actor"], lines[0]["event"]) == ("Operator", "SSH key added")
    (waived,) = file_of(world.page("audit.csv?verb=run.waived"))
    assert (waived["time"], waived["time_utc"]) == (
        "2026-03-02 00:30:00",
        "2026-03-01T16:30:00.000000Z",
    )
    assert waived["subject"] == "'@run"


def test_it_is_open_to_owners_and_administrators_only(world):
    answers = {
        Role.OWNER: 200,
        Role.ADMIN: 200,
        Role.DEVELOPER: 403,
        Role.BILLING: 403,
        Role.VIEWER: 403,
    }
    for role, answer in answers.items():
        user = world.member(role)
        for path in ("audit", "audit.csv"):
            assert world.page(path, user=user).status_code == answer, (role, path)


def test_strangers_and_who_has_left_find_nothing(world):
    gone = world.member(Role.ADMIN)
    remove_member(tenant=world.tenant, user=gone, actor=OPERATOR, now=world.now)
    for user in (gone, make_user(), owner_of(make_tenant())):
        for path in ("audit", "audit.csv"):
            assert world.page(path, user=user).status_code == 404


def test_the_events_of_others_are_not_shown(world):
    other = make_tenant()
    make_ssh_key(other)
    assert events_on(world.page("audit?verb=ssh_key.added")) == []


# --- words

ROOMS = ("billing", "rental", "scheduler")
RECORDERS = {"record_event", "audit", "_audit", "_change", "_tell"}
# Of no tenant: written with tenant_id=None, or by the operator about his own things.
NOT_OF_A_TENANT = {"user", "staff_role", "price", "node", "agent", "enrolment_token", "code"}


def recorded_verbs():
    """Every verb that the source hands to a function that writes an audit event."""
    root = Path(__file__).parents[2]
    for room in ROOMS:
        for path in (root / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in RECORDERS:
                    for part in ast.walk(node):
                        text = getattr(part, "value", None)
                        if isinstance(text, str) and re.fullmatch(r"[a-z_]+\.[a-z_]+", text):
                            yield text


def test_every_verb_that_is_written_has_words_and_no_word_is_of_none():
    verbs = {v for v in recorded_verbs() if v.partition(".")[0] not in NOT_OF_A_TENANT}
    assert verbs - set(VERBS) == set()
    root = Path(__file__).parents[2]
    sources = [p for room in ROOMS for p in (root / room).rglob("*.py")]
    text = "".join(p.read_text() for p in sources if p.name != "audit_words.py")
    assert [verb for verb in VERBS if f'"{verb}"' not in text] == []
