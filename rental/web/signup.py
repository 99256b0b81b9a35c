"""
Sign-up: a person, his tenant and its trial credit, in one transaction.

It stands here because it needs both people (rental.tenants) and money (billing), which know
nothing of each other.
"""

import hashlib
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext

from billing.errors import TransferKeyReused
from billing.services.wallets import credit
from rental.records.audit import Actor
from rental.tenants import services
from rental.tenants.contacts import Contact
from rental.tenants.models import Membership, Tenant, User

GIVER: Final = Actor(kind="system", id="signup")
TERMS: Final = "terms"


@dataclass(frozen=True)
class Wanted:
    """What the form asked for. ``password_hash``: of ``make_password``; it may lie in a session."""

    contact: Contact
    password_hash: str
    language: str
    organization: str = ""
    agrees: bool = False


@transaction.atomic
def sign_up(wanted: Wanted, *, is_verified: bool, now: datetime) -> tuple[User, Tenant]:
    """
    Make a user, his tenant with a default project, and give the trial credit.

    :param is_verified: a code has proved the contact
    :raises EmailOrPhoneTaken: if the contact is another user's; nothing is made then
    """
    user = _make_user(wanted, is_verified=is_verified, now=now)
    tenant = services.create_tenant_named(
        name=wanted.organization or _name_of(wanted.contact),
        # Digits of a number do not belong into addresses that others see.
        slug_from="" if wanted.contact.kind == "phone" and not wanted.organization else None,
        owner=user,
        project_name=gettext("Default"),
        now=now,
    )
    if is_verified:
        level = Tenant.Verification.CONTACT
        tenant = services.set_verification_level(tenant=tenant, level=level, actor=GIVER, now=now)
    give_trial_credit(tenant_id=tenant.id, contact=wanted.contact, now=now)
    return user, tenant


@transaction.atomic
def join(wanted: Wanted, *, token: str, is_verified: bool, now: datetime) -> tuple[User, Tenant]:
    """
    Make a user in the tenant that invited him. He opens none of his own, and gets no credit.

    :raises EmailOrPhoneTaken: if the contact is another user's; nothing is made then
    :raises UnknownInvitation, InvitationOver, InvitedSomebodyElse: see ``accept_invitation``
    """
    user = _make_user(wanted, is_verified=is_verified, now=now)
    member: Membership = services.accept_invitation(token=token, user=user, now=now)
    return user, member.tenant


def give_trial_credit(*, tenant_id: uuid.UUID, contact: Contact, now: datetime) -> None:
    """
    Credit what a new tenant starts with, once for each contact: who frees an address for a
    second account gets nothing for it.
    """
    amount = settings.SIGNUP_TRIAL_CREDIT
    if amount <= 0:
        return
    # A hash, since ledgers are kept for years and read by many.
    digest = hashlib.sha256(contact.value.encode()).hexdigest()
    with suppress(TransferKeyReused):
        credit(
            tenant_id=tenant_id,
            amount=amount,
            reason=gettext("Trial credit"),
            actor=GIVER,
            key=f"trial:{digest}",
            now=now,
        )


def _make_user(wanted: Wanted, *, is_verified: bool, now: datetime) -> User:
    contact = wanted.contact
    user = services.create_user(
        email=contact.value if contact.kind == "email" else None,
        phone=contact.value if contact.kind == "phone" else None,
        language=wanted.language,
        password_hash=wanted.password_hash,
        is_verified=is_verified,
        now=now,
    )
    if wanted.agrees:
        version = settings.SIGNUP_TERMS_VERSION
        services.record_consent(user=user, document=TERMS, version=version, now=now)
    return user


def _name_of(contact: Contact) -> str:
    """Name the tenant of a person who named none: the member's list shows it to nobody else."""
    if contact.kind == "email":
        return contact.value.partition("@")[0][:80]
    return gettext("User %s") % contact.value[-4:]
