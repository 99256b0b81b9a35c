"""Who gets in: each page as a stranger, a customer, staff without a role, staff with it."""

import re

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import get_resolver, reverse

from rental.operate import sidebar
from rental.operate.urls import urlpatterns
from rental.records.ids import new_id
from rental.tenants.models import Role
from tests.factories.rental import make_node, make_offer
from tests.factories.tenants import make_member, make_tenant, make_user
from tests.operate.conftest import signed_in, staff_with

pytestmark = pytest.mark.django_db


def addresses() -> dict[str, str]:
    """Every page by its name, with things that are there in its address."""
    tenant, offer = make_tenant(slug="acme"), make_offer()
    known = {
        "node_id": make_node().pk, "verb": "cordon", "request_id": new_id(),
        "tenant": tenant.slug, "offer": offer.pk, "market": "on_demand",
    }  # fmt: skip
    return {
        route.name: "/admin/"
        + re.sub(r"<\w+:(\w+)>", lambda m: str(known[m[1]]), str(route.pattern))
        for route in urlpatterns
    }


def test_every_page_names_a_verb_except_the_landing():
    unnamed = [route.name for route in urlpatterns if not getattr(route.callback, "verb", "")]
    assert unnamed == ["overview"]


def test_a_stranger_and_a_customer_are_sent_to_the_sign_in():
    pages = addresses()
    member = make_member(make_tenant(), Role.OWNER)
    for client in (Client(), signed_in(member)):
        for name, address in pages.items():
            for response in (client.get(address), client.post(address)):
                assert response.status_code == 302, name
                assert "/login/" in response["Location"], name


def test_staff_without_a_role_opens_nothing_but_the_empty_index():
    client = staff_with()
    for name, address in addresses().items():
        expected = 200 if name == "overview" else 403
        assert client.get(address).status_code in {expected, 405 if name != "overview" else 200}, (
            name
        )
        if name != "overview":
            assert client.post(address).status_code in {403, 405}, name


@pytest.mark.parametrize("route", [one for one in urlpatterns if one.name != "overview"])
def test_staff_with_every_other_verb_is_refused(route):
    verbs = {one.callback.verb for one in urlpatterns if one.name != "overview"}
    client = staff_with(*(verbs - {route.callback.verb}))
    address = addresses()[route.name]
    answers = {client.get(address).status_code, client.post(address).status_code}
    assert answers <= {403, 405}
    assert 403 in answers


def test_staff_with_the_verb_gets_every_page(staff):
    for name, address in addresses().items():
        if name in {"change_node", "enrol"}:
            continue  # only POST, below
        response = staff.get(address)
        if name == "cancel_request":
            assert response.status_code == 404
        elif name == "overview":
            assert response.status_code == 302
            assert response["Location"] == reverse("operate:setup")
        else:
            assert response.status_code == 200, name


def test_the_sidebar_leads_to_every_list_of_the_admin():
    in_sidebar = {link.to for section in sidebar.SECTIONS for link in section.links}
    lists = {f"{model._meta.app_label}.{model._meta.model_name}" for model in admin.site._registry}
    assert {
        name
        for name in lists
        if name.split(".")[0] in {"rental", "billing", "scheduler", "tenants"}
    } <= in_sidebar


def test_the_sidebar_shows_only_what_may_be_opened(rf):
    request = rf.get("/admin/")
    request.user = make_user(is_staff=True)
    assert [item for section in sidebar.navigation(request) for item in section["items"]] == []


def test_the_landing_is_ours_and_the_admins_pages_stay_where_they_were():
    assert get_resolver().resolve("/admin/").view_name == "operate:overview"
    assert reverse("admin:index") == "/admin/"
    assert get_resolver().resolve("/admin/login/").view_name == "admin:login"
