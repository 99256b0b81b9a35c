"""The frame of the console: who gets in, and what a refusal looks like."""

import json
import uuid

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client
from django.urls import path

from billing.errors import InsufficientBalance
from rental.tenants.models import Membership, Role, Tenant
from rental.tenants.permissions import UnknownVerb
from rental.tenants.services import remove_member
from rental.web import converters  # noqa: F401  # registers what the addresses use
from rental.web.visit import action, by_method, page
from tests.factories.tenants import NOON, OPERATOR, make_member, make_tenant, make_user, owner_of

calls = []


@page("instances:read")
def show(visit):
    return HttpResponse(f"{visit.tenant.slug} {visit.role} {visit.may('instances:write')}")


@action("instances:write")
def change(visit):
    calls.append(visit.actor.id)
    visit.toast("中 done")
    return visit.done()


@action("instances:write")
def pay(visit):
    raise InsufficientBalance(needed=2, available=1)


@action("instances:write")
def order(visit):
    return HttpResponse(json.dumps(visit.once(lambda: {"made": len(calls) or calls.append(1)})))


@page("instances:read")
def broken(visit):
    raise OperationalError("the server closed the connection")


@page("instances:read")
def one(visit, instance_id):
    assert isinstance(instance_id, uuid.UUID)
    return HttpResponse(str(instance_id))


urlpatterns = [
    path("t/<slug:tenant>/x", by_method(show, change)),
    path("t/<slug:tenant>/pay", pay),
    path("t/<slug:tenant>/order", order),
    path("t/<slug:tenant>/broken", broken),
    path("t/<slug:tenant>/i/<ins:instance_id>", one),
    path("accounts/login/", lambda request: HttpResponse("log in"), name="account_login"),
    path("language", lambda request: HttpResponse(""), name="set_language"),
]

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]


@pytest.fixture(autouse=True)
def forget():
    calls.clear()


@pytest.fixture
def tenant():
    return make_tenant(slug="acme")


def browser(user=None, **headers) -> Client:
    client = Client(headers=headers)
    if user is not None:
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_a_member_sees_his_tenant_in_his_role(tenant):
    viewer = make_member(tenant, Role.VIEWER)
    response = browser(viewer).get("/t/acme/x")
    assert (response.status_code, response.content.decode()) == (200, "acme viewer False")
    assert response["Cache-Control"] == "no-store"


def test_nobody_in_particular_is_sent_to_the_log_in_and_comes_back(tenant):
    response = browser().get("/t/acme/x?state=running")
    assert response["Location"] == "/accounts/login/?next=/t/acme/x%3Fstate%3Drunning"


def test_under_htmx_the_whole_page_goes_to_the_log_in(tenant):
    current = {"HX-Request": "true", "HX-Current-URL": "http://testserver/t/acme/y"}
    response = browser(**current).post("/t/acme/x")
    assert (response.status_code, response["HX-Redirect"]) == (
        401,
        "/accounts/login/?next=/t/acme/y",
    )
    assert calls == []


def test_a_stranger_and_a_removed_member_find_nothing(tenant):
    gone = make_member(tenant, Role.ADMIN)
    client = browser(gone)
    assert client.get("/t/acme/x").status_code == 200
    remove_member(tenant=tenant, user=gone, actor=OPERATOR, now=NOON)
    for who in (client, browser(make_user()), browser(owner_of(make_tenant()))):
        assert who.get("/t/acme/x").status_code == 404
        assert who.post("/t/acme/x").status_code == 404
        assert who.get("/t/nobody/x").status_code == 404
    assert calls == []


def test_a_role_that_may_not_is_refused_in_words_and_nothing_happens(tenant):
    viewer = make_member(tenant, Role.VIEWER)
    response = browser(viewer).post("/t/acme/x")
    assert response.status_code == 403
    assert ">This is not open to you</h1>" in response.content.decode()
    assert "Your role in this tenant does not allow this" in response.content.decode()
    assert calls == []


