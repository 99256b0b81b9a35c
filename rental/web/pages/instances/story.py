"""The events tab: what was done to an instance, by whom, and how each command ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

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
    who = str(ACTORS.get(event.actor_kind, event.actor_kind))
    return Line(
        at=event.at,
        words=event_words(event.verb),
        tone="bad" if event.verb == "instance.failed" else "info",
        who=event.actor or who,
        note=_reason(event.reason) or _change(event.before, event.after),
        raw=str((event.reason or {}).get("detail", "")),
    )


def _operation(event: Event) -> Line:
    words = ENDED.get((event.verb, event.outcome)) or OUTCOMES.get(event.outcome) or event.outcome
    return Line(
        at=event.at,
        words=str(words),
        tone=TONES.get(event.outcome, "info"),
        note=_reason(event.error),
        raw=str((event.error or {}).get("detail") or ""),
        took=event.took,
    )


def _notice(event: Event) -> Line:
    return Line(at=event.at, words=notice_words(event.verb), tone="warn", deadline=event.deadline)


_MAKERS: Final = {"audit": _audit, "operation": _operation, "notice": _notice}


def _reason(reason: Mapping[str, Any] | None) -> str:
    code = str((reason or {}).get("code", ""))
    return reason_words(code) if code else ""


# What an event says of what changed: its state and counters are the machine's own matter.
_MACHINERY: Final = frozenset({"state", "generation", "session", "reason"})


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Return "name: old to new" for what people can read; a creation names what was ordered."""
    parts = []
    for name, value in (after or {}).items():
        if name in _MACHINERY or isinstance(value, dict | list):
            continue
        old = (before or {}).get(name)
        if old in (None, ""):
            parts.append(f"{name}: {value}")
        elif old != value:
            parts.append(gettext("%(name)s: %(old)s to %(new)s") % _named(name, old, value))
    return ", ".join(parts)


def _named(name: str, old: object, new: object) -> dict[str, object]:
    return {"name": name, "old": old, "new": new}
