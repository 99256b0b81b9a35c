"""SSH keys of a tenant's people."""

import uuid
from datetime import datetime

from django.db import transaction

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants.errors import NotAMember, SshKeyExists, UnknownSshKey
from rental.tenants.models import Membership, SshKey, Tenant, User
from rental.tenants.services._reach import check_reach
from rental.tenants.services._rows import refused_as
from rental.tenants.ssh import parse_public_key


@transaction.atomic
def add_ssh_key(
    *, tenant: Tenant, user: User, name: str, public_key: str, actor: Actor, now: datetime
) -> SshKey:
    """
    Keep a public key; without a ``name`` it goes by its comment, else by its fingerprint.

    :raises MalformedSshKey: if the text is no public key that we take (``ssh.py`` says which)
    :raises NotAMember: if ``user`` does not belong to the tenant
    :raises SshKeyExists: if the tenant has it already
    """
    parsed = parse_public_key(public_key)
    if not Membership.objects.of(tenant.id).filter(user=user).exists():
        raise NotAMember(str(user))
    with refused_as(SshKeyExists(parsed.fingerprint)):
        key = SshKey.objects.create(
            tenant=tenant,
            user=user,
            name=(name or parsed.comment or parsed.fingerprint)[:80],
            public_key=parsed.text,
            fingerprint=parsed.fingerprint,
            created_at=now,
        )
    record_event(
        tenant_id=tenant.id,
        actor=actor,
        verb="ssh_key.added",
        subject=to_text("ssh", key.id),
        after={"name": key.name, "fingerprint": key.fingerprint},
        now=now,
    )
    return key


@transaction.atomic
def remove_ssh_key(
    *, tenant_id: uuid.UUID, key_id: uuid.UUID, actor: Actor, now: datetime
) -> SshKey:
    """
    Take a key off the list: new instances do not get it. The row stays, for the record.

    People remove their own; those of others only who may change members.

    :raises UnknownSshKey: if the tenant has no such key that is not removed
    :raises NotYourKey: see ``check_reach``
    """
    rows = SshKey.objects.of(tenant_id).live().filter(pk=key_id)
    key = rows.select_for_update(no_key=True).first()
    if key is None:
        raise UnknownSshKey(to_text("ssh", key_id))
    check_reach(
        tenant_id=tenant_id,
        owner_id=key.user_id,
        key=to_text("ssh", key.id),
        actor=actor,
        now=now,
    )
    key.deleted_at = now
    key.save(update_fields=["deleted_at"])
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="ssh_key.removed",
        subject=to_text("ssh", key.id),
        before={"name": key.name, "fingerprint": key.fingerprint},
        now=now,
    )
    return key
