"""Tenants, people and keys for tests. Values are exact; counters keep unique ones apart."""

from datetime import UTC, datetime
from itertools import count

from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.tenants import services
from rental.tenants.contacts import parse_contact
from rental.tenants.models import Membership, Project, Role, Tenant, User

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
OPERATOR = Actor(kind="staff", id="usr_operator")

# Made for the tests with ssh-keygen; the private halves were thrown away.
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPnJLXhcWzXC7r5E8QRMr6Q5vhOTfohFewD/Q57/gdNb"
ED25519_FINGERPRINT = "SHA256:Qi20KnbhQAOy29UJbggNOHDgZZpR0+0jxZvCROG9ee4"

_numbers = count(1)


def make_user(*, email: str | None = None, **fields) -> User:
    email = email or f"person{next(_numbers)}@example.com"
    fields.setdefault("language", "en")  # what tests read
    return services.create_user(email=email, actor=OPERATOR, now=NOON, **fields)


def make_tenant(*, slug: str | None = None, owner: User | None = None, **fields) -> Tenant:
    """A tenant with its owner and default project, as ``create_tenant`` makes it."""
    tenant = services.create_tenant(
        name="Acme",
        slug=slug or f"acme-{next(_numbers)}",
        owner=owner or make_user(),
        now=NOON,
    )
    if fields:
        Tenant.objects.filter(pk=tenant.pk).update(**fields)
        tenant.refresh_from_db()
    return tenant


def owner_of(tenant: Tenant) -> User:
    return Membership.objects.of(tenant.id).get(role=Role.OWNER).user


def default_project(tenant: Tenant) -> Project:
    return Project.objects.of(tenant.id).get(is_default=True)


def make_member(tenant: Tenant, role: Role, *, user: User | None = None) -> User:
    user = user or make_user()
    services.add_member(tenant=tenant, user=user, role=role, actor=OPERATOR, now=NOON)
    return user


def make_api_key(
    tenant: Tenant, *, scopes=("*",), created_by: User | None = None, now=NOON, **rest
):
    """Return (ApiKey, text). ``*`` works for owners; pass scopes for others."""
    return services.issue_api_key(
        tenant=tenant,
        name="test key",
        scopes=scopes,
        expires_at=rest.pop("expires_at", None),
        created_by=created_by or owner_of(tenant),
        actor=rest.pop("actor", OPERATOR),
        now=now,
        **rest,
    )


def make_invitation(
    tenant: Tenant, *, contact="bob@example.com", role=Role.DEVELOPER, by=None, now=None
):
    """Return (Invitation, token), made by the owner unless ``by`` is given."""
    return services.invite(
        tenant=tenant,
        contact=parse_contact(contact),
        role=role,
        invited_by=by or owner_of(tenant),
        actor=OPERATOR,
        now=now or database_now(),
    )


def make_ssh_key(tenant: Tenant, *, public_key: str = ED25519, user: User | None = None):
    user = user or owner_of(tenant)
    return services.add_ssh_key(
        tenant=tenant, user=user, name="laptop", public_key=public_key, actor=OPERATOR, now=NOON
    )
