"""Who belongs to a tenant, and as what."""

from datetime import datetime

from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants.errors import AlreadyAMember, LastOwner, OnlyAnOwner, UnknownMember
from rental.tenants.models import ApiKey, Membership, Role, SshKey, Tenant, User
from rental.tenants.services._rows import refused_as


@transaction.atomic
def add_member(
    *, tenant: Tenant, user: User, role: Role, actor: Actor, now: datetime
) -> Membership:
    """:raises AlreadyAMember: if the user belongs to the tenant"""
    with refused_as(AlreadyAMember(str(user))):
        member = Membership.objects.create(tenant=tenant, user=user, role=role, created_at=now)
    record_event(
        tenant_id=tenant.id,
        actor=actor,
        verb="member.added",
        subject=to_text("usr", user.id),
        after={"role": role},
        now=now,
    )
    return member


@transaction.atomic
def change_member_role(
    *,
    tenant: Tenant,
    user: User,
    role: Role,
    actor: Actor,
    now: datetime,
    by: str | None = None,
) -> Membership:
    """
    Give a member another role. His keys shrink with it from their next request on.

    :param by: the role of who asks; None where the operator does
    :raises UnknownMember: if the user does not belong to the tenant
    :raises OnlyAnOwner: if ``by`` is none and an owner would come or go
    :raises LastOwner: if the tenant would be without an owner
    """
    member = _locked(tenant, user, keeps_owner=role == Role.OWNER)
    before = member.role
    if before != role:
        check_owners_say(by, before, role)
        member.role = role
        member.save(update_fields=["role"])
        record_event(
            tenant_id=tenant.id,
            actor=actor,
            verb="member.role_changed",
            subject=to_text("usr", user.id),
            before={"role": before},
            after={"role": role},
            now=now,
        )
    return member


@transaction.atomic
def remove_member(
    *, tenant: Tenant, user: User, actor: Actor, now: datetime, by: str | None = None
) -> None:
    """
    Let a member go, and with him the API and SSH keys that he had in this tenant.

    :param by: the role of who asks; None where the operator does, or the member himself
    :raises UnknownMember: if the user does not belong to the tenant
    :raises OnlyAnOwner: if ``by`` is none and an owner would go
    :raises LastOwner: if the tenant would be without an owner
    """
    member = _locked(tenant, user, keeps_owner=False)
    before = member.role
    check_owners_say(by, before)
    member.delete()
    api_keys = ApiKey.objects.of(tenant.id).filter(created_by=user, revoked_at__isnull=True)
    revoked = [to_text("key", pk) for pk in api_keys.values_list("pk", flat=True)]
    api_keys.update(revoked_at=now)
    ssh_keys = SshKey.objects.of(tenant.id).live().filter(user=user)
    removed = [to_text("ssh", pk) for pk in ssh_keys.values_list("pk", flat=True)]
    ssh_keys.update(deleted_at=now)
    record_event(
        tenant_id=tenant.id,
        actor=actor,
        verb="member.removed",
        subject=to_text("usr", user.id),
        before={"role": before, "api_keys": revoked, "ssh_keys": removed},
        now=now,
    )


def put_first_steps_away(*, member: Membership, now: datetime) -> None:
    """Show the member the list of first steps no more."""
    Membership.objects.filter(pk=member.pk, onboarded_at__isnull=True).update(onboarded_at=now)


def check_owners_say(by: str | None, *roles: str) -> None:
    """
    An administrator could otherwise make himself an owner, or the owner a viewer.

    :raises OnlyAnOwner: if one of ``roles`` is an owner's and ``by`` is not
    """
    if by is not None and by != Role.OWNER and Role.OWNER in roles:
        raise OnlyAnOwner


def _locked(tenant: Tenant, user: User, *, keeps_owner: bool) -> Membership:
    """
    Return the membership, locked with all owners of the tenant: two owners who leave at the same
    moment would each see the other stay.
    """
    rows = Membership.objects.of(tenant.id).select_for_update(no_key=True).order_by("pk")
    owners = {row.user_id for row in rows.filter(role=Role.OWNER)}
    member = rows.filter(user=user).first()
    if member is None:
        raise UnknownMember(str(user))
    if not keeps_owner and owners == {user.pk}:
        raise LastOwner(str(user))
    return member
