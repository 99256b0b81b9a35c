"""Whose keys somebody may end. One rule for API and SSH keys, for people and for their keys."""

import uuid
from datetime import datetime

from rental.records.audit import Actor
from rental.records.ids import from_text
from rental.tenants import permissions
from rental.tenants.errors import NotYourKey, UnknownApiKey
from rental.tenants.models import ApiKey, Membership


def maker_of(*, tenant_id: uuid.UUID, actor: Actor, now: datetime) -> ApiKey:
    """
    Return the key that acts.

    :raises UnknownApiKey: if it is no live key of the tenant
    """
    live = ApiKey.objects.of(tenant_id).live(at=now)
    key = live.filter(pk=from_text("key", actor.id)).first()
    if key is None:
        raise UnknownApiKey(actor.id)
    return key


def check_reach(
    *, tenant_id: uuid.UUID, owner_id: uuid.UUID, key: str, actor: Actor, now: datetime
) -> None:
    """
    Let everybody end his own keys, and those of others only who may change members: a developer
    must not lock the owner out. A key acts for the person who made it, within its scopes.

    :param owner_id: the user whose key it is
    :raises NotYourKey: if ``key`` (its public id) is another person's
    """
    if actor.kind not in ("user", "api_key"):
        return  # the operator, and passes of ours
    scopes = None
    if actor.kind == "api_key":
        maker = maker_of(tenant_id=tenant_id, actor=actor, now=now)
        person, scopes = maker.created_by_id, maker.scopes
    else:
        person = from_text("usr", actor.id)
    if person == owner_id:
        return
    member = Membership.objects.of(tenant_id).filter(user=person).first()
    verbs = frozenset() if member is None else permissions.verbs_of(member.role)
    if scopes is not None:
        verbs &= permissions.verbs_of(scopes)
    if "members:write" not in verbs:
        raise NotYourKey(key)
