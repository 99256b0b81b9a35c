"""People: made, found by how they are reached, and changed."""

from datetime import datetime

from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants.contacts import Contact
from rental.tenants.errors import EmailOrPhoneTaken
from rental.tenants.models import Consent, User
from rental.tenants.services._rows import refused_as


@transaction.atomic
def create_user(
    *,
    email: str | None = None,
    phone: str | None = None,
    name: str = "",
    language: str = "zh-hans",
    password: str | None = None,
    password_hash: str | None = None,
    is_staff: bool = False,
    is_superuser: bool = False,
    is_verified: bool = False,
    actor: Actor | None = None,
    now: datetime,
) -> User:
    """
    Make a user. Without a password he cannot log in until one is set; without an ``actor`` he
    did it himself.

    :param password_hash: what ``make_password`` made of one that was typed earlier
    :param is_verified: a code has proved that he reads what is sent to his contact

    :raises ValueError: if there is neither an e-mail address nor a phone number
    :raises EmailOrPhoneTaken: if another user has one of them
    """
    with refused_as(EmailOrPhoneTaken("another user has this e-mail address or phone number")):
        user = User.objects.create_user(
            email,
            password,
            phone=phone,
            name=name,
            language=language,
            is_staff=is_staff,
            is_superuser=is_superuser,
            created_at=now,
            email_verified_at=now if email and is_verified else None,
            phone_verified_at=now if phone and is_verified else None,
        )
    if password_hash is not None:
        user.password = password_hash
        user.save(update_fields=["password"])
    record_event(
        tenant_id=None,
        actor=actor or himself(user),
        verb="user.created",
        subject=to_text("usr", user.id),
        after={"is_staff": is_staff, "is_superuser": is_superuser},
        now=now,
    )
    return user


def himself(user: User) -> Actor:
    return Actor(kind="user", id=to_text("usr", user.pk))


def find_user(contact: Contact) -> User | None:
    """Return who is reached there, active or not."""
    return User.objects.filter(**{contact.kind: contact.value}).first()


def rename_user(*, user: User, name: str) -> None:
    """Set the name by which others see him. Nobody's business but his, so it is not audited."""
    User.objects.filter(pk=user.pk).update(name=name)
    user.name = name


def set_language(*, user: User, language: str) -> None:
    """Keep the language in which he reads; every page follows it from the next request on."""
    if user.language != language:
        User.objects.filter(pk=user.pk).update(language=language)
        user.language = language


@transaction.atomic
def set_contact(*, user: User, contact: Contact, is_verified: bool, now: datetime) -> User:
    """
    Let the user be reached, and sign in, by ``contact`` in place of the former one of its kind.

    :raises EmailOrPhoneTaken: if it is another user's
    """
    row = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    had = getattr(row, contact.kind)
    setattr(row, contact.kind, contact.value)
    if had != contact.value or is_verified:
        setattr(row, f"{contact.kind}_verified_at", now if is_verified else None)
    with refused_as(EmailOrPhoneTaken("another user has this e-mail address or phone number")):
        row.save(update_fields=[contact.kind, f"{contact.kind}_verified_at"])
    record_event(
        tenant_id=None,
        actor=himself(user),
        verb="user.contact_changed",
        subject=to_text("usr", user.pk),
        # What is kept seven years names no address.
        after={"kind": contact.kind, "verified": is_verified, "was_set": had is not None},
        now=now,
    )
    return row


@transaction.atomic
def reset_password(*, user: User, contact: Contact, password: str, now: datetime) -> None:
    """
    Set the password of a user who has proved his contact by a code. Signed-in browsers fall out,
    since their sessions are bound to the former one.
    """
    row = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    row.set_password(password)
    setattr(row, f"{contact.kind}_verified_at", now)
    row.save(update_fields=["password", f"{contact.kind}_verified_at"])
    record_event(
        tenant_id=None,
        actor=himself(user),
        verb="user.password_reset",
        subject=to_text("usr", user.pk),
        after={"by": contact.kind},
        now=now,
    )


@transaction.atomic
def record_consent(*, user: User, document: str, version: str, now: datetime) -> Consent:
    """Keep that ``user`` agreed to a document; agreeing again to the same version is no event."""
    consent, is_new = Consent.objects.get_or_create(
        user=user, document=document, version=version, defaults={"at": now}
    )
    if is_new:
        record_event(
            tenant_id=None,
            actor=Actor(kind="user", id=to_text("usr", user.id)),
            verb="consent.given",
            subject=to_text("usr", user.id),
            after={"document": document, "version": version},
            now=now,
        )
    return consent
