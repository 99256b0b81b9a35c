"""SSH keys of a tenant: one row a key, removed but remembered."""

import pytest

from rental.records.models import AuditEvent
from rental.tenants import services
from rental.tenants.errors import MalformedSshKey, NotAMember, SshKeyExists, UnknownSshKey
from rental.tenants.models import SshKey
from tests.factories.tenants import (
    ED25519,
    ED25519_FINGERPRINT,
    NOON,
    OPERATOR,
    make_ssh_key,
    make_tenant,
    make_user,
    owner_of,
)

pytestmark = pytest.mark.django_db


def test_a_key_is_kept_without_its_comment_and_audited():
    tenant = make_tenant()

    key = make_ssh_key(tenant, public_key=f"{ED25519} ann@laptop\n")

    assert (key.public_key, key.fingerprint) == (ED25519, ED25519_FINGERPRINT)
    event = AuditEvent.objects.of(tenant.id).get(verb="ssh_key.added")
    assert event.after == {"name": "laptop", "fingerprint": ED25519_FINGERPRINT}


def test_without_a_name_it_goes_by_its_comment():
    tenant = make_tenant()

    key = services.add_ssh_key(
        tenant=tenant,
        user=owner_of(tenant),
        name="",
        public_key=f"{ED25519} ann@laptop",
        actor=OPERATOR,
        now=NOON,
    )

    assert key.name == "ann@laptop"


def test_a_tenant_has_a_key_once_and_another_tenant_may_have_it_too():
    ours, theirs = make_tenant(), make_tenant()
    make_ssh_key(ours)
    make_ssh_key(theirs)

    with pytest.raises(SshKeyExists) as refusal:
        make_ssh_key(ours)

    assert refusal.value.fingerprint == ED25519_FINGERPRINT
    assert SshKey.objects.of(ours.id).count() == 1
    assert AuditEvent.objects.of(ours.id).filter(verb="ssh_key.added").count() == 1


def test_a_removed_key_stays_on_record_and_can_be_added_again():
    tenant = make_tenant()
    key = make_ssh_key(tenant)
    facts = {"tenant_id": tenant.id, "key_id": key.id, "actor": OPERATOR, "now": NOON}

    services.remove_ssh_key(**facts)

    assert not SshKey.objects.of(tenant.id).live().exists()
    assert SshKey.objects.get(pk=key.pk).deleted_at == NOON
    with pytest.raises(UnknownSshKey):
        services.remove_ssh_key(**facts)
    make_ssh_key(tenant)
    assert SshKey.objects.of(tenant.id).count() == 2


def test_a_stranger_can_neither_remove_nor_add():
    tenant, stranger = make_tenant(), make_tenant()
    key = make_ssh_key(tenant)

    with pytest.raises(UnknownSshKey):
        services.remove_ssh_key(tenant_id=stranger.id, key_id=key.id, actor=OPERATOR, now=NOON)
    with pytest.raises(NotAMember):
        make_ssh_key(stranger, user=make_user())

    assert SshKey.objects.of(tenant.id).live().get() == key
    assert not SshKey.objects.of(stranger.id).exists()
    assert not AuditEvent.objects.filter(verb="ssh_key.removed").exists()


def test_a_malformed_key_leaves_no_trace():
    tenant = make_tenant()

    with pytest.raises(MalformedSshKey):
        make_ssh_key(tenant, public_key="ssh-dss AAAA")

    assert not SshKey.objects.exists()
    assert not AuditEvent.objects.filter(verb="ssh_key.added").exists()
