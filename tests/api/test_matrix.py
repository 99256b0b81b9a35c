"""
The tenant matrix (DESIGN §3.6): every route x method, as whoever should not be let in.

Routes come from the URL confs of web and gateway, from the Channels routings and from
``admin.site``. One that no table here names fails the test: whoever adds it says what it is.
"""

import re
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import get_resolver

from rental.api.contract import TenantView, contracts_of
from rental.records.clock import database_now
from rental.tenants.models import ApiKey, Role
from rental.tenants.permissions import may
from rental.tenants.services import remove_member
from tests.api.conftest import Api, order
from tests.api.walk import routes, snapshot
from tests.factories.tenants import (
    ED25519,
    OPERATOR,
    make_api_key,
    make_member,
    make_user,
)

pytestmark = pytest.mark.django_db

# --- what every route is

PUBLIC = {  # open to everybody: tells nothing of any tenant
    "",
    "healthz",
    "readyz",
    "language",
    "prices",
    "join/code",
    "join/<str:token>",  # the token is the key: tests/web/test_joining_team.py
    "launch",  # goes to one's own tenant, or to sign-up
    "dev/components",  # invented things only, and to staff alone: tests/web/test_components.py
    "v1/docs",
    "v1/openapi.json",
    r"v1/^[\s\S]*$",
}
ACCOUNTS = "accounts/"  # allauth: log in and out, one's own password; acts on the session's user
ADMIN = "admin/"  # staff only, see below
STATIC = "static/"
GATEWAY_PUBLIC = {"healthz", "metrics"}  # the operator's network; no tenant's data
GATEWAY_AGENTS = {"agent/v1/enrol"}  # a one-time token in the body
WEB_SOCKETS = {
    "ws/t/<slug:tenant>",  # a session; strangers and others: tests/realtime
    "^",  # all others: refused
}
GATEWAY_SOCKETS = {"agent/v1"}  # Authorization: Bearer tsa_…, see tests/gateway


def view_of(callback):
    return getattr(callback, "cls", None) or getattr(callback, "view_class", None)


def api_routes():
    for route, callback in routes(get_resolver("config.urls").url_patterns):
        view = view_of(callback)
        if view is not None and issubclass(view, TenantView):
            for method, contract in contracts_of(view).items():
                yield route, method, contract


def test_every_route_of_the_web_process_is_classified():
    unknown = []
    for route, callback in routes(get_resolver("config.urls").url_patterns):
        view = view_of(callback)
        if view is not None and issubclass(view, TenantView):
            assert contracts_of(view), f"{route} has no contract"
            assert view.authentication_classes, f"{route} lets everybody in"
        elif hasattr(callback, "verbs"):
            # Pages of a tenant: tests/web/test_matrix.py tries each.
            assert route.startswith("t/<slug:tenant>/"), f"{route} names no tenant"
        elif hasattr(callback, "personal"):
            pass  # one's own account: tests/api/test_matrix_of_pages.py tries each
        elif route not in PUBLIC and not route.startswith((ACCOUNTS, ADMIN, STATIC)):
            unknown.append(route)
    assert unknown == []


def test_every_route_of_the_gateway_is_classified():
    found = {route for route, _ in routes(get_resolver("rental.gateway.urls").url_patterns)}
    assert found == GATEWAY_PUBLIC | GATEWAY_AGENTS


def test_every_socket_is_classified():
    from rental.gateway.routing import websocket_urlpatterns as of_gateway
    from rental.realtime.routing import websocket_urlpatterns as of_web

    assert {str(one.pattern) for one in of_web} == WEB_SOCKETS
    assert {str(one.pattern) for one in of_gateway} == GATEWAY_SOCKETS


def test_every_operation_of_the_api_names_a_verb():
    for route, method, contract in api_routes():
        assert contract.verb is not None, f"{method} {route}"
        action = contract.verb.partition(":")[2]
        assert (action == "read") == (method == "GET"), f"{method} {route}: {contract.verb}"


# --- the API

