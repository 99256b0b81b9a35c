"""The events tab: what was done to an instance, by whom, and how each command ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from rental.catalog.models import Market
from rental.instances.history import Event
from rental.web.pages.instances.words import event_words, notice_words, reason_words

Tone = Literal["ok", "warn", "bad", "info", "idle"]

ACTORS: Final[dict[str, Promise]] = {
    "user": _("a member"),
    "api_key": _("an API key"),
    "staff": _("the operator"),
    "system": _("the platform"),
}
ENDED: Final[dict[tuple[str, str], Promise]] = {
    ("create", "succeeded"): _("Ready"),
    ("start", "succeeded"): _("Ready"),
    ("restart", "succeeded"): _("Ready again"),
    ("stop", "succeeded"): _("Stopped"),
    ("release", "succeeded"): _("Deleted; its disk is wiped"),
    ("move", "succeeded"): _("Ready on another node"),
    ("move", "failed"): _("The move failed"),
    ("create", "failed"): _("The order failed"),
    ("start", "failed"): _("The start failed"),
    ("restart", "failed"): _("The restart failed"),
}
OUTCOMES: Final[dict[str, Promise]] = {
    "succeeded": _("Done"),
    "failed": _("Failed"),
    "cancelled": _("Ended by something newer"),
}
TONES: Final[dict[str, Tone]] = {"succeeded": "ok", "failed": "bad", "cancelled": "idle"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """``note``: why, or what changed. ``raw``: the node's own words. ``took``: of a command."""

    at: datetime
    words: str
    tone: Tone = "info"
    who: str = ""
    note: str = ""
    raw: str = ""
    took: timedelta | None = None
    deadline: datetime | None = None


def lines_of(events: Sequence[Event]) -> list[Line]:
    return [_MAKERS[event.kind](event) for event in events]


def _audit(event: Event) -> Line:
    return Line(
        at=event.at,
        words=event_words(event.verb),
        tone="bad" if event.verb == "instance.failed" else "info",
        who=_who(event),
        note=_reason(event.reason) or _change(event.before, event.after),
        raw=_raw(event.reason),
    )


def _who(event: Event) -> str:
    """Return the name of a person or key where the reader may know it, else what kind it was."""
    if event.actor and event.actor_kind == "api_key":
        return gettext("API key %(name)s") % {"name": event.actor}
    return event.actor or str(ACTORS.get(event.actor_kind, event.actor_kind))


def _raw(reason: Mapping[str, Any] | None) -> str:
    """Return the node's own words, where they say more than the reason's code."""
    said = reason or {}
    raw = str(said.get("detail") or "")
    return "" if raw == said.get("code") else raw


def _operation(event: Event) -> Line:
    words = ENDED.get((event.verb, event.outcome)) or OUTCOMES.get(event.outcome) or event.outcome
    return Line(
        at=event.at,
        words=str(words),
        tone=TONES.get(event.outcome, "info"),
        note=_reason(event.error),
        raw=_raw(event.error),
        took=event.took,
    )


def _notice(event: Event) -> Line:
    return Line(at=event.at, words=notice_words(event.verb), tone="warn", deadline=event.deadline)


_MAKERS: Final = {"audit": _audit, "operation": _operation, "notice": _notice}


def _reason(reason: Mapping[str, Any] | None) -> str:
    code = str((reason or {}).get("code", ""))
    return reason_words(code) if code else ""


# What an event says of what changed: its state and counters are the machine's own matter.
_MACHINERY: Final = frozenset({"state", "generation", "session", "reason", "project"})
FIELDS: Final[dict[str, Promise]] = {
    "name": _("name"),
    "offer": _("offer"),
    "image": _("image"),
    "market": _("market"),
    "protected": _("protected from release"),
    "auto_stop_at": _("auto-stop"),
    "max_duration_s": _("longest duration, seconds"),
    "password_login": _("password log-in"),
    "on_node_loss": _("when its node is lost"),
    "migrate_ok": _("may be moved"),
}
VALUES: Final[dict[object, Promise]] = {True: _("on"), False: _("off"), None: _("none")}


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Return "name: old to new" for what people can read; a creation names what was ordered."""
    parts = []
    for name, value in (after or {}).items():
        if name in _MACHINERY or isinstance(value, dict | list):
            continue
        label = FIELDS.get(name, name)
        if before is None or name not in before:
            parts.append(gettext("%(what)s: %(name)s") % {"what": label, "name": _said(value)})
        elif before[name] != value:
            words = gettext("%(name)s: %(old)s to %(new)s")
            parts.append(words % {"name": label, "old": _said(before[name]), "new": _said(value)})
    return ", ".join(parts)


def _said(value: object) -> object:
    if value is None or isinstance(value, bool):
        return VALUES[value]
    return Market(value).label if value in Market.values else value
