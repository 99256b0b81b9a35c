"""API keys: shown once, hashed, never more than their creator, gone when he is."""

import hashlib
import json
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rental.records.audit import Actor
from rental.records.ids import to_text
from rental.records.models import AuditEvent
from rental.tenants import permissions, services
from rental.tenants.errors import (
    KeyNeverValid,
    NotAMember,
    NotYourKey,
    ScopeExceedsRole,
    UnknownApiKey,
)
from rental.tenants.models import ApiKey, Role, User
from rental.tenants.permissions import UnknownScope
from rental.tenants.services import authenticate_api_key
from tests.factories.tenants import (
    NOON,
    OPERATOR,
    make_api_key,
    make_member,
    make_tenant,
    make_user,
    owner_of,
)

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def test_the_text_is_shown_once_and_kept_nowhere():
    tenant = make_tenant()

    key, text = make_api_key(tenant, scopes=["instances:read"])

    kind, prefix, secret = text.split("_")
    assert (kind, len(prefix), len(secret)) == ("tsr", 8, 43)
    row = ApiKey.objects.of(tenant.id).values().get()
    assert row["prefix"] == prefix
    assert row["digest"] == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in json.dumps(row, default=str)
    assert secret not in json.dumps(list(AuditEvent.objects.values()), default=str)


def test_the_key_is_known_again_with_its_tenant():
    tenant = make_tenant()
    key, text = make_api_key(tenant, scopes=["instances:read"])

    known = authenticate_api_key(text, NOON)

    assert known == key
    assert known.tenant_id == tenant.id
    assert known.scopes == ["instances:read"]


def test_every_other_text_is_refused_alike():
    _, text = make_api_key(make_tenant())
    last = "a" if text[-1] != "a" else "b"

    for wrong in [
        "",
        "tsr",
        text[:-1],
        text + "a",
        text[:-1] + last,
        text.upper(),
        f" {text}",
        f"{text}\n",
        text.replace("tsr_", "tsa_"),
        "tsr_aaaaaaaa_" + "a" * 43,
    ]:
        assert authenticate_api_key(wrong, NOON) is None, wrong

    assert ApiKey.objects.get().last_used_at is None


def test_a_key_ends_at_its_expiry():
    _, text = make_api_key(make_tenant(), expires_at=NOON + MINUTE)

    assert authenticate_api_key(text, NOON + MINUTE - SECOND) is not None
    assert authenticate_api_key(text, NOON + MINUTE) is None


def test_a_revoked_key_is_refused_and_revoking_again_is_an_error():
    tenant = make_tenant()
    key, text = make_api_key(tenant)
    facts = {"tenant_id": tenant.id, "key_id": key.id, "actor": OPERATOR, "now": NOON}

    services.revoke_api_key(**facts)

    assert authenticate_api_key(text, NOON) is None
    with pytest.raises(UnknownApiKey):
        services.revoke_api_key(**facts)
    assert AuditEvent.objects.filter(verb="api_key.revoked").count() == 1


def test_a_stranger_cannot_revoke_it():
    tenant, stranger = make_tenant(), make_tenant()
    key, text = make_api_key(tenant)

    with pytest.raises(UnknownApiKey):
        services.revoke_api_key(tenant_id=stranger.id, key_id=key.id, actor=OPERATOR, now=NOON)

    assert authenticate_api_key(text, NOON) == key
    assert not AuditEvent.objects.filter(verb="api_key.revoked").exists()


def test_last_used_is_written_at_most_once_a_minute(django_assert_num_queries):
    _, text = make_api_key(make_tenant())
    authenticate_api_key(text, NOON)
    assert ApiKey.objects.get().last_used_at == NOON

    with django_assert_num_queries(1):
        authenticate_api_key(text, NOON + MINUTE - SECOND)
    assert ApiKey.objects.get().last_used_at == NOON

    with django_assert_num_queries(2):
        authenticate_api_key(text, NOON + MINUTE)
    assert ApiKey.objects.get().last_used_at == NOON + MINUTE


# --- never more than the creator


