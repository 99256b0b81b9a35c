"""What the audit log says, in words: verbs, actors, subjects, and what changed."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from rental.catalog.models import Market
from rental.instances.models import Instance
from rental.instances.states import InstanceState
from rental.records import ids
from rental.records.audit import AuditEvent
from rental.tenants.models import ApiKey, Project, Role, User
from rental.web import amounts

VERBS: Final[dict[str, Promise]] = {
    "api_key.issued": _("API key made"),
    "api_key.revoked": _("API key revoked"),
    "consent.given": _("Terms accepted"),
    "instance.changed": _("Instance changed"),
    "instance.created": _("Instance ordered"),
    "instance.disks_lost": _("Instance lost its disk"),
    "instance.failed": _("Instance failed"),
    "instance.moved": _("Instance moved to another node"),
    "instance.not_replaced": _("Instance stays on its lost node"),
    "instance.password_revealed": _("Instance password shown"),
    "instance.password_rotated": _("Instance password replaced"),
    "instance.released": _("Instance released"),
    "instance.renamed": _("Instance renamed"),
    "instance.replaced": _("Instance starts again on another node"),
    "instance.restarted": _("Instance restarted"),
    "instance.started": _("Instance started"),
    "instance.stopped": _("Instance stopped"),
    "invitation.revoked": _("Invitation taken back"),
    "invitation.made": _("Invitation made"),
    "member.added": _("Member added"),
    "member.removed": _("Member removed"),
    "member.role_changed": _("Role changed"),
    "project.created": _("Project created"),
    "project.made_default": _("Default project changed"),
    "project.renamed": _("Project renamed"),
    "request.cancelled": _("Waiting for a place ended by the operator"),
    "run.waived": _("Use made free"),
    "secret.put": _("Secret kept"),
    "secret.removed": _("Secret removed"),
    "secret.replaced": _("Secret replaced"),
    "ssh_key.added": _("SSH key added"),
    "ssh_key.removed": _("SSH key removed"),
    "tenant.changed": _("Tenant settings changed"),
    "tenant.created": _("Tenant created"),
    "tenant.renamed": _("Tenant renamed"),
    "tenant.resumed": _("Tenant resumed"),
    "tenant.suspended": _("Tenant suspended"),
    "tenant.verified": _("Verification level changed"),
    "wallet.credited": _("Credit added"),
}

# Facts whose values have words of their own.
CHOICES: Final[dict[str, type[models.TextChoices]]] = {
    "market": Market,
    "role": Role,
    "state": InstanceState,
}

# Names of facts inside ``before`` and ``after``; one without words is shown as it is.
FACTS: Final[dict[str, Promise]] = {
    "amount": _("amount"),
    "api_keys": _("API keys"),
    "auto_stop_at": _("stops at"),
    "expires_at": _("expires"),
    "fingerprint": _("fingerprint"),
    "from_tick": _("from tick"),
    "image": _("image"),
    "kind": _("kind"),
    "market": _("market"),
    "max_duration_s": _("longest duration (s)"),
    "migrate_ok": _("may be moved"),
    "name": _("name"),
    "offer": _("offer"),
    "owner": _("owner"),
    "posted": _("balance"),
    "prefix": _("prefix"),
    "project": _("project"),
    "reason": _("reason"),
    "role": _("role"),
    "scopes": _("may"),
    "slug": _("address"),
    "ssh_keys": _("SSH keys"),
    "state": _("state"),
    "status": _("status"),
    "time_zone": _("time zone"),
    "until_tick": _("until tick"),
    "verification_level": _("verification level"),
}
AMOUNTS: Final = frozenset({"posted", "amount"})  # micro-units
# For machines: counters that rise with every command say nothing to a reader.
HIDDEN: Final = frozenset({"generation", "session", "key_id"})

# Where a subject is looked at, below the tenant's address, by the prefix of its id.
PLACES: Final = {
    "key": "keys/api",
    "ssh": "keys",
    "sec": "keys/secrets",
    "usr": "team",
    "prj": "projects",
    "ten": "settings",
    "trf": "billing/transfers",
    "inv": "team",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One fact. ``before`` and ``after`` in words; None where the event does not tell."""

    name: str | Promise
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EventShown:
    """An event as people read it. ``who``: a name; ``url``: "" where nothing can be opened."""

    event: AuditEvent
    who: str
    what: str
    name: str
    url: str
    changes: list[Change]


