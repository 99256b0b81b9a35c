"""An instance as pages show it: what stands behind the state's word, timers, how to reach it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils.translation import gettext, pgettext

from rental.instances.models import Health, Instance
from rental.instances.queries import InstanceRow
from rental.instances.states import InstanceState, StateWord
from rental.records.ids import to_text
from rental.web.kept import print_of
from rental.web.pages.instances.buttons import Button, buttons_of
from rental.web.pages.instances.timeline import progress_words, steps_of
from rental.web.pages.instances.words import notice_words, reason_words, waits_for
from rental.web.visit import Visit
from scheduler.queries import queue_places

S = InstanceState


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """Something will happen at ``at``; ``seconds`` from now, never negative."""

    at: datetime
    seconds: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Shown:
    """
    ``why``: what is behind the word: what it waits for, how far it is, how it ended. ``ssh``: the
    command that logs in, empty while nothing listens. ``is_marked``: its box is ticked. ``key``:
    all that its row in the list is drawn from (rental.web.kept).
    """

    row: InstanceRow
    id: str
    url: str
    why: str
    stops: Deadline | None
    notice: Deadline | None
    health: str
    ssh: str
    buttons: list[Button]
    is_marked: bool = False
    key: str = ""

    @property
    def instance(self) -> Instance:
        return self.row.instance

    @property
    def word(self) -> StateWord:
        return self.row.word

    @property
    def is_billed(self) -> bool:
        """True while its price is being burnt."""
        return self.word is StateWord.RUNNING and self.instance.session_ready_at is not None


def shown_of(
    rows: Sequence[InstanceRow], visit: Visit, *, marked: Collection[str] = ()
) -> list[Shown]:
    """Return rows as they are shown, with the places in the queue of those that wait."""
    waiting = [row.waiting["id"] for row in rows if row.waiting is not None]
    places = queue_places(waiting, now=rows[0].now) if rows else {}
    return [_shown(row, visit, places, marked) for row in rows]


def _shown(
    row: InstanceRow, visit: Visit, places: dict[Any, int], marked: Collection[str]
) -> Shown:
    text = to_text("ins", row.instance.pk)
    place = None if row.waiting is None else places.get(row.waiting["id"])
    shown = Shown(
        row=row,
        id=text,
        url=f"{visit.home}instances/{text}",
        why=why_of(row, place=place),
        stops=_stops(row),
        notice=_notice(row),
        health=health_of(row.instance),
        ssh=ssh_command(row.ssh),
        buttons=buttons_of(row.instance, row.actions),
        is_marked=text in marked,
    )
    return replace(shown, key=_key_of(shown, visit))


def _key_of(shown: Shown, visit: Visit) -> str:
    row, instance = shown.row, shown.instance
    # How long ago and until when is kept true by the browser (data-ago).
    soon = [(one.at, one.words) for one in (shown.stops, shown.notice) if one]
    return print_of(
        [shown.url, instance.version, instance.name, instance.slug, instance.region],
        [instance.offer.name, instance.project.name, row.price, shown.is_billed],
        [row.word, shown.why, shown.health, shown.ssh, shown.buttons, shown.is_marked, soon],
        [instance.session_ready_at],
        [row.actions["stop"].legal, visit.may("instances:write"), visit.tenant.time_zone],
    )


def why_of(row: InstanceRow, *, place: int | None) -> str:
    """Return what stands behind the word, in words; empty where the word says it all."""
    if row.instance.state == S.MIGRATING:
        why = reason_words(str(row.instance.state_reason.get("code", "")))
        return " · ".join(part for part in (why, _on_its_way(row, place=place)) if part)
    return _on_its_way(row, place=place)


def _on_its_way(row: InstanceRow, *, place: int | None) -> str:
    instance = row.instance
    if instance.state == S.QUEUED or row.waiting is not None:
        words = waits_for((row.waiting or {}).get("reasons") or {})
        if place is None:
            return words
        queue = gettext("%(words)s; place %(place)d in the queue")
        return queue % {"words": words, "place": place}
    if instance.state in (S.FAILED, S.STOPPED, S.STOPPING):
        return reason_words(str(instance.state_reason.get("code", "")))
    if row.operation is not None:
        return progress_words(steps_of(row.operation, now=row.now))
    return ""


def _stops(row: InstanceRow) -> Deadline | None:
    if row.stops_at is None or row.word in (
        StateWord.STOPPED,
        StateWord.STOPPING,
        StateWord.FAILED,
        StateWord.DELETED,
    ):
        return None
    return _deadline(row.stops_at, row.now, gettext("It stops by itself."))


def _notice(row: InstanceRow) -> Deadline | None:
    if row.notice is None:
        return None
    return _deadline(row.notice["deadline"], row.now, notice_words(row.notice["kind"]))


def _deadline(at: datetime, now: datetime, words: str) -> Deadline:
    return Deadline(at=at, seconds=max(0, int((at - now).total_seconds())), words=words)


def health_of(instance: Instance) -> str:
    """Return what is wrong with a live instance, in words; empty if nothing is, or it rests."""
    if instance.word is not StateWord.RUNNING or instance.health == Health.OK:
        return ""
    words = {
        Health.DEGRADED: pgettext("health", "degraded"),
        Health.UNREACHABLE: gettext("its node cannot be reached; what is not proven is free"),
        Health.UNKNOWN: gettext("not proven at the moment; what is not proven is free"),
    }
    return words.get(Health(instance.health), instance.health)


def ssh_command(endpoint: dict[str, Any] | None) -> str:
    """Return the line that logs in, empty without an SSH endpoint."""
    if endpoint is None:
        return ""
    port = "" if endpoint["port"] == 22 else f" -p {endpoint['port']}"
    return f"ssh{port} {endpoint['user'] or 'root'}@{endpoint['host']}"