def test_a_key_beyond_its_creators_role_is_refused_and_leaves_no_trace():
    tenant = make_tenant()
    developer = make_member(tenant, Role.DEVELOPER)
    before = AuditEvent.objects.count()

    with pytest.raises(ScopeExceedsRole) as refusal:
        make_api_key(tenant, scopes=["instances:write", "billing:write"], created_by=developer)

    assert refusal.value.excess == {"billing:write"}
    assert not ApiKey.objects.exists()
    assert AuditEvent.objects.count() == before


def test_a_key_shrinks_and_ends_with_its_creators_role():
    tenant = make_tenant()
    user = make_member(tenant, Role.DEVELOPER)
    key, text = make_api_key(tenant, scopes=["instances:write"], created_by=user)
    assert authenticate_api_key(text, NOON).scopes == ["instances:read", "instances:write"]

    services.change_member_role(
        tenant=tenant, user=user, role=Role.VIEWER, actor=OPERATOR, now=NOON
    )
    assert authenticate_api_key(text, NOON).scopes == ["instances:read"]
    assert ApiKey.objects.get(pk=key.pk).scopes == ["instances:write"]  # the row is as it was

    services.change_member_role(
        tenant=tenant, user=user, role=Role.DEVELOPER, actor=OPERATOR, now=NOON
    )
    assert authenticate_api_key(text, NOON).scopes == ["instances:read", "instances:write"]

    services.remove_member(tenant=tenant, user=user, actor=OPERATOR, now=NOON)
    assert authenticate_api_key(text, NOON) is None


def test_who_comes_back_does_not_bring_his_old_key_back():
    tenant = make_tenant()
    user = make_member(tenant, Role.DEVELOPER)
    _, text = make_api_key(tenant, scopes=["instances:read"], created_by=user)

    services.remove_member(tenant=tenant, user=user, actor=OPERATOR, now=NOON)
    make_member(tenant, Role.DEVELOPER, user=user)

    assert authenticate_api_key(text, NOON) is None


def test_the_key_of_somebody_locked_out_is_refused():
    tenant = make_tenant()
    _, text = make_api_key(tenant)
    User.objects.filter(pk=owner_of(tenant).pk).update(is_active=False)

    assert authenticate_api_key(text, NOON) is None


def test_the_keys_of_a_suspended_tenant_only_read():
    tenant = make_tenant()
    _, text = make_api_key(tenant)
    services.suspend_tenant(tenant=tenant, actor=OPERATOR, now=NOON)

    scopes = authenticate_api_key(text, NOON).scopes

    assert set(scopes) == permissions.READ


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    asked=st.sets(st.sampled_from(sorted(permissions.VERBS | {"*", "*:read"})), min_size=1),
    made_as=st.sampled_from(list(Role)),
    now_is=st.sampled_from(list(Role)),
)
def test_whatever_is_asked_and_whatever_the_role_becomes_a_key_stays_below_it(
    asked, made_as, now_is
):
    with transaction.atomic():
        tenant = make_tenant()
        user = make_member(tenant, made_as)
        excess = permissions.verbs_of(asked) - permissions.verbs_of(made_as)
        if excess:
            with pytest.raises(ScopeExceedsRole) as refusal:
                make_api_key(tenant, scopes=asked, created_by=user)
            assert refusal.value.excess == excess
            assert not ApiKey.objects.of(tenant.id).exists()
            return
        _, text = make_api_key(tenant, scopes=asked, created_by=user)
        services.change_member_role(tenant=tenant, user=user, role=now_is, actor=OPERATOR, now=NOON)
        scopes = set(authenticate_api_key(text, NOON).scopes)
        assert scopes == permissions.verbs_of(asked) & permissions.verbs_of(now_is)


def maker_of(key):
    return Actor(kind="api_key", id=to_text("key", key.id))


def test_a_narrow_key_makes_no_wide_one():
    tenant = make_tenant()
    narrow, _ = make_api_key(tenant, scopes=["keys:write", "instances:read"])

    with pytest.raises(ScopeExceedsRole) as refusal:
        make_api_key(tenant, scopes=["instances:write"], actor=maker_of(narrow))

    assert refusal.value.excess == {"instances:write"}
    child, _ = make_api_key(tenant, scopes=["instances:read"], actor=maker_of(narrow))
    assert set(ApiKey.objects.of(tenant.id)) == {narrow, child}


