"""The table of verbs: every role and scope, and that a key is never more than its creator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rental.tenants.models import Role
from rental.tenants.permissions import (
    NOUNS,
    READ,
    ROLES,
    VERBS,
    UnknownScope,
    UnknownVerb,
    may,
    verbs_of,
    verbs_of_key,
    verbs_of_scope,
)

pytestmark = pytest.mark.pure

roles = st.sampled_from(list(Role))
known_scopes = st.sampled_from(
    sorted(VERBS | {f"{noun}:*" for noun in NOUNS} | {"*", "*:read", "*:write", "*:*"})
)
scopes = st.sets(known_scopes)


@given(scopes, roles)
def test_a_key_never_gives_more_than_its_creators_role_or_its_scopes(scopes, role):
    verbs = verbs_of_key(scopes=scopes, creator_role=role)

    assert verbs <= verbs_of(role)
    assert verbs <= verbs_of(scopes)
    assert verbs == {verb for verb in VERBS if may(role, verb) and may(scopes, verb)}


@given(scopes, scopes, roles)
def test_more_scopes_never_give_less(some, more, role):
    assert verbs_of_key(scopes=some, creator_role=role) <= verbs_of_key(
        scopes=some | more, creator_role=role
    )


@given(scopes, roles, roles)
def test_a_lower_role_never_gives_a_key_more(scopes, one, other):
    if ROLES[one] <= ROLES[other]:
        assert verbs_of_key(scopes=scopes, creator_role=one) <= verbs_of_key(
            scopes=scopes, creator_role=other
        )


@given(scopes, roles)
def test_cutting_a_key_down_twice_is_cutting_it_once(scopes, role):
    """``authenticate_api_key`` hands verbs on as scopes; reading them again changes nothing."""
    verbs = verbs_of_key(scopes=scopes, creator_role=role)

    assert verbs_of_key(scopes=verbs, creator_role=role) == verbs


@given(st.text(max_size=20))
def test_any_text_is_a_scope_of_some_verbs_or_unknown(text):
    try:
        verbs = verbs_of_scope(text)
    except UnknownScope:
        return
    assert verbs
    assert verbs <= VERBS


@pytest.mark.parametrize(
    ("scope", "verbs"),
    [
        ("instances:read", {"instances:read"}),
        ("instances:write", {"instances:read", "instances:write"}),
        ("instances:*", {"instances:read", "instances:write"}),
        ("catalog:*", {"catalog:read"}),
        ("*:read", READ),
        ("*:write", VERBS),
        ("*", VERBS),
    ],
)
def test_what_a_scope_gives(scope, verbs):
    assert verbs_of_scope(scope) == verbs


@pytest.mark.parametrize(
    "scope", ["", ":", "*:", ":read", "instances", "instances:delete", "catalog:write", "x:read"]
)
def test_what_is_no_scope(scope):
    with pytest.raises(UnknownScope):
        verbs_of_scope(scope)


def test_every_role_has_a_row_and_knows_only_verbs_of_the_table():
    assert set(ROLES) == set(Role)
    assert all(verbs <= VERBS for verbs in ROLES.values())


def test_whoever_may_write_may_read():
    for verbs in ROLES.values():
        for verb in verbs:
            assert verb.replace(":write", ":read") in verbs


@pytest.mark.parametrize(
    ("role", "verb", "answer"),
    [
        (Role.OWNER, "tenant:write", True),
        (Role.ADMIN, "tenant:write", False),
        (Role.ADMIN, "members:write", True),
        (Role.DEVELOPER, "instances:write", True),
        (Role.DEVELOPER, "billing:write", False),
        (Role.DEVELOPER, "members:write", False),
        (Role.BILLING, "billing:write", True),
        (Role.BILLING, "instances:write", False),
        (Role.BILLING, "keys:write", False),
        (Role.VIEWER, "instances:read", True),
        (Role.VIEWER, "audit:read", False),
    ],
)
def test_who_may_what(role, verb, answer):
    assert may(role, verb) is answer
    assert may(role.value, verb) is answer


def test_a_viewer_writes_nothing():
    assert not [verb for verb in VERBS if verb.endswith(":write") and may(Role.VIEWER, verb)]


def test_no_scopes_allow_nothing():
    assert not any(may([], verb) for verb in VERBS)


def test_a_typo_in_a_verb_is_loud():
    with pytest.raises(UnknownVerb):
        may(Role.OWNER, "instance:read")


def test_a_text_that_is_no_role_is_loud():
    with pytest.raises(ValueError, match="root"):
        may("root", "instances:read")
