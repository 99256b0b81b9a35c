"""Tenants, projects and members, each change with its audit event or not at all."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, transaction

from rental.records.ids import to_text
from rental.records.models import AuditEvent
from rental.tenants import services
from rental.tenants.errors import (
    AlreadyAMember,
    LastOwner,
    MalformedSlug,
    NotAMember,
    SlugTaken,
)
from rental.tenants.models import ApiKey, Membership, Project, Role, SshKey, Tenant
from tests.factories.tenants import (
    NOON,
    OPERATOR,
    default_project,
    make_api_key,
    make_member,
    make_ssh_key,
    make_tenant,
    make_user,
    owner_of,
)

pytestmark = pytest.mark.django_db


def events(tenant):
    return list(AuditEvent.objects.of(tenant.id).order_by("id").values_list("verb", flat=True))


def test_a_tenant_has_an_owner_and_a_default_project_and_an_event():
    owner = make_user()

    tenant = services.create_tenant(name="Acme", slug="acme", owner=owner, now=NOON)

    assert (tenant.status, tenant.verification_level) == ("active", "none")
    assert tenant.created_at == NOON
    assert list(Membership.objects.of(tenant.id).values_list("user", "role")) == [
        (owner.id, "owner")
    ]
    assert default_project(tenant).slug == "default"
    event = AuditEvent.objects.of(tenant.id).get()
    assert (event.verb, event.subject) == ("tenant.created", to_text("ten", tenant.id))
    assert (event.actor_kind, event.actor_id) == ("user", to_text("usr", owner.id))
    assert event.after == {"name": "Acme", "slug": "acme", "owner": to_text("usr", owner.id)}


def test_a_taken_slug_leaves_no_trace():
    first = make_tenant(slug="acme")
    events_before = AuditEvent.objects.count()

    with pytest.raises(SlugTaken):
        services.create_tenant(name="Other", slug="acme", owner=owner_of(first), now=NOON)

    assert list(Tenant.objects.all()) == [first]
    assert Membership.objects.count() == 1
    assert Project.objects.count() == 1
    assert AuditEvent.objects.count() == events_before


@pytest.mark.parametrize("slug", ["", "A", "-a", "a-", "a_b", "a.b", "a" * 41, "ä", "a\n"])
def test_what_is_no_slug(slug):
    owner = make_user()

    with pytest.raises(MalformedSlug):
        services.create_tenant(name="Acme", slug=slug, owner=owner, now=NOON)

    assert not Tenant.objects.exists()


@pytest.mark.parametrize("slug", ["a", "a" * 40, "a-1", "0"])
def test_what_is_a_slug(slug):
    services.create_tenant(name="Acme", slug=slug, owner=make_user(), now=NOON)

    assert Tenant.objects.get().slug == slug


def test_a_project_slug_is_unique_in_its_tenant_only():
    ours, theirs = make_tenant(), make_tenant()
    facts = {"name": "Vision", "slug": "vision", "actor": OPERATOR, "now": NOON}
    services.create_project(tenant=ours, **facts)
    services.create_project(tenant=theirs, **facts)

    with pytest.raises(SlugTaken):
        services.create_project(tenant=ours, **facts)

    assert Project.objects.of(ours.id).count() == 2
    assert events(ours) == ["tenant.created", "project.created"]


def test_a_second_default_project_is_refused_by_the_database():
    tenant = make_tenant()

    with pytest.raises(IntegrityError, match="project_default_is_one"), transaction.atomic():
        Project.objects.create(tenant=tenant, slug="x", name="x", is_default=True)


def test_suspending_twice_is_one_event():
    tenant = make_tenant()

    services.suspend_tenant(tenant=tenant, actor=OPERATOR, now=NOON)
    services.suspend_tenant(tenant=tenant, actor=OPERATOR, now=NOON)
    assert Tenant.objects.get().status == "suspended"
    services.resume_tenant(tenant=tenant, actor=OPERATOR, now=NOON)

    assert Tenant.objects.get().status == "active"
    assert events(tenant) == ["tenant.created", "tenant.suspended", "tenant.resumed"]


def test_verification_is_audited_with_before_and_after():
    tenant = make_tenant()

    services.set_verification_level(
        tenant=tenant, level=Tenant.Verification.PERSON, actor=OPERATOR, now=NOON
    )

    event = AuditEvent.objects.of(tenant.id).get(verb="tenant.verified")
    assert event.before == {"verification_level": "none"}
    assert event.after == {"verification_level": "person"}


# --- members


def test_a_member_is_added_once():
    tenant, user = make_tenant(), make_user()
    make_member(tenant, Role.VIEWER, user=user)

    with pytest.raises(AlreadyAMember):
        make_member(tenant, Role.ADMIN, user=user)

    assert Membership.objects.of(tenant.id).get(user=user).role == "viewer"
    assert events(tenant) == ["tenant.created", "member.added"]


def test_the_last_owner_can_neither_leave_nor_step_down():
    tenant = make_tenant()
    owner = owner_of(tenant)
    facts = {"tenant": tenant, "user": owner, "actor": OPERATOR, "now": NOON}

    with pytest.raises(LastOwner):
        services.remove_member(**facts)
    with pytest.raises(LastOwner):
        services.change_member_role(role=Role.ADMIN, **facts)

    assert owner_of(tenant) == owner
    assert events(tenant) == ["tenant.created"]
    make_member(tenant, Role.OWNER)
    services.remove_member(**facts)
    assert owner_of(tenant) != owner


def test_who_leaves_leaves_his_keys_behind():
    ours, theirs = make_tenant(), make_tenant()
    user = make_member(ours, Role.DEVELOPER)
    make_member(theirs, Role.DEVELOPER, user=user)
    keys = [make_api_key(t, scopes=["instances:read"], created_by=user)[0] for t in (ours, theirs)]
    ssh = [make_ssh_key(tenant, user=user) for tenant in (ours, theirs)]

    services.remove_member(tenant=ours, user=user, actor=OPERATOR, now=NOON)

    assert [ApiKey.objects.get(pk=key.pk).revoked_at for key in keys] == [NOON, None]
    assert [SshKey.objects.get(pk=key.pk).deleted_at for key in ssh] == [NOON, None]
    event = AuditEvent.objects.of(ours.id).get(verb="member.removed")
    assert event.before == {
        "role": "developer",
        "api_keys": [to_text("key", keys[0].pk)],
        "ssh_keys": [to_text("ssh", ssh[0].pk)],
    }


def test_a_stranger_is_no_member():
    tenant, stranger = make_tenant(), make_user()

    with pytest.raises(NotAMember):
        services.remove_member(tenant=tenant, user=stranger, actor=OPERATOR, now=NOON)
    with pytest.raises(NotAMember):
        services.change_member_role(
            tenant=tenant, user=stranger, role=Role.OWNER, actor=OPERATOR, now=NOON
        )

    assert events(tenant) == ["tenant.created"]


@pytest.mark.django_db(transaction=True)
def test_of_two_owners_who_leave_at_once_one_stays():
    tenant = make_tenant()
    owners = [owner_of(tenant), make_member(tenant, Role.OWNER)]
    start = threading.Barrier(2)

    def leave(user):
        try:
            start.wait()
            services.remove_member(tenant=tenant, user=user, actor=OPERATOR, now=NOON)
        except LastOwner:
            return "stays"
        else:
            return "left"
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        ends = sorted(pool.map(leave, owners))

    assert ends == ["left", "stays"]
    assert Membership.objects.of(tenant.id).filter(role=Role.OWNER).count() == 1
