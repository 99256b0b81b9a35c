"""
Who may do what in a tenant: one table of verbs, roles as sets of them, scopes that expand to them.

A member may what his role allows. An API key may what its scopes allow within what the role of its
creator allows now: both are sets of verbs, a key's are the intersection, so a key can never do
more than the person who made it. Staff verbs are another matter (``User.has_staff_verb``).
"""

from collections.abc import Iterable
from typing import Final

from rental.tenants.models import Role

# One ``read`` and one ``write`` for each noun of the API. ``write`` includes ``read``: who may
# change a thing may look at it.
NOUNS: Final = (
    "catalog",  # offers, images, prices, quotes
    "instances",  # with their operations, segments and endpoints
    "billing",  # balance, charges; write: top-ups
    "ssh_keys",
    "secrets",  # names; their values are never read back. To name one in an order needs read
    "keys",  # API keys
    "projects",
    "members",
    "tenant",  # name, time zone
    "audit",
)
READ: Final = frozenset(f"{noun}:read" for noun in NOUNS)
WRITE: Final = frozenset(f"{noun}:write" for noun in NOUNS if noun not in {"catalog", "audit"})
VERBS: Final = READ | WRITE

ROLES: Final[dict[Role, frozenset[str]]] = {
    Role.OWNER: VERBS,
    Role.ADMIN: VERBS - {"tenant:write"},
    Role.DEVELOPER: frozenset(
        {
            "catalog:read",
            "instances:read",
            "instances:write",
            "billing:read",  # how long the balance lasts decides what can be started
            "ssh_keys:read",
            "ssh_keys:write",
            "secrets:read",
            "secrets:write",
            "keys:read",
            "keys:write",
            "projects:read",
            "members:read",
            "tenant:read",
        }
    ),
    Role.BILLING: frozenset(
        {
            "catalog:read",
            "instances:read",
            "billing:read",
            "billing:write",
            "projects:read",
            "projects:write",
            "members:read",
            "tenant:read",
        }
    ),
    Role.VIEWER: READ - {"audit:read", "keys:read", "secrets:read"},
}


class UnknownVerb(ValueError):
    """No such verb: a typo in our code, not something a caller can cause."""

    def __init__(self, verb: str) -> None:
        super().__init__(f"{verb!r} is not a verb of permissions.NOUNS")
        self.verb = verb


class UnknownScope(ValueError):
    """A key was asked for with a scope that means nothing."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"{scope!r} is not a scope")
        self.scope = scope


def verbs_of_scope(scope: str) -> frozenset[str]:
    """
    Return the verbs that a scope gives: ``instances:write`` (and read), ``instances:*``,
    ``*:read``, ``*`` (everything).

    :raises UnknownScope: if it gives none
    """
    noun, colon, action = scope.partition(":")
    if scope == "*":
        return VERBS
    if not colon or action not in {"read", "write", "*"}:
        raise UnknownScope(scope)
    actions = {"read"} if action == "read" else {"read", "write"}
    nouns = NOUNS if noun == "*" else (noun,)
    verbs = VERBS.intersection(f"{one}:{what}" for one in nouns for what in actions)
    if not verbs or (noun != "*" and action == "write" and scope not in VERBS):
        raise UnknownScope(scope)
    return verbs


def verbs_of(role_or_scopes: str | Iterable[str]) -> frozenset[str]:
    """
    Return the verbs of a role (a text) or of scopes (any other iterable of texts).

    :raises ValueError: for an unknown role
    :raises UnknownScope: for an unknown scope
    """
    if isinstance(role_or_scopes, str):
        return ROLES[Role(role_or_scopes)]
    return frozenset().union(*map(verbs_of_scope, role_or_scopes))


def verbs_of_key(*, scopes: Iterable[str], creator_role: str) -> frozenset[str]:
    """Return what a key with ``scopes`` may do whose creator is ``creator_role`` now."""
    return verbs_of(tuple(scopes)) & verbs_of(creator_role)


def may(role_or_scopes: str | Iterable[str], verb: str) -> bool:
    """
    Say whether a role, or the scopes that ``authenticate_api_key`` returned, allow ``verb``.

    :raises UnknownVerb: for a verb that is in no table, so that a typo shows in the first test
    """
    if verb not in VERBS:
        raise UnknownVerb(verb)
    return verb in verbs_of(role_or_scopes)
