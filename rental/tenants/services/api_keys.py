"""API keys: making, revoking, and knowing them again."""

import hashlib
import hmac
import re
import secrets
import string
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from rental.tenants import permissions
from rental.tenants.errors import KeyNeverValid, NotAMember, ScopeExceedsRole, UnknownApiKey
from rental.tenants.models import ApiKey, Membership, Project, Tenant, User
from rental.tenants.services._reach import check_reach, maker_of

_LETTERS: Final = string.ascii_letters + string.digits  # a double click selects all of it
_PREFIX_LETTERS: Final = string.ascii_lowercase + string.digits
_PREFIX_LENGTH: Final = 8  # finds the row; 41 bits, unique in the table
_SECRET_LENGTH: Final = 43  # 43 x log2(62) = 256 bits
_TEXT: Final = re.compile(
    rf"tsr_(?P<prefix>[a-z0-9]{{{_PREFIX_LENGTH}}})_(?P<secret>[A-Za-z0-9]{{{_SECRET_LENGTH}}})"
)

# "Last used" is for people who tidy up their keys; a write for every request would cost more.
LAST_USED_STEP: Final = timedelta(minutes=1)


def _random(letters: str, length: int) -> str:
    return "".join(secrets.choice(letters) for _ in range(length))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def issue_api_key(
    *,
    tenant: Tenant,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None,
    created_by: User,
    actor: Actor,
    now: datetime,
    kind: ApiKey.Kind = ApiKey.Kind.PERSON,
    project: Project | None = None,
) -> tuple[ApiKey, str]:
    """
    Make a key; return it with its text (``tsr_…``), which is kept nowhere and cannot be had again.

    :raises UnknownScope: if a scope means nothing
    :raises NotAMember: if ``created_by`` does not belong to the tenant
    :raises ScopeExceedsRole: if the key would be able to do more than its creator; for an actor
        that is a key itself, more than that key, outside its project, or for longer
    :raises KeyNeverValid: if ``expires_at`` is past, or missing for an agent's key
    """
    wanted_scopes = sorted(set(scopes))
    allowed = _verbs_of_creator(tenant=tenant, created_by=created_by)
    if actor.kind == "api_key":
        # A narrow key must not make itself a wide one.
        maker = maker_of(tenant_id=tenant.id, actor=actor, now=now)
        allowed &= permissions.verbs_of(maker.scopes)
        _check_limits(maker, project=project, expires_at=expires_at)
    if excess := permissions.verbs_of(wanted_scopes) - allowed:
        raise ScopeExceedsRole(excess)
    if expires_at is not None and expires_at <= now:
        raise KeyNeverValid("the key would have expired already")
    if expires_at is None and kind == ApiKey.Kind.AGENT:
        raise KeyNeverValid("the key of an agent needs an end")
    if project is not None and project.tenant_id != tenant.id:
        raise ValueError("the project is another tenant's")

    prefix, secret = _random(_PREFIX_LETTERS, _PREFIX_LENGTH), _random(_LETTERS, _SECRET_LENGTH)
    key = ApiKey.objects.create(
        tenant=tenant,
        project=project,
        name=name,
        kind=kind,
        prefix=prefix,
        digest=_digest(secret),
        scopes=wanted_scopes,
        created_by=created_by,
        created_at=now,
        expires_at=expires_at,
    )
    record_event(
        tenant_id=tenant.id,
        actor=actor,
        verb="api_key.issued",
        subject=to_text("key", key.id),
        after={
            "name": name,
            "kind": kind,
            "prefix": prefix,
            "scopes": wanted_scopes,
            "expires_at": expires_at,
        },
        now=now,
    )
    return key, f"tsr_{prefix}_{secret}"


def _verbs_of_creator(*, tenant: Tenant, created_by: User) -> frozenset[str]:
    member = Membership.objects.of(tenant.id).filter(user=created_by).first()
    if member is None:
        raise NotAMember(str(created_by))
    return permissions.verbs_of(member.role)


