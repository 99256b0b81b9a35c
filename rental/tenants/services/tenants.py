"""Tenants and their projects."""

import re
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants.errors import MalformedSlug, SlugTaken
from rental.tenants.models import Membership, Project, Role, Tenant, User
from rental.tenants.services._rows import refused_as

_SLUG: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def _check_slug(slug: str) -> None:
    if not _SLUG.fullmatch(slug):
        raise MalformedSlug(slug)


@transaction.atomic
def create_tenant(
    *, name: str, slug: str, owner: User, now: datetime, actor: Actor | None = None
) -> Tenant:
    """
    Open a tenant with ``owner`` in it and a default project. Its wallet opens on first use.

    Without an ``actor`` the owner is who did it.

    :raises MalformedSlug: if ``slug`` cannot be part of a host name
    :raises SlugTaken: if another tenant has it
    """
    _check_slug(slug)
    with refused_as(SlugTaken(slug)):
        tenant = Tenant.objects.create(
            name=name, slug=slug, time_zone=settings.BILLING_TIME_ZONE, created_at=now
        )
    Membership.objects.create(tenant=tenant, user=owner, role=Role.OWNER, created_at=now)
    Project.objects.create(
        tenant=tenant, slug="default", name="Default", is_default=True, created_at=now
    )
    record_event(
        tenant_id=tenant.id,
        actor=actor or Actor(kind="user", id=to_text("usr", owner.id)),
        verb="tenant.created",
        subject=to_text("ten", tenant.id),
        after={"name": name, "slug": slug, "owner": to_text("usr", owner.id)},
        now=now,
    )
    return tenant


@transaction.atomic
def create_project(*, tenant: Tenant, name: str, slug: str, actor: Actor, now: datetime) -> Project:
    """
    Open a cost centre.

    :raises MalformedSlug: if ``slug`` cannot be part of a host name
    :raises SlugTaken: if a project of the tenant has it
    """
    _check_slug(slug)
    with refused_as(SlugTaken(slug)):
        project = Project.objects.create(tenant=tenant, slug=slug, name=name, created_at=now)
    record_event(
        tenant_id=tenant.id,
        actor=actor,
        verb="project.created",
        subject=to_text("prj", project.id),
        after={"name": name, "slug": slug},
        now=now,
    )
    return project


def suspend_tenant(*, tenant: Tenant, actor: Actor, now: datetime) -> Tenant:
    """Let the tenant's keys only read. Its instances run on; ending them is another decision."""
    return _change(tenant, "status", Tenant.Status.SUSPENDED, "tenant.suspended", actor, now)


def resume_tenant(*, tenant: Tenant, actor: Actor, now: datetime) -> Tenant:
    """Undo ``suspend_tenant``."""
    return _change(tenant, "status", Tenant.Status.ACTIVE, "tenant.resumed", actor, now)


def set_verification_level(
    *, tenant: Tenant, level: Tenant.Verification, actor: Actor, now: datetime
) -> Tenant:
    """Write down how well the operator knows the tenant."""
    return _change(tenant, "verification_level", level, "tenant.verified", actor, now)


@transaction.atomic
def _change(
    tenant: Tenant, field: str, value: str, verb: str, actor: Actor, now: datetime
) -> Tenant:
    """Set one field of the locked row and audit it; setting what is set does nothing."""
    row = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    before = getattr(row, field)
    if before == value:
        return row
    setattr(row, field, value)
    row.save(update_fields=[field])
    record_event(
        tenant_id=row.id,
        actor=actor,
        verb=verb,
        subject=to_text("ten", row.id),
        before={field: before},
        after={field: value},
        now=now,
    )
    return row
