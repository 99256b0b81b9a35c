"""Invitations, members, projects and settings in the console; who may do what to whom."""

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rental.records.clock import database_now
from rental.records.ids import to_text
from rental.tenants import services
from rental.tenants.models import (
    ApiKey,
    AuditEvent,
    ContactCode,
    Invitation,
    Membership,
    Project,
    Role,
    Tenant,
    User,
)
from tests.factories.tenants import (
    OPERATOR,
    make_api_key,
    make_invitation,
    make_member,
    make_tenant,
    make_user,
    owner_of,
)

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_codes(settings):
    cache.clear()
    settings.SIGNUP_VERIFICATION = "none"


@pytest.fixture
def tenant():
    return make_tenant(slug="acme")


def browser(user):
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def role_in(tenant, user):
    return Membership.objects.of(tenant.id).filter(user=user).values_list("role", flat=True).first()


def of(user, action):
    return f"/t/acme/team/{to_text('usr', user.pk)}/{action}"


# --- invite


def test_a_link_is_shown_once_and_kept_nowhere(tenant):
    client = browser(owner_of(tenant))

    answer = client.post(
        "/t/acme/team/invitations", {"contact": "138 0000 0000", "role": "developer"}
    )

    invitation = Invitation.objects.get()
    link = answer.context["link"]
    assert (invitation.contact, invitation.role) == ("+8613800000000", Role.DEVELOPER)
    assert link.startswith("http://testserver/join/")
    assert link in answer.content.decode()
    assert link.rpartition("/")[2] not in str(vars(invitation))
    assert link not in client.get("/t/acme/team").content.decode()
    assert invitation.expires_at - invitation.created_at == timedelta(days=7)


def test_a_second_invitation_ends_the_first(tenant):
    _first, old = make_invitation(tenant)

    make_invitation(tenant)

    assert Client().get(f"/join/{old}").status_code == 410
    assert Invitation.objects.open(at=database_now()).count() == 1


def test_who_is_a_member_is_not_invited(tenant):
    member = make_member(tenant, Role.VIEWER)

    answer = browser(owner_of(tenant)).post(
        "/t/acme/team/invitations", {"contact": member.email, "role": "admin"}
    )

    assert answer.status_code == 409
    assert not Invitation.objects.exists()


def test_an_administrator_offers_and_makes_no_owner(tenant):
    client = browser(make_member(tenant, Role.ADMIN))

    answer = client.post("/t/acme/team/invitations", {"contact": "a@b.example", "role": "owner"})

    assert answer.status_code == 422
    assert "owner" not in dict(answer.context["form"].fields["role"].choices)
    assert not Invitation.objects.exists()


# --- accept


def test_somebody_new_sets_a_password_and_is_in(tenant, client):
    invitation, token = make_invitation(tenant, contact="bob@example.com", role=Role.BILLING)

    page = client.get(f"/join/{token}").content.decode()
    answer = client.post(f"/join/{token}", {"password": PASSWORD})

    user = User.objects.get(email="bob@example.com")
    invitation.refresh_from_db()
    assert "Acme" in page
    assert "bob@example.com" not in page
    assert answer["Location"] == "/t/acme/"
    assert role_in(tenant, user) == Role.BILLING
    assert invitation.accepted_by == user
    assert Tenant.objects.count() == 1
    assert client.get("/t/acme/team").status_code == 200


def test_somebody_new_proves_the_contact_where_codes_are_asked_for(tenant, client, settings):
    settings.SIGNUP_VERIFICATION = "code"
    _invitation, token = make_invitation(tenant, contact="bob@example.com")

    answer = client.post(f"/join/{token}", {"password": PASSWORD})
    assert not User.objects.filter(email="bob@example.com").exists()
    code = ContactCode.objects.get().code
    client.post(answer["Location"], {"code": code})

    user = User.objects.get(email="bob@example.com")
    assert user.email_verified_at is not None
    assert role_in(tenant, user) == Role.DEVELOPER