def _check_limits(maker: ApiKey, *, project: Project | None, expires_at: datetime | None) -> None:
    """A key made by a key stays in its project and ends with it."""
    if maker.project_id is not None and (project is None or project.pk != maker.project_id):
        raise ScopeExceedsRole(frozenset({"project"}))
    if maker.expires_at is not None and (expires_at is None or expires_at > maker.expires_at):
        raise ScopeExceedsRole(frozenset({"expires_at"}))


@transaction.atomic
def revoke_api_key(
    *, tenant_id: uuid.UUID, key_id: uuid.UUID, actor: Actor, now: datetime
) -> ApiKey:
    """
    End a key: its next request is refused.

    People end their own; those of others only who may change members.

    :raises UnknownApiKey: if the tenant has no such key that is not revoked
    :raises NotYourKey: see ``check_reach``
    """
    rows = ApiKey.objects.of(tenant_id).filter(pk=key_id, revoked_at__isnull=True)
    key = rows.select_for_update(of=("self",), no_key=True).first()
    if key is None:
        raise UnknownApiKey(to_text("key", key_id))
    check_reach(
        tenant_id=tenant_id,
        owner_id=key.created_by_id,
        key=to_text("key", key.id),
        actor=actor,
        now=now,
    )
    key.revoked_at = now
    key.save(update_fields=["revoked_at"])
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="api_key.revoked",
        subject=to_text("key", key.id),
        before={"name": key.name, "prefix": key.prefix},
        now=now,
    )
    return key


# Asked by every request, so written out: building it from querysets costs 1.5 ms more (measured).
# The condition is ``ApiKeyQuerySet.live``.
_LIVE_KEY: Final = f"""
    SELECT api_key.*, tenant.status AS tenant_status, member.role AS creator_role
      FROM {ApiKey._meta.db_table} api_key
      JOIN {Tenant._meta.db_table} tenant ON tenant.id = api_key.tenant_id
      JOIN {User._meta.db_table} creator ON creator.id = api_key.created_by_id
      LEFT JOIN {Membership._meta.db_table} member
        ON member.tenant_id = api_key.tenant_id AND member.user_id = api_key.created_by_id
     WHERE api_key.prefix = %(prefix)s
       AND creator.is_active
       AND api_key.revoked_at IS NULL
       AND (api_key.expires_at IS NULL OR api_key.expires_at > %(now)s)
"""


def authenticate_api_key(text: str, now: datetime) -> ApiKey | None:
    """
    Return the key that ``text`` is the secret of, or None: all refusals look alike.

    **Its ``scopes`` are cut down, in memory only**, to the verbs that hold now: those of the row,
    within the role that its creator has in the tenant at this moment (no member any more, or
    not active: None), and to reading while the tenant is suspended. Whoever asks
    ``permissions.may(key.scopes, verb)`` therefore asks the right question.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    key = next(iter(ApiKey.objects.raw(_LIVE_KEY, {"prefix": match["prefix"], "now": now})), None)
    # Compared in constant time, and compared even where there is no row: how long a refusal
    # takes tells nothing.
    known = key.digest if key is not None else _digest("")
    if not hmac.compare_digest(_digest(match["secret"]), known) or key is None:
        return None
    role, status = getattr(key, "creator_role", None), getattr(key, "tenant_status", None)
    if role is None:
        return None
    verbs = permissions.verbs_of_key(scopes=key.scopes, creator_role=role)
    if status != Tenant.Status.ACTIVE:
        verbs &= permissions.READ
    key.scopes = sorted(verbs)
    _note_use(key, now)
    return key


def _note_use(key: ApiKey, now: datetime) -> None:
    """Write ``last_used_at``, at most once a minute however many requests run at once."""
    if key.last_used_at is not None and key.last_used_at > now - LAST_USED_STEP:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - LAST_USED_STEP)
    if ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now):
        key.last_used_at = now
