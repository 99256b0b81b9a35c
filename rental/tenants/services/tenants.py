"""Tenants and their projects."""

import re
import secrets
import unicodedata
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants.errors import MalformedSlug, SlugTaken, UnknownTimeZone
from rental.tenants.models import Membership, Project, Role, Tenant, User
from rental.tenants.services._rows import refused_as

_TAIL: Final = "abcdefghjkmnpqrstvwxyz23456789"  # nothing that is mistaken when read aloud
_SLUG: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def check_slug(slug: str) -> None:
    """:raises MalformedSlug: if it cannot be part of a host name"""
    if not _SLUG.fullmatch(slug):
        raise MalformedSlug(slug)


@transaction.atomic
def create_tenant(
    *,
    name: str,
    slug: str,
    owner: User,
    now: datetime,
    actor: Actor | None = None,
    project_name: str = "Default",
) -> Tenant:
    """
    Open a tenant with ``owner`` in it and a default project. Its wallet opens on first use.

    Without an ``actor`` the owner is who did it.

    :raises MalformedSlug: if ``slug`` cannot be part of a host name
    :raises SlugTaken: if another tenant has it
    """
    check_slug(slug)
    with refused_as(SlugTaken(slug)):
        tenant = Tenant.objects.create(
            name=name, slug=slug, time_zone=settings.BILLING_TIME_ZONE, created_at=now
        )
    Membership.objects.create(tenant=tenant, user=owner, role=Role.OWNER, created_at=now)
    Project.objects.create(
        tenant=tenant, slug="default", name=project_name, is_default=True, created_at=now
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


def slug_of(name: str, *, otherwise: str) -> str:
    """
    Return what the ASCII letters and digits of ``name`` make, at most 30; ``otherwise`` and four
    random characters where that is too little to know it by (a Chinese name, a number).
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:30].strip("-")
    return slug if len(re.sub(r"[^a-z]", "", slug)) >= 2 else with_tail(otherwise)


def create_tenant_named(
    *,
    name: str,
    owner: User,
    now: datetime,
    slug_from: str | None = None,
    project_name: str = "Default",
) -> Tenant:
    """
    Open a tenant under a slug made from ``slug_from``, or else from its name; a taken one gets a
    tail.
    """
    slug = slug_of(name if slug_from is None else slug_from, otherwise="t")
    for candidate in (slug, *(with_tail(slug) for _ in range(5))):
        try:
            return create_tenant(
                name=name, slug=candidate, owner=owner, now=now, project_name=project_name
            )
        except SlugTaken:
            continue
    raise SlugTaken(slug)


def with_tail(slug: str) -> str:
    """Return the slug with four random characters behind it, for where it is taken."""
    return f"{slug}-{''.join(secrets.choice(_TAIL) for _ in range(4))}"


def change_tenant(
    *,
    tenant: Tenant,
    name: str | None = None,
    time_zone: str | None = None,
    actor: Actor,
    now: datetime,
) -> Tenant:
    """
    Give the tenant another name or another zone for what is displayed; None leaves it.

    :raises UnknownTimeZone: if there is no such zone
    """
    if time_zone is not None:
        _check_zone(time_zone)
    with transaction.atomic():
        if name is not None:
            tenant = _change(tenant, "name", name, "tenant.renamed", actor, now)
        if time_zone is not None:
            tenant = _change(tenant, "time_zone", time_zone, "tenant.changed", actor, now)
    return tenant


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    # The key is a path to zoneinfo: what is none of its files fails in several ways.
    except (KeyError, ValueError, OSError):
        raise UnknownTimeZone(name) from None


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
