"""Whose keys somebody may end: his own, and those of others only who may change members."""

import pytest

from rental.records.audit import Actor, AuditEvent
from rental.records.ids import to_text
from rental.tenants import services
from rental.tenants.errors import NotYourKey
from rental.tenants.models import ApiKey, Membership, Role, SshKey
from tests.factories.tenants import (
    NOON,
    make_api_key,
    make_member,
    make_ssh_key,
    make_tenant,
    owner_of,
)

pytestmark = pytest.mark.django_db


def person(user) -> Actor:
    return Actor(kind="user", id=to_text("usr", user.pk))


def end_both(tenant, ssh, api, actor):
    facts = {"tenant_id": tenant.id, "actor": actor, "now": NOON}
    for call, key in ((services.remove_ssh_key, ssh), (services.revoke_api_key, api)):
        try:
            call(key_id=key.id, **facts)
        except NotYourKey:
            yield "refused"
        else:
            yield "ended"


@pytest.fixture
def keys():
    """The owner's SSH and API keys."""
    tenant = make_tenant()
    return tenant, make_ssh_key(tenant), make_api_key(tenant)[0]


@pytest.mark.parametrize(
    ("role", "outcome"),
    [
        (Role.OWNER, "ended"),
        (Role.ADMIN, "ended"),
        (Role.DEVELOPER, "refused"),
        (Role.VIEWER, "refused"),
    ],
)
def test_the_keys_of_others_take_the_right_to_change_members(keys, role, outcome):
    tenant, ssh, api = keys
    actor = person(make_member(tenant, role))

    assert list(end_both(tenant, ssh, api, actor)) == [outcome, outcome]

    assert SshKey.objects.of(tenant.id).live().exists() == (outcome == "refused")
    assert ApiKey.objects.of(tenant.id).live(at=NOON).exists() == (outcome == "refused")
    events = AuditEvent.objects.filter(verb__in=["ssh_key.removed", "api_key.revoked"])
    assert events.count() == (0 if outcome == "refused" else 2)


def test_everybody_ends_his_own(keys):
    tenant, *_ = keys
    developer = make_member(tenant, Role.DEVELOPER)
    services.remove_ssh_key(tenant_id=tenant.id, key_id=keys[1].id, actor=person(owner_of(tenant)),
                            now=NOON)  # fmt: skip
    ssh = make_ssh_key(tenant, user=developer)
    api, _ = make_api_key(tenant, created_by=developer, scopes=["instances:read"])

    assert list(end_both(tenant, ssh, api, person(developer))) == ["ended", "ended"]


def test_a_developers_key_removes_no_ssh_key_of_others(keys):
    tenant, ssh, api = keys
    developer = make_member(tenant, Role.DEVELOPER)
    key, _ = make_api_key(tenant, created_by=developer, scopes=["ssh_keys:write", "keys:write"])
    actor = Actor(kind="api_key", id=to_text("key", key.pk))

    assert list(end_both(tenant, ssh, api, actor)) == ["refused", "refused"]


def test_who_has_left_ends_nothing(keys):
    tenant, ssh, api = keys
    admin = make_member(tenant, Role.ADMIN)
    Membership.objects.of(tenant.id).filter(user=admin).delete()

    assert list(end_both(tenant, ssh, api, person(admin))) == ["refused", "refused"]
