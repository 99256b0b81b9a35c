"""People. They come from the seed and the admin; nobody signs up by himself yet."""

from datetime import datetime

from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
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
    is_staff: bool = False,
    is_superuser: bool = False,
    actor: Actor,
    now: datetime,
) -> User:
    """
    Make a user. Without a password he cannot log in until one is set.

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
        )
    record_event(
        tenant_id=None,
        actor=actor,
        verb="user.created",
        subject=to_text("usr", user.id),
        after={"is_staff": is_staff, "is_superuser": is_superuser},
        now=now,
    )
    return user


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