def test_a_key_that_ends_makes_none_that_outlives_it():
    tenant = make_tenant()
    end = NOON + MINUTE
    brief, _ = make_api_key(tenant, expires_at=end)

    for later in (None, end + SECOND):
        with pytest.raises(ScopeExceedsRole) as refusal:
            make_api_key(tenant, expires_at=later, actor=maker_of(brief))
        assert refusal.value.excess == {"expires_at"}
    assert ApiKey.objects.count() == 1
    make_api_key(tenant, expires_at=end, actor=maker_of(brief))


def test_a_key_of_a_project_makes_none_outside_of_it():
    tenant = make_tenant()
    project = services.create_project(
        tenant=tenant, name="Vision", slug="vision", actor=OPERATOR, now=NOON
    )
    bound, _ = make_api_key(tenant, project=project)

    with pytest.raises(ScopeExceedsRole) as refusal:
        make_api_key(tenant, actor=maker_of(bound))

    assert refusal.value.excess == {"project"}
    make_api_key(tenant, project=project, actor=maker_of(bound))


def test_a_key_of_another_tenant_makes_none():
    tenant, stranger = make_tenant(), make_tenant()
    theirs, _ = make_api_key(stranger)

    with pytest.raises(UnknownApiKey):
        make_api_key(tenant, actor=maker_of(theirs))

    assert not ApiKey.objects.of(tenant.id).exists()


@pytest.mark.parametrize(
    ("facts", "failure"),
    [
        ({"scopes": ["instances:fly"]}, UnknownScope),
        ({"expires_at": NOON}, KeyNeverValid),
        ({"kind": ApiKey.Kind.AGENT}, KeyNeverValid),
    ],
)
def test_keys_that_make_no_sense_are_refused(facts, failure):
    tenant = make_tenant()

    with pytest.raises(failure):
        make_api_key(tenant, **facts)

    assert not ApiKey.objects.exists()
    assert not AuditEvent.objects.filter(verb="api_key.issued").exists()


def test_a_stranger_gets_no_key():
    tenant = make_tenant()

    with pytest.raises(NotAMember):
        make_api_key(tenant, created_by=make_user())

    assert not ApiKey.objects.exists()


def test_the_database_refuses_an_agents_key_without_an_end():
    key, _ = make_api_key(make_tenant())

    with pytest.raises(IntegrityError, match="api_key_of_an_agent_expires"), transaction.atomic():
        ApiKey.objects.filter(pk=key.pk).update(kind="agent")


def test_a_developers_key_ends_his_own_and_locks_nobody_else_out():
    tenant = make_tenant()
    developer = make_member(tenant, Role.DEVELOPER)
    owners, text = make_api_key(tenant)
    mine, _ = make_api_key(tenant, created_by=developer, scopes=["keys:write"])
    other, _ = make_api_key(tenant, created_by=developer, scopes=["instances:read"])

    def revoke(key, by):
        services.revoke_api_key(tenant_id=tenant.id, key_id=key.id, actor=maker_of(by), now=NOON)

    with pytest.raises(NotYourKey):
        revoke(owners, by=mine)
    assert authenticate_api_key(text, NOON) is not None
    revoke(other, by=mine)
    revoke(mine, by=owners)  # who may change members may
    assert not ApiKey.objects.of(tenant.id).filter(revoked_at=None).exclude(pk=owners.pk).exists()


def test_the_owners_narrow_key_does_not_reach_the_keys_of_others():
    tenant = make_tenant()
    theirs, _ = make_api_key(
        tenant, created_by=make_member(tenant, Role.DEVELOPER), scopes=["instances:read"]
    )
    narrow, _ = make_api_key(tenant, scopes=["keys:write"])

    with pytest.raises(NotYourKey):
        services.revoke_api_key(
            tenant_id=tenant.id, key_id=theirs.id, actor=maker_of(narrow), now=NOON
        )