BODIES = {
    "create_quote": lambda ours: {"offer": "rtx4090-share1"},
    "create_instances": lambda ours: order(
        project_id=ours["project_id"], ssh_key_ids=[ours["ssh_key_id"]]
    ),
    "update_instance": lambda ours: {"name": "mine now"},
    "reveal_password": lambda ours: {"rotate": True},
    "put_secret": lambda ours: {"name": "HF_TOKEN", "value": "another"},
    "add_ssh_key": lambda ours: {"name": "k", "public_key": ED25519},
    "create_api_key": lambda ours: {"name": "k", "scopes": ["*"]},
    "change_member": lambda ours: {"role": "viewer"},
    "create_invitation": lambda ours: {"contact": "13800000000", "role": "viewer"},
    "create_project": lambda ours: {"name": "Vision"},
    "change_project": lambda ours: {"name": "mine now", "is_default": True},
    "change_tenant": lambda ours: {"name": "mine now"},
}
# A stranger may do these in his own tenant; they touch nothing of ours.
OWN_GROUND = {
    "create_quote",
    "add_ssh_key",
    "put_secret",
    "create_api_key",
    "create_invitation",
    "create_project",
    "change_tenant",
}


def address(route: str, ours: dict[str, str]) -> str:
    return "/" + re.sub(r"<\w+:(\w+)>", lambda found: ours[found[1]], route)


def ask(client: Api, route: str, method: str, contract, ours: dict[str, str]):
    body = BODIES[contract.name](ours) if contract.body is not None else None
    headers = {"if_match": "*"} if contract.if_match else {}
    return client.send(method, address(route, ours), body, **headers)


def refused_keys(world) -> dict[str, str | None]:
    now = database_now()
    expired = make_api_key(world.tenant, expires_at=now + timedelta(days=1))
    ApiKey.objects.filter(pk=expired[0].pk).update(
        created_at=now - timedelta(days=2), expires_at=now - timedelta(seconds=1)
    )
    revoked = make_api_key(world.tenant)
    ApiKey.objects.filter(pk=revoked[0].pk).update(revoked_at=now)
    gone = make_member(world.tenant, Role.ADMIN)
    removed = make_api_key(world.tenant, scopes=["*:read"], created_by=gone)
    remove_member(tenant=world.tenant, user=gone, actor=OPERATOR, now=now)
    # Not only revoked along with the membership: without a membership no key works.
    ApiKey.objects.filter(pk=removed[0].pk).update(revoked_at=None)
    inactive = make_member(world.tenant, Role.ADMIN)
    locked_out = make_api_key(world.tenant, scopes=["*:read"], created_by=inactive)
    type(inactive).objects.filter(pk=inactive.pk).update(is_active=False)
    return {
        "anonymous": None,
        "expired": expired[1],
        "revoked": revoked[1],
        "removed member": removed[1],
        "inactive member": locked_out[1],
        "another secret": revoked[1][:-1] + ("a" if revoked[1][-1] != "a" else "b"),
    }


def test_nobody_without_a_living_key_gets_in(world, ours):
    keys = refused_keys(world)
    before = snapshot()
    for who, key in keys.items():
        for route, method, contract in api_routes():
            response = ask(Api(key), route, method, contract, ours)
            assert response.status_code == 401, f"{who}: {method} {route}"
    assert snapshot() == before


def test_a_stranger_finds_nothing_of_ours(world, ours, stranger):
    stranger.get("/v1/balance")  # the first use of a key is written down
    for route, method, contract in api_routes():
        before = snapshot()
        response = ask(stranger, route, method, contract, ours)
        where = f"{method} {route}"
        for name, text in ours.items():
            if f":{name}>" not in route:
                assert text not in response.content.decode(), f"{where} shows {name}"
        if ":" in route:
            assert response.status_code == 404, where
        elif method != "GET" and contract.name not in OWN_GROUND:
            assert response.status_code == 422, where
        if method == "GET" or contract.name not in OWN_GROUND:
            assert snapshot() == before, where