def test_who_has_an_account_signs_in_first(tenant, client):
    make_user(email="bob@example.com", password=PASSWORD)
    _invitation, token = make_invitation(tenant, contact="bob@example.com")

    page = client.get(f"/join/{token}")
    client.post(f"/join/{token}", {"password": PASSWORD})

    assert page.context["page"].form is None
    assert f"/accounts/login/?next=/join/{token}" in page.content.decode()
    assert Membership.objects.count() == 1


def test_who_is_signed_in_takes_the_place_by_one_click(tenant):
    user = make_user(phone="+8613800000000")
    _invitation, token = make_invitation(tenant, contact="13800000000", role=Role.VIEWER)

    answer = browser(user).post(f"/join/{token}")

    assert answer["Location"] == "/t/acme/"
    assert role_in(tenant, user) == Role.VIEWER


def test_another_account_gets_nothing(tenant):
    _invitation, token = make_invitation(tenant, contact="bob@example.com")
    eve = make_user(email="eve@example.com")

    answer = browser(eve).post(f"/join/{token}")

    assert answer.status_code == 403
    assert role_in(tenant, eve) is None


def test_a_link_opens_once(tenant):
    user = make_user(email="bob@example.com")
    _invitation, token = make_invitation(tenant, contact="bob@example.com")
    browser(user).post(f"/join/{token}")
    services.remove_member(tenant=tenant, user=user, actor=OPERATOR, now=database_now())

    answer = browser(user).post(f"/join/{token}")

    assert answer.status_code == 410
    assert role_in(tenant, user) is None


def test_after_seven_days_it_opens_nothing(tenant):
    user = make_user(email="bob@example.com")
    now = database_now()
    _invitation, token = make_invitation(tenant, now=now - timedelta(days=7))

    answer = browser(user).post(f"/join/{token}")

    assert answer.status_code == 410
    assert role_in(tenant, user) is None


def test_revoked_it_opens_nothing(tenant):
    invitation, token = make_invitation(tenant)
    client = browser(owner_of(tenant))

    client.post(f"/t/acme/team/invitations/{to_text('inv', invitation.id)}/revoke")

    assert Client().get(f"/join/{token}").status_code == 410


def test_it_can_no_more_than_who_made_it_may_now(tenant):
    admin = make_member(tenant, Role.ADMIN)
    _invitation, token = make_invitation(tenant, by=admin)

    services.change_member_role(
        tenant=tenant, user=admin, role=Role.VIEWER, actor=OPERATOR, now=database_now()
    )

    assert Client().get(f"/join/{token}").status_code == 410


def test_a_link_that_was_never_made_is_not_found(client):
    assert client.get("/join/no-such-token").status_code == 404


# --- roles


def test_the_dialog_of_a_role_begins_at_the_role(tenant):
    member = make_member(tenant, Role.VIEWER)

    html = browser(owner_of(tenant)).get(of(member, "role")).content.decode()

    assert re.search(r'<select id="id_new_role"[^>]* autofocus', html)


def test_an_owner_changes_a_role_and_it_is_audited(tenant):
    member = make_member(tenant, Role.VIEWER)

    browser(owner_of(tenant)).post(of(member, "role"), {"role": "admin"})

    event = AuditEvent.objects.get(verb="member.role_changed")
    assert role_in(tenant, member) == Role.ADMIN
    assert (event.before, event.after) == ({"role": "viewer"}, {"role": "admin"})


@pytest.mark.parametrize("role", ["viewer", "developer"])
def test_an_administrator_touches_no_owner(tenant, role):
    owner = owner_of(tenant)
    make_member(tenant, Role.OWNER)
    client = browser(make_member(tenant, Role.ADMIN))

    demoted = client.post(of(owner, "role"), {"role": role})
    removed = client.post(of(owner, "remove"))

    assert (demoted.status_code, removed.status_code) == (403, 403)
    assert role_in(tenant, owner) == Role.OWNER


def test_an_administrator_makes_himself_no_owner(tenant):
    admin = make_member(tenant, Role.ADMIN)

    answer = browser(admin).post(of(admin, "role"), {"role": "owner"})

    assert answer.status_code == 422
    assert role_in(tenant, admin) == Role.ADMIN


