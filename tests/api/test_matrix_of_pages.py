"""
The tenant matrix of the console (DESIGN §3.6): every page and action, as whoever should not be let
in. Routes and the verbs that they need come from the URL conf; see tests/api/test_matrix.py.
"""

import re

import pytest
from django.test import Client
from django.urls import get_resolver

from rental.records.clock import database_now
from rental.records.ids import new_id, to_text
from rental.tenants.models import Role
from rental.tenants.permissions import may
from rental.tenants.services import remove_member
from tests.api.walk import routes, snapshot
from tests.factories.tenants import OPERATOR, make_member, make_tenant, make_user, owner_of

pytestmark = pytest.mark.django_db

TENANT = "t/<slug:tenant>/"
# Parameters that are no id of ours: a value that exists.
WORDS: dict[str, str] = {}


def pages():
    for route, callback in routes(get_resolver("config.urls").url_patterns):
        for method, verb in getattr(callback, "verbs", {}).items():
            yield route, method, verb


def address(route, slug, known):
    names = {"tenant": slug, **WORDS, **known}
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(names[found[1]]), route)


def browser(user=None):
    client = Client()
    if user is not None:
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def send(client, method, url):
    return client.generic(method, url, content_type="application/x-www-form-urlencoded")


def test_every_page_of_a_tenant_is_found():
    assert len(list(pages())) >= 1


def test_nobody_but_who_is_signed_in_opens_a_page_of_a_person(world):
    before = snapshot()
    found = 0
    for route, callback in routes(get_resolver("config.urls").url_patterns):
        for method in getattr(callback, "personal", ()):
            response = send(browser(), method, f"/{route}")
            assert response.status_code == 302, f"{method} {route}"
            assert response["Location"].startswith("/accounts/login/"), f"{method} {route}"
            found += 1
    assert found >= 8
    assert snapshot() == before


def test_nobody_who_does_not_belong_gets_in_and_nothing_changes(world, ours):
    gone = make_member(world.tenant, Role.ADMIN)
    removed = browser(gone)
    remove_member(tenant=world.tenant, user=gone, actor=OPERATOR, now=database_now())
    inactive = make_member(world.tenant, Role.ADMIN)
    locked_out = browser(inactive)
    type(inactive).objects.filter(pk=inactive.pk).update(is_active=False)
    clients = {
        "anonymous": (browser(), 302),
        "inactive": (locked_out, 302),
        "stranger": (browser(owner_of(make_tenant())), 404),
        "without a tenant": (browser(make_user()), 404),
        "staff": (browser(make_user(is_staff=True, is_superuser=True)), 404),
        "removed": (removed, 404),
    }
    before = snapshot()
    for who, (client, expected) in clients.items():
        for route, method, _verb in pages():
            response = send(client, method, address(route, world.tenant.slug, ours))
            assert response.status_code == expected, f"{who}: {method} {route}"
    assert snapshot() == before


def test_what_is_anothers_looks_as_if_it_were_not_there(world, ours):
    """In one's own tenant: the same answer for an id of another's and for one that nobody has."""
    other = make_tenant()
    client = browser(owner_of(other))
    none = {name: to_text(text.partition("_")[0], new_id()) for name, text in ours.items()}
    browser_of_ours = browser(owner_of(world.tenant))
    before = snapshot()
    for route, method, _verb in pages():
        if not any(f":{name}>" in route for name in ours):
            continue
        answers = {
            send(client, method, address(route, other.slug, ours)).status_code,
            send(client, method, address(route, other.slug, none)).status_code,
            send(browser_of_ours, method, address(route, world.tenant.slug, none)).status_code,
        }
        # An action may find its form at fault before it looks for the row.
        assert len(answers) == 1, f"{method} {route}: {answers}"
        assert answers <= ({404} if method == "GET" else {400, 404, 422}), f"{method} {route}"
    assert snapshot() == before


@pytest.mark.parametrize("role", [Role.VIEWER, Role.BILLING, Role.DEVELOPER])
def test_a_member_may_what_his_role_may_and_nothing_else(world, ours, role):
    client = browser(make_member(world.tenant, role))
    for route, method, verb in pages():
        where = f"{role}: {method} {route}"
        url = address(route, world.tenant.slug, ours)
        if may(role, verb):
            if method == "GET":
                assert send(client, method, url).status_code in {200, 204}, where
            continue
        before = snapshot()
        assert send(client, method, url).status_code == 403, where
        assert snapshot() == before, where


def test_an_empty_form_is_a_mistake_of_the_sender_and_never_ours(world, ours):
    client = browser(owner_of(world.tenant))
    client.raise_request_exception = False
    for route, method, _verb in pages():
        response = send(client, method, address(route, world.tenant.slug, ours))
        assert response.status_code < 500, f"{method} {route}"