def test_a_stranger_on_his_own_ground_changes_nothing_of_ours(world, ours, stranger):
    def rows():
        with connection.cursor() as cursor:
            found = {}
            for model in apps.get_models():
                if any(field.attname == "tenant_id" for field in model._meta.concrete_fields):
                    cursor.execute(
                        f"SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), ''))"
                        f' FROM "{model._meta.db_table}" t WHERE tenant_id = %s',
                        [world.tenant.id],
                    )
                    found[model.__name__] = cursor.fetchone()[0]
            return found

    before = rows()
    for route, method, contract in api_routes():
        if contract.name in OWN_GROUND:
            assert ask(stranger, route, method, contract, ours).status_code in {200, 201}
    assert rows() == before


def test_lists_of_a_stranger_are_empty_or_his_own(world, ours, stranger):
    for route, method, contract in api_routes():
        if method == "GET" and ":" not in route and contract.shape == "page":
            shown = stranger.get(f"/{route}").content.decode()
            assert str(world.tenant.id) not in shown
            assert not any(text in shown for text in ours.values()), route


@pytest.mark.parametrize("role", [Role.VIEWER, Role.BILLING, Role.DEVELOPER])
def test_a_member_may_what_his_role_may_and_nothing_else(world, ours, role):
    member = make_member(world.tenant, role)
    key = make_api_key(world.tenant, scopes=["catalog:read"], created_by=member)
    ApiKey.objects.filter(pk=key[0].pk).update(scopes=["*"])  # only the role limits it now
    client = Api(key[1])
    client.get("/v1/offers")
    for route, method, contract in api_routes():
        where = f"{role}: {method} {route}"
        if may(role, contract.verb):
            if method == "GET":
                assert ask(client, route, method, contract, ours).status_code == 200, where
            continue
        before = snapshot()
        assert ask(client, route, method, contract, ours).status_code == 403, where
        assert snapshot() == before, where


def test_a_narrow_key_may_what_its_scopes_may_and_nothing_else(world, ours):
    client = Api(make_api_key(world.tenant, scopes=["billing:read"])[1])
    client.get("/v1/balance")
    before = snapshot()
    for route, method, contract in api_routes():
        expected = 200 if contract.verb == "billing:read" else 403
        response = ask(client, route, method, contract, ours)
        assert response.status_code == expected, f"{method} {route}"
    assert snapshot() == before


# --- the admin

# Rows that people may edit by hand: they hold neither money nor state.
EDITABLE = {
    "rental.Image",
    "rental.Offer",
    "scheduler.GpuModel",
    "scheduler.Region",
    "scheduler.Zone",
    "tenants.StaffRole",
    "tenants.User",
}
# Their "add" page calls the service that makes one; nothing is changed or deleted by hand.
ADDED_BY_SERVICE = {
    "scheduler.EnrolmentToken",
    "scheduler.MaintenanceWindow",
    "tenants.Tenant",
}


def registered():
    return {model._meta.label: page for model, page in admin.site._registry.items()}


def staff_request(**fields):
    request = RequestFactory().get("/admin/")
    request.user = make_user(is_staff=True, is_superuser=True, **fields)
    return request


def test_in_the_admin_money_and_state_are_read_only_even_for_the_superuser():
    request = staff_request()
    found = {
        label
        for label, page in registered().items()
        if (page.has_add_permission(request) and label not in ADDED_BY_SERVICE)
        or page.has_change_permission(request)
        or page.has_delete_permission(request)
    }
    assert found <= EDITABLE, "list them here, or lock them in their admin"


def test_nobody_but_staff_opens_an_admin_page(world, ours):
    member = make_member(world.tenant, Role.OWNER)
    signed_in = Client()
    signed_in.force_login(member, backend="django.contrib.auth.backends.ModelBackend")
    before = snapshot()
    for client in (Client(), signed_in):
        for route, _callback in routes(get_resolver("config.urls").url_patterns):
            if not route.startswith(ADMIN):
                continue
            url = "/" + re.sub(r"<[^>]+>|\(\?P<[^)]*\)|[\^$]", "x", route)
            for method in ("get", "post"):
                response = getattr(client, method)(url)
                if route in {"admin/login/", "admin/logout/"}:
                    continue
                assert response.status_code in {302, 403, 404, 405}, f"{method} {url}"
                if response.status_code == 302:
                    assert "/login/" in response["Location"], url
    assert snapshot() == before