def test_in_a_suspended_tenant_everything_can_be_read_and_nothing_changed(tenant):
    Tenant.objects.update(status=Tenant.Status.SUSPENDED)
    owner = browser(owner_of(tenant))
    assert owner.get("/t/acme/x").content.decode() == "acme owner False"
    response = owner.post("/t/acme/x")
    assert response.status_code == 403
    assert "suspended" in response.content.decode()
    assert calls == []


def test_methods_without_a_view_are_not_offered(tenant):
    owner = browser(owner_of(tenant))
    assert owner.put("/t/acme/x").status_code == 405
    assert owner.get("/t/acme/pay").status_code == 405
    assert owner.head("/t/acme/x").status_code == 200


def test_without_the_token_of_the_form_nothing_is_done(tenant):
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner_of(tenant), backend="django.contrib.auth.backends.ModelBackend")
    assert client.post("/t/acme/x").status_code == 403
    assert calls == []


def test_what_an_action_says_travels_as_an_event_in_ascii(tenant):
    response = browser(owner_of(tenant)).post("/t/acme/x")
    assert response.status_code == 204
    assert response["HX-Trigger"].isascii()
    assert json.loads(response["HX-Trigger"]) == {
        "toast": [{"text": "中 done", "level": "ok"}],
        "close-dialog": True,
    }


def test_a_refusal_of_the_domain_is_a_toast_or_a_page(tenant):
    owner = owner_of(tenant)
    words = "The balance does not cover half an hour."
    response = browser(owner, **{"HX-Request": "true"}).post("/t/acme/pay")
    assert (response.status_code, response["HX-Reswap"]) == (402, "none")
    assert json.loads(response["HX-Trigger"])["toast"] == [{"text": words, "level": "bad"}]
    response = browser(owner).post("/t/acme/pay")
    assert response.status_code == 402
    assert words in response.content.decode()


def test_a_form_acts_once(tenant):
    owner = browser(owner_of(tenant))
    first = owner.post("/t/acme/order", {"once": "12345678", "n": "1"})
    again = owner.post("/t/acme/order", {"once": "12345678", "n": "1"})
    assert first.content == again.content
    assert len(calls) == 1
    other = owner.post("/t/acme/order", {"once": "12345678", "n": "2"})
    assert other.status_code == 422
    assert owner.post("/t/acme/order", {"n": "1"}).status_code == 400


def test_an_outage_of_the_database_is_said_in_words(tenant):
    response = browser(owner_of(tenant)).get("/t/acme/broken")
    assert (response.status_code, response["Retry-After"]) == (503, "2")


def test_an_address_with_a_malformed_id_is_none(tenant):
    owner = browser(owner_of(tenant))
    good = "ins_01j9x2a3b4c5d6e7f8g9h0jkmn"
    assert owner.get(f"/t/acme/i/{good}").status_code == 200
    for bad in (good[:-1], good.upper(), good.replace("ins", "key"), "x", good[:-1] + "u"):
        assert owner.get(f"/t/acme/i/{bad}").status_code == 404


def test_the_tenant_is_remembered_for_the_way_back(tenant):
    owner = browser(owner_of(tenant))
    owner.get("/t/acme/x")
    assert owner.session["tenant"] == "acme"


def test_a_verb_that_is_none_fails_at_import():
    with pytest.raises(UnknownVerb):
        page("instances:destroy")


def test_the_matrix_can_read_what_a_view_needs():
    assert by_method(show, change).verbs == {"GET": "instances:read", "POST": "instances:write"}


def test_one_query_for_the_member_and_one_for_the_clock(tenant, django_assert_num_queries):
    owner = browser(owner_of(tenant))
    owner.get("/t/acme/x")
    with django_assert_num_queries(4):  # session, user, membership with tenant, clock
        owner.get("/t/acme/x")
    assert Membership.objects.count() == 1