def test_the_last_owner_stays(tenant):
    owner = owner_of(tenant)
    client = browser(owner)

    answers = [
        client.post(of(owner, "role"), {"role": "admin"}),
        client.post(of(owner, "remove")),
        client.post("/t/acme/team/leave"),
    ]

    assert [answer.status_code for answer in answers] == [409, 409, 409]
    assert role_in(tenant, owner) == Role.OWNER


def test_with_a_second_owner_the_first_may_leave(tenant):
    first = owner_of(tenant)
    make_member(tenant, Role.OWNER)

    answer = browser(first).post("/t/acme/team/leave")

    assert answer["Location"] == "/console"
    assert role_in(tenant, first) is None


def test_a_viewer_may_leave(tenant):
    viewer = make_member(tenant, Role.VIEWER)

    browser(viewer).post("/t/acme/team/leave")

    assert role_in(tenant, viewer) is None


def test_who_is_removed_finds_nothing_from_the_next_request_on(tenant):
    member = make_member(tenant, Role.ADMIN)
    key, _text = make_api_key(tenant, scopes=["*:read"], created_by=member)
    client = browser(member)
    assert client.get("/t/acme/team").status_code == 200

    browser(owner_of(tenant)).post(of(member, "remove"))

    assert client.get("/t/acme/team").status_code == 404
    assert client.get("/console")["Location"] == "/console/new"
    assert ApiKey.objects.get(pk=key.pk).revoked_at is not None


def test_the_page_costs_the_same_for_three_and_for_thirty(tenant):
    client = browser(owner_of(tenant))
    make_member(tenant, Role.VIEWER)
    client.get("/t/acme/team")
    with CaptureQueriesContext(connection) as few:
        client.get("/t/acme/team")

    for _ in range(27):
        make_member(tenant, Role.VIEWER)
        make_invitation(tenant, contact=make_user().email)
    with CaptureQueriesContext(connection) as many:
        client.get("/t/acme/team")

    assert len(many) == len(few) <= 16
    # Beside the console's frame: the members with their users, the invitations.
    assert sum("tenants_invitation" in query["sql"] for query in many) == 1
    assert sum('"tenants_membership"."created_at" ASC' in query["sql"] for query in many) == 1


# --- projects


def test_a_project_is_opened_renamed_and_made_default(tenant):
    client = browser(owner_of(tenant))

    client.post("/t/acme/projects", {"name": "Computer vision"})
    project = Project.objects.get(slug="computer-vision")
    path = f"/t/acme/projects/{to_text('prj', project.id)}"
    client.post(f"{path}/name", {"name": "Vision"})
    client.post(f"{path}/default")

    project.refresh_from_db()
    assert (project.name, project.slug, project.is_default) == ("Vision", "computer-vision", True)
    assert Project.objects.filter(is_default=True).count() == 1


def test_a_taken_short_name_is_said_beside_the_field(tenant):
    answer = browser(owner_of(tenant)).post(
        "/t/acme/projects", {"name": "Another", "slug": "default"}
    )

    assert answer.status_code == 409
    assert answer.context["form"].errors["slug"] == ["Another project has this short name."]
    assert Project.objects.count() == 1


# --- settings


def test_an_owner_changes_name_and_zone(tenant):
    client = browser(owner_of(tenant))

    client.post("/t/acme/settings", {"name": "Acme AI", "time_zone": "Europe/Berlin"})

    tenant.refresh_from_db()
    assert (tenant.name, tenant.time_zone, tenant.slug) == ("Acme AI", "Europe/Berlin", "acme")
    assert AuditEvent.objects.filter(verb="tenant.renamed").count() == 1


def test_a_zone_that_is_none_changes_nothing(tenant):
    answer = browser(owner_of(tenant)).post(
        "/t/acme/settings", {"name": "New", "time_zone": "../etc/passwd"}
    )

    tenant.refresh_from_db()
    assert answer.status_code == 422
    assert (tenant.name, tenant.time_zone) == ("Acme", "Asia/Shanghai")


def test_an_administrator_changes_no_settings(tenant):
    answer = browser(make_member(tenant, Role.ADMIN)).post(
        "/t/acme/settings", {"name": "New", "time_zone": "UTC"}
    )

    assert answer.status_code == 403
