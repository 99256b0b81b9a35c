"""Several instances stopped at once: one dialog that names them, one command each."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext, ngettext

from rental.instances import services
from rental.instances.models import Instance
from rental.instances.queries import InstanceRow
from rental.records import ids
from rental.records.ids import to_text
from rental.web.forms.instances import MOST_MARKED
from rental.web.once import new_key
from rental.web.pages.instances.answers import changed_event, in_words
from rental.web.pages.instances.finding import rows_by_id
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True, kw_only=True)
class Skipped:
    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class BulkDialog:
    """``burn``: micro-units an hour that end. ``marks``: id and generation of what is stopped."""

    stops: list[InstanceRow]
    marks: list[str]
    skipped: list[Skipped]
    burn: int
    once: str
    most: int = MOST_MARKED
    nav: str = "instances"


@page("instances:write")
def show_bulk_stop(visit: Visit) -> HttpResponse:
    wanted = _ids(visit.request.GET.getlist("id"))
    rows = rows_by_id(visit, list(wanted))
    stops = [row for row in rows if row.actions["stop"].legal]
    return visit.render(
        "web/instances/_bulk_stop.html" if visit.is_htmx else "web/instances/bulk_page.html",
        BulkDialog(
            stops=stops,
            marks=[f"{to_text('ins', r.instance.pk)}:{r.instance.generation}" for r in stops],
            skipped=[
                Skipped(name=row.instance.name, why=row.actions["stop"].why)
                for row in rows
                if not row.actions["stop"].legal
            ],
            burn=sum(row.burn for row in stops),
            once=new_key(),
        ),
    )


@action("instances:write")
def bulk_stop(visit: Visit) -> HttpResponse:
    """Stop each as its own command; one that is refused changes nothing and holds up no other."""
    marked = _ids(visit.request.POST.getlist("id"))
    mine = Instance.objects.of(visit.tenant.id).filter(pk__in=marked)
    names = dict(mine.values_list("pk", "name"))
    wanted = sorted(names)

    def run() -> dict[str, Any]:
        return {
            "outcomes": [
                {"name": names[one], "refused": _stop(visit, one, marked[one])} for one in wanted
            ]
        }

    outcomes = visit.once(run)["outcomes"]
    stopped = [one["name"] for one in outcomes if not one["refused"]]
    if stopped:
        words = ngettext(
            "Stopped %(n)d instance; its billing has ended: %(names)s",
            "Stopped %(n)d instances; their billing has ended: %(names)s",
            len(stopped),
        )
        visit.toast(words % {"n": len(stopped), "names": ", ".join(stopped)})
    for one in outcomes:
        if one["refused"]:
            words = gettext("%(name)s was not stopped: %(why)s")
            visit.toast(words % {"name": one["name"], "why": one["refused"]}, "warn")
    if not visit.is_htmx:
        return visit.redirect(f"{visit.home}instances")
    for one in wanted:
        visit.trigger(changed_event(one))
    visit.trigger("unmark")
    return visit.done()


def _stop(visit: Visit, instance_id: uuid.UUID, generation: int | None) -> str:
    """Return why the stop was refused, "" if it was not. Each is a savepoint of its own."""
    try:
        services.stop_instance(
            tenant_id=visit.tenant.id,
            instance_id=instance_id,
            if_generation=generation,
            actor=visit.actor,
            now=visit.now,
            request_id=visit.request_id,
        )
    except Exception as error:
        refusal = visit.refusal(error)
        if refusal is None:
            raise
        return in_words(error, refusal).words
    return ""


def _ids(marks: Iterable[str]) -> dict[uuid.UUID, int | None]:
    """Read `ins_…` and `ins_…:generation`; what is neither is left out. At most MOST_MARKED."""
    found: dict[uuid.UUID, int | None] = {}
    for mark in list(marks)[:MOST_MARKED]:
        text, _, generation = mark.partition(":")
        try:
            found[ids.from_text("ins", text)] = int(generation) if generation else None
        except ValueError:  # a MalformedId is one
            continue
    return found


bulk = by_method(show_bulk_stop, bulk_stop)