def say_events(
    events: Sequence[AuditEvent], *, tenant_id: uuid.UUID, home: str
) -> list[EventShown]:
    """Put events into words. Four queries, however many there are."""
    people = {e.subject for e in events if e.subject.startswith("usr_")}
    people |= {str(e.after["owner"]) for e in events if e.after and "owner" in e.after}
    actors = names_of_actors(
        [*((e.actor_kind, e.actor_id) for e in events), *(("user", one) for one in people)]
    )
    names = {text: name for (_kind, text), name in actors.items() if text in people}
    names |= _names_of_instances(events, tenant_id) | _names_of_projects(tenant_id)
    return [
        EventShown(
            event=event,
            who=actors[event.actor_kind, event.actor_id],
            what=verb_words(event.verb),
            name=names.get(event.subject) or _name_inside(event),
            url=_place(event.subject, home),
            changes=changes_of(event, names),
        )
        for event in events
    ]


def verb_words(verb: str) -> str:
    return str(VERBS.get(verb, verb))


def names_of_actors(actors: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return how each (kind, id) is called; the operator's staff by no name. Two queries."""
    asked = set(actors)
    ids_of: defaultdict[str, set[uuid.UUID]] = defaultdict(set)
    for kind, text in asked:
        if (found := _uuid(text)) is not None:
            ids_of[kind].add(found)
    names: dict[tuple[str, str], str] = {}
    for user in User.objects.filter(pk__in=ids_of["user"]):
        names["user", ids.to_text("usr", user.pk)] = str(user)
    for key in ApiKey.objects.filter(pk__in=ids_of["api_key"]):
        label = gettext("key %(name)s") % {"name": key.name}
        names["api_key", ids.to_text("key", key.pk)] = label
    for kind, text in asked:
        names.setdefault((kind, text), _nameless(kind, text))
    return names


def _nameless(kind: str, text: str) -> str:
    if kind == AuditEvent.ActorKind.STAFF:
        return gettext("Operator")
    if kind == AuditEvent.ActorKind.SYSTEM:
        return gettext("Tessera")
    return text


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return ids.from_text(text.partition("_")[0], text)
    except ids.MalformedId:
        return None


def _names_of_instances(events: Sequence[AuditEvent], tenant_id: uuid.UUID) -> dict[str, str]:
    wanted = [_uuid(e.subject) for e in events if e.subject.startswith("ins_")]
    found = Instance.objects.of(tenant_id).filter(pk__in=[one for one in wanted if one])
    return {ids.to_text("ins", pk): name for pk, name in found.values_list("pk", "name")}


def _names_of_projects(tenant_id: uuid.UUID) -> dict[str, str]:
    """By both spellings: events carry the plain UUID of an instance's project."""
    names: dict[str, str] = {}
    for pk, name in Project.objects.of(tenant_id).values_list("pk", "name"):
        names[str(pk)] = names[ids.to_text("prj", pk)] = name
    return names


def _name_inside(event: AuditEvent) -> str:
    for facts in (event.after, event.before):
        if facts and isinstance(facts.get("name"), str):
            return str(facts["name"])
    return gettext("in the ledger") if event.subject.startswith("trf_") else ""


def _place(subject: str, home: str) -> str:
    prefix = subject.partition("_")[0]
    if prefix == "ins":
        return f"{home}instances/{subject}"
    return f"{home}{PLACES[prefix]}" if prefix in PLACES else ""


def changes_of(event: AuditEvent, names: Mapping[str, str]) -> list[Change]:
    """
    Return what is different after the event; of facts that stayed the same nothing. ``names``:
    what ids that stand among the facts are called.
    """
    before, after = event.before or {}, event.after or {}
    return [
        Change(
            name=FACTS.get(name, name),
            before=_said(name, before[name], names) if name in before else None,
            after=_said(name, after[name], names) if name in after else None,
        )
        for name in [*before, *(name for name in after if name not in before)]
        if name not in HIDDEN and before.get(name) != after.get(name)
    ]


def _said(name: str, value: Any, names: Mapping[str, str]) -> str:
    if value is None or value in ("", []):
        return gettext("nothing")
    if name in AMOUNTS and isinstance(value, int):
        return amounts.money_exact(value, settings.BILLING_CURRENCY)
    if name.endswith("_at") and isinstance(value, str) and (at := _moment(value)) is not None:
        return date_format(timezone.localtime(at), "Y-m-d H:i:s")
    if isinstance(value, list):
        return ", ".join(names.get(str(one), str(one)) for one in value)
    if (words := CHOICES.get(name)) is not None and value in words.values:
        return str(words(value).label)
    return names.get(str(value), str(value))


def _moment(text: str) -> datetime | None:
    try:
        at = parse_datetime(text)
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None
