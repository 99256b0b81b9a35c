"""The audit log of a tenant: who changed what, when; narrowed by the address, and as a file."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from rental.records import ids
from rental.records.audit import AuditEvent
from rental.records.paging import ForeignCursor, Key, take_page
from rental.tenants.models import ApiKey, Membership
from rental.web.audit_words import VERBS, EventShown, names_of_actors, say_events, verb_words
from rental.web.exports import Cell, csv_answer, moments, read_all
from rental.web.periods import Days, read_days
from rental.web.visit import Visit, page

PAGE_ROWS: Final = 50
NEWEST: Final[Key] = ("at", "id")

COLUMNS: Final = (
    "time", "time_utc", "actor_kind", "actor_id", "actor", "verb", "event", "subject", "before",
    "after", "request_id", "id",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Filters:
    """``actor``: the public id of a person or key, or a kind: staff, system."""

    verb: str
    actor: str
    subject: str
    days: Days

    def query(self, **more: str) -> str:
        """Return the address's query for these filters, "" for none."""
        chosen = {
            "verb": self.verb,
            "actor": self.actor,
            "subject": self.subject,
            "from": self.days.first,
            "until": self.days.last,
            **more,
        }
        text = urlencode({name: value for name, value in chosen.items() if value})
        return f"?{text}" if text else ""

    @property
    def are_set(self) -> bool:
        return bool(self.query())


@dataclass(frozen=True, kw_only=True)
class Choice:
    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class AuditContext:
    """``next``: the address of older events; ``csv``: of the file with the same filters."""

    events: list[EventShown]
    filters: Filters
    verbs: list[Choice]
    actors: list[Choice]
    next: str
    first: str
    csv: str
    nav: str = "audit"


def read_filters(request: HttpRequest, zone: ZoneInfo) -> Filters:
    query = request.GET
    return Filters(
        verb=query.get("verb", "")[:64],
        actor=query.get("actor", "")[:64],
        subject=query.get("subject", "")[:96],
        days=read_days(query, zone),
    )


def find_events(visit: Visit, filters: Filters) -> QuerySet[AuditEvent]:
    events = AuditEvent.objects.of(visit.tenant.id)
    if filters.verb:
        events = events.filter(verb=filters.verb)
    if filters.actor in (AuditEvent.ActorKind.STAFF, AuditEvent.ActorKind.SYSTEM):
        events = events.filter(actor_kind=filters.actor)
    elif filters.actor:
        events = events.filter(actor_id=filters.actor)
    if filters.subject:
        events = events.filter(subject=filters.subject)
    if filters.days.since:
        events = events.filter(at__gte=filters.days.since)
    if filters.days.until:
        events = events.filter(at__lt=filters.days.until)
    return events


@page("audit:read")
def show_audit(visit: Visit) -> HttpResponse:
    filters = read_filters(visit.request, ZoneInfo(visit.tenant.time_zone))
    cursor = visit.request.GET.get("after") or None
    try:
        found = take_page(
            find_events(visit, filters),
            key=NEWEST,
            descending=True,
            limit=PAGE_ROWS,
            cursor=cursor,
            scope=f"console:audit:{visit.tenant.id}:{filters.query()}",
        )
    except ForeignCursor:  # a link of before the filter was changed
        return visit.redirect(f"{visit.home}audit{filters.query()}")
    here = f"{visit.home}audit"
    return visit.render(
        "web/audit/page.html",
        AuditContext(
            events=say_events(found.rows, tenant_id=visit.tenant.id, home=visit.home),
            filters=filters,
            verbs=_verbs(filters.verb),
            actors=_actors(visit, filters.actor),
            next=here + filters.query(after=found.next_cursor) if found.next_cursor else "",
            first=here + filters.query() if cursor else "",
            csv=f"{here}.csv{filters.query()}",
        ),
    )


def _verbs(chosen: str) -> list[Choice]:
    verbs = sorted({*VERBS, *([chosen] if chosen else [])}, key=verb_words)
    return [Choice(value=v, label=verb_words(v), is_chosen=v == chosen) for v in verbs]


def _actors(visit: Visit, chosen: str) -> list[Choice]:
    """The people who are members now, the keys that are not revoked, and us. Two queries."""
    known: dict[str, str] = {}
    members = Membership.objects.of(visit.tenant.id).select_related("user")
    for member in members.order_by("created_at", "pk"):
        known[ids.to_text("usr", member.user_id)] = str(member.user)
    keys = ApiKey.objects.of(visit.tenant.id).filter(revoked_at__isnull=True)
    for key in keys.order_by("name", "pk")[:100]:
        known[ids.to_text("key", key.pk)] = _("key %(name)s") % {"name": key.name}
    known["staff"] = _("Operator")
    known["system"] = _("Tessera")
    if chosen and chosen not in known:  # who has left, by a link
        kind = "api_key" if chosen.startswith("key_") else "user"
        known[chosen] = names_of_actors([(kind, chosen)])[kind, chosen]
    return [Choice(value=v, label=label, is_chosen=v == chosen) for v, label in known.items()]


@page("audit:read")
def download_audit(visit: Visit) -> HttpResponse:
    zone = ZoneInfo(visit.tenant.time_zone)
    events = find_events(visit, read_filters(visit.request, zone))
    return csv_answer(
        visit.request,
        name=f"audit-{visit.tenant.slug}.csv",
        header=COLUMNS,
        batches=(
            list(_lines(batch, zone)) for batch in read_all(events, key=NEWEST)
        ),
    )  # fmt: skip


def _lines(events: list[AuditEvent], zone: ZoneInfo) -> Iterator[tuple[Cell, ...]]:
    names = names_of_actors((e.actor_kind, e.actor_id) for e in events)
    for event in events:
        yield (
            *moments(event.at, zone),
            event.actor_kind,
            event.actor_id,
            names[event.actor_kind, event.actor_id],
            event.verb,
            verb_words(event.verb),
            event.subject,
            _as_json(event.before),
            _as_json(event.after),
            event.request_id or "",
            ids.to_text("evt", event.id),
        )


def _as_json(facts: dict[str, Any] | None) -> str:
    return "" if facts is None else json.dumps(facts, ensure_ascii=False, sort_keys=True)
