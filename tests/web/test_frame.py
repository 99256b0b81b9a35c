"""What stands around a page: navigation by role, the balance, errors without a database."""

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from rental.tenants.models import Membership, Role
from rental.web import nav
from rental.web.broken import show_broken
from rental.web.frame import frame_of
from rental.web.visit import Visit
from tests.factories.tenants import NOON, make_member, make_tenant, make_user, owner_of

BACKEND = "django.contrib.auth.backends.ModelBackend"


def visit_of(tenant, user):
    request = RequestFactory().get("/")
    request.user = user
    return Visit(request, Membership.objects.of(tenant.id).get(user=user), NOON)


def names(visit):
    return [link.entry.name for _label, links in nav.groups_for(visit) for link in links]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "hidden"),
    [
        (Role.OWNER, set()),
        (Role.ADMIN, set()),
        (Role.DEVELOPER, {"audit"}),
        (Role.BILLING, {"launch", "keys", "audit"}),
        (Role.VIEWER, {"launch", "audit"}),
    ],
)
def test_an_entry_is_hidden_from_a_role_that_lacks_its_verb(role, hidden):
    tenant = make_tenant()
    user = owner_of(tenant) if role == Role.OWNER else make_member(tenant, role)
    every = [entry.name for group in nav.GROUPS for entry in group.entries]

    assert names(visit_of(tenant, user)) == [name for name in every if name not in hidden]


def test_keys_and_names_are_unique():
    entries = [entry for group in nav.GROUPS for entry in group.entries]

    assert len({entry.name for entry in entries}) == len(entries)
    assert len({entry.keys for entry in entries}) == len(entries)


@pytest.mark.django_db
def test_the_frame_asks_for_nothing_that_the_page_has_read():
    tenant = make_tenant()
    visit = visit_of(tenant, owner_of(tenant))
    balance = frame_of(visit, None).balance

    with CaptureQueriesContext(connection) as queries:
        known = frame_of(visit, balance)
        assert known.balance is balance
        assert [link.entry.name for link in known.bar] == [
            "overview", "launch", "instances", "billing",
        ]  # fmt: skip

    assert len(queries) == 0


@pytest.mark.django_db
def test_the_library_is_for_staff():
    client = Client()
    assert client.get("/dev/components").status_code == 404

    client.force_login(make_user(), backend=BACKEND)
    assert client.get("/dev/components").status_code == 404

    client.force_login(make_user(is_staff=True), backend=BACKEND)
    assert client.get("/dev/components").status_code == 200


def test_the_page_for_a_bug_needs_no_database_and_names_its_request():
    request = RequestFactory().get("/t/acme/")
    request.request_id = "req_7"

    response = show_broken(request)  # no django_db: a query would fail the test

    assert response.status_code == 500
    assert "req_7" in response.content.decode()
    assert "Something broke on our side" in response.content.decode()


def test_the_page_for_an_outage_needs_no_database():
    html = render_to_string("web/unavailable.html", request=RequestFactory().get("/t/acme/x"))

    assert 'href="/t/acme/x"' in html


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_an_unknown_address_and_an_old_form_are_answered_in_our_frame(language):
    client = Client(enforce_csrf_checks=True, headers={"accept-language": language})

    missing = client.get("/nowhere")
    old = client.post("/accounts/login/", {"login": "a@b.example", "password": "x"})

    assert (missing.status_code, old.status_code) == (404, 403)
    for response in (missing, old):
        assert "message-page" in response.content.decode()
        assert f'<html lang="{"zh-Hans" if language == "zh-hans" else "en"}">' in (
            response.content.decode()
        )
