"""Members, invitations, projects and the tenant through the API: the rules of the console."""

import json

import pytest

from rental.records.ids import to_text
from rental.tenants.models import Invitation, Membership, Project, Role
from tests.api.conftest import Api
from tests.factories.tenants import make_api_key, make_member, owner_of

pytestmark = pytest.mark.django_db


def body(response):
    return json.loads(response.content)


def role_of(world, user):
    return Membership.objects.of(world.tenant.id).get(user=user).role


def of(user):
    return f"/v1/members/{to_text('usr', user.pk)}"


def test_members_are_listed_with_their_roles(world, api):
    member = make_member(world.tenant, Role.BILLING)

    rows = body(api.get("/v1/members"))["data"]

    found = {row["id"]: row["role"] for row in rows}
    assert found[to_text("usr", member.pk)] == "billing"
    assert found[to_text("usr", owner_of(world.tenant).pk)] == "owner"


def test_a_role_is_changed(world, api):
    member = make_member(world.tenant, Role.VIEWER)

    answer = api.send("PATCH", of(member), {"role": "developer"})

    assert (answer.status_code, body(answer)["role"]) == (200, "developer")
    assert role_of(world, member) == Role.DEVELOPER


def test_the_last_owner_stays(world, api):
    owner = owner_of(world.tenant)

    answers = [
        api.send("PATCH", of(owner), {"role": "viewer"}),
        api.send("DELETE", of(owner)),
    ]

    assert [(a.status_code, body(a)["code"]) for a in answers] == [(409, "last_owner")] * 2
    assert role_of(world, owner) == Role.OWNER


@pytest.mark.parametrize("made_by", [Role.OWNER, Role.ADMIN])
def test_a_key_without_tenant_write_makes_no_owner(world, made_by):
    maker = owner_of(world.tenant) if made_by == Role.OWNER else make_member(world.tenant, made_by)
    member = make_member(world.tenant, Role.VIEWER)
    key = make_api_key(world.tenant, scopes=["members:write"], created_by=maker)[1]

    answers = [
        Api(key).send("PATCH", of(member), {"role": "owner"}),
        Api(key).post("/v1/invitations", {"contact": "a@b.example", "role": "owner"}),
    ]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert role_of(world, member) == Role.VIEWER
    assert not Invitation.objects.exists()


def test_an_invitation_shows_its_link_once(world, api):
    asked = {"contact": "138 0000 0000", "role": "viewer"}

    first = api.send("POST", "/v1/invitations", asked, idempotency_key="one")
    again = api.send("POST", "/v1/invitations", asked, idempotency_key="one")

    assert body(first)["contact"] == "+8613800000000"
    assert body(first)["url"].startswith("http://testserver/join/")
    assert body(again) == {**body(first), "url": None}
    assert "url" not in body(api.get("/v1/invitations"))["data"][0]


def test_what_is_no_contact_is_refused(world, api):
    answer = api.post("/v1/invitations", {"contact": "ann", "role": "viewer"})

    assert answer.status_code == 422
    assert body(answer)["errors"][0]["field"] == "contact"
    assert not Invitation.objects.exists()


def test_a_revoked_invitation_is_gone(world, api):
    made = body(api.post("/v1/invitations", {"contact": "a@b.example", "role": "viewer"}))

    assert api.send("DELETE", f"/v1/invitations/{made['id']}").status_code == 204
    assert body(api.get("/v1/invitations"))["data"] == []
    assert api.send("DELETE", f"/v1/invitations/{made['id']}").status_code == 404


def test_projects_are_made_and_changed(world, api):
    made = body(api.post("/v1/projects", {"name": "Computer vision"}))
    answer = api.send("PATCH", f"/v1/projects/{made['id']}", {"name": "Vision", "is_default": True})

    assert (made["slug"], made["is_default"]) == ("computer-vision", False)
    assert (body(answer)["name"], body(answer)["is_default"]) == ("Vision", True)
    assert Project.objects.of(world.tenant.id).filter(is_default=True).count() == 1


def test_a_taken_slug_is_refused(world, api):
    answer = api.post("/v1/projects", {"name": "Another", "slug": "default"})

    assert (answer.status_code, body(answer)["code"]) == (409, "uniqueness_error")


def test_the_tenant_is_renamed_and_a_zone_that_is_none_refused(world, api):
    renamed = api.send("PATCH", "/v1/tenant", {"name": "Acme AI"})
    refused = api.send("PATCH", "/v1/tenant", {"time_zone": "Mars/Olympus"})

    assert body(renamed)["name"] == "Acme AI"
    assert (refused.status_code, body(refused)["errors"][0]["field"]) == (422, "time_zone")
    assert body(api.get("/v1/tenant"))["time_zone"] == "Asia/Shanghai"
