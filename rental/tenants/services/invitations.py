"""Invitations: a place in a tenant that waits for a person, opened by a link shown once."""

import hashlib
import secrets
import uuid
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants import permissions
from rental.tenants.contacts import Contact, kept_contact
from rental.tenants.errors import (
    AlreadyAMember,
    InvitationOver,
    InvitedSomebodyElse,
    UnknownInvitation,
)
from rental.tenants.models import Invitation, Membership, Role, Tenant, User
from rental.tenants.services.members import add_member, check_owners_say

LIFE: Final = timedelta(days=7)


def _digest(token: str) -> str:
    # A fast hash is enough: the token is 256 random bits, not somebody's word.
    return hashlib.sha256(token.encode()).hexdigest()


@transaction.atomic
def invite(
    *,
    tenant: Tenant,
    contact: Contact,
    role: Role,
    invited_by: User | None,
    by: str | None = None,
    actor: Actor,
    now: datetime,
) -> tuple[Invitation, str]:
    """
    Return an invitation and the token of its link, which is kept nowhere. An older open one for
    the same contact ends.

    :param invited_by: None where the operator invites
    :param by: the role of who asks; None where the operator does
    :raises AlreadyAMember: if who owns the contact is in the tenant
    :raises OnlyAnOwner: if ``by`` is none and would make an owner
    """
    check_owners_say(by, role)
    if Membership.objects.of(tenant.id).filter(**{f"user__{contact.kind}": contact.value}).exists():
        raise AlreadyAMember(contact.value)
    Invitation.objects.of(tenant.id).open(at=now).filter(contact=contact.value).update(
        revoked_at=now
    )
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        tenant=tenant,
        contact=contact.value,
        role=role,
        digest=_digest(token),
        invited_by=invited_by,
        created_at=now,
        expires_at=now + LIFE,
    )
    record_event(
        tenant_id=tenant.id,
        actor=actor,
        verb="invitation.made",
        subject=to_text("inv", invitation.id),
        after={"contact": contact.masked, "role": role},
        now=now,
    )
    return invitation, token


@transaction.atomic
def revoke_invitation(
    *, tenant_id: uuid.UUID, invitation_id: uuid.UUID, actor: Actor, now: datetime
) -> Invitation:
    """
    Make the link worthless.

    :raises UnknownInvitation: if the tenant has none such that is open
    """
    rows = Invitation.objects.of(tenant_id).open(at=now).filter(pk=invitation_id)
    invitation = rows.select_for_update(no_key=True).first()
    if invitation is None:
        raise UnknownInvitation(to_text("inv", invitation_id))
    invitation.revoked_at = now
    invitation.save(update_fields=["revoked_at"])
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="invitation.revoked",
        subject=to_text("inv", invitation.id),
        now=now,
    )
    return invitation


def find_invitation(*, token: str, now: datetime) -> Invitation:
    """
    Return what the link opens, with its tenant.

    :raises UnknownInvitation: if there is none
    :raises InvitationOver: if it is expired, used or revoked
    """
    rows = Invitation.objects.select_related("tenant", "invited_by")
    return _checked(rows.filter(digest=_digest(token)).first(), now)


@transaction.atomic
def accept_invitation(*, token: str, user: User, now: datetime) -> Membership:
    """
    Let ``user`` in.

    :raises UnknownInvitation: if there is none
    :raises InvitationOver: if it is expired, used or revoked
    :raises InvitedSomebodyElse: if it names another contact than his
    :raises AlreadyAMember: if he is in already
    """
    rows = Invitation.objects.select_related("tenant", "invited_by")
    found = rows.filter(digest=_digest(token)).select_for_update(of=("self",), no_key=True).first()
    invitation = _checked(found, now)
    if invitation.contact not in (user.email, user.phone):
        raise InvitedSomebodyElse(masked(invitation))
    member = add_member(
        tenant=invitation.tenant,
        user=user,
        role=Role(invitation.role),
        actor=Actor(kind="user", id=to_text("usr", user.pk)),
        now=now,
    )
    invitation.accepted_at, invitation.accepted_by = now, user
    invitation.save(update_fields=["accepted_at", "accepted_by"])
    return member


def contact_of(invitation: Invitation) -> Contact:
    return kept_contact(invitation.contact)


def masked(invitation: Invitation) -> str:
    """Return for whom it is, as whoever holds the link may see it."""
    return contact_of(invitation).masked


def _checked(invitation: Invitation | None, now: datetime) -> Invitation:
    if invitation is None:
        raise UnknownInvitation("no invitation has this link")
    if invitation.accepted_at is not None:
        raise InvitationOver("used")
    if invitation.revoked_at is not None:
        raise InvitationOver("revoked")
    if invitation.expires_at <= now:
        raise InvitationOver("expired")
    by = invitation.invited_by
    # Like a key, it can do no more than the person who made it may now.
    if by is not None and not _may_invite(invitation.tenant, by, Role(invitation.role)):
        raise InvitationOver("revoked")
    return invitation


def _may_invite(tenant: Tenant, user: User, role: Role) -> bool:
    member = Membership.objects.of(tenant.id).filter(user=user, user__is_active=True).first()
    if member is None or not permissions.may(member.role, "members:write"):
        return False
    return role != Role.OWNER or member.role == Role.OWNER
