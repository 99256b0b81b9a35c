"""One instance: its header, its tabs, and the fragments that are fetched anew when it changes."""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.http import HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing.explain import explain_instance
from billing.queries import spent_on
from billing.services.wallets import Balance
from rental.instances.history import MOST
from rental.instances.queries import InstanceSheet, events_of
from rental.instances.states import InstanceState
from rental.web.exports import csv_answer
from rental.web.pages.instances.connect import Connect, connect_of
from rental.web.pages.instances.cost import COLUMNS, Cost, cost_of, csv_rows
from rental.web.pages.instances.finding import balance_for, row_of, sheet_of
from rental.web.pages.instances.settings import Settings, settings_of
from rental.web.pages.instances.shown import Shown, shown_of
from rental.web.pages.instances.story import Line, lines_of
from rental.web.pages.instances.timeline import Step, steps_of
from rental.web.pages.instances.words import Failure, command_words, failure_of
from rental.web.visit import Visit, page

TABS: Final[dict[str, Promise]] = {
    "connect": _("Connect"),
    "charts": _("Charts"),
    "cost": _("Cost"),
    "events": _("Events"),
    "settings": _("Settings"),
}


@dataclass(frozen=True, kw_only=True)
class Tab:
    name: str
    label: Promise
    url: str


@dataclass(frozen=True, kw_only=True)
class Head:
    """
    What the header shows. ``spent``: charged plus the estimate, micro-units, None for whoever may
    not see money. ``command``, ``steps``: the one that is on its way or ended last; ``took``: how
    long it took. ``failure``: of a failed instance.
    """

    shown: Shown
    sheet: InstanceSheet
    spent: int | None
    steps: list[Step]
    command: str
    took: timedelta | None
    failure: Failure | None
    nav: str = "instances"


@dataclass(frozen=True, kw_only=True)
class Detail(Head):
    """``connect`` to ``settings``: filled for the tab that is open."""

    tab: str
    tabs: list[Tab]
    balance: Balance | None
    connect: Connect | None = None
    cost: Cost | None = None
    lines: list[Line] | None = None
    settings: Settings | None = None


def _head(
    visit: Visit, instance_id: uuid.UUID, *, balance: Balance | None = None
) -> dict[str, Any]:
    sheet = sheet_of(visit, instance_id, balance=balance)
    (shown,) = shown_of([sheet], visit)
    last = sheet.last_operation
    return {
        "shown": shown,
        "sheet": sheet,
        "spent": spent_on(instance_id, now=visit.now) if visit.may("billing:read") else None,
        "steps": [] if last is None else steps_of(last, now=visit.now),
        "command": "" if last is None else command_words(last["kind"], last["state"]),
        "took": None if not last or not last["finished_at"] else _took(last),
        "failure": _failure(sheet),
    }


def _took(operation: dict[str, Any]) -> timedelta:
    taken: timedelta = operation["finished_at"] - operation["created_at"]
    return taken


def _failure(sheet: InstanceSheet) -> Failure | None:
    if sheet.instance.state != InstanceState.FAILED:
        return None
    was_ready = sheet.run is not None and (sheet.run.closed_at_tick or 0) > 0
    return failure_of(sheet.instance.state_reason | {"detail": sheet.error}, was_ready=was_ready)


@page("instances:read")
def show_detail(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    balance = balance_for(visit)
    head = _head(visit, instance_id, balance=balance)
    asked = visit.request.GET.get("tab", "")
    tab = asked if asked in TABS else "connect"
    url = head["shown"].url
    tabs = [Tab(name=name, label=label, url=f"{url}?tab={name}") for name, label in TABS.items()]
    content = _content(visit, head["sheet"], tab)
    detail = Detail(**(head | content), tab=tab, tabs=tabs, balance=balance)
    return visit.render("web/instances/detail.html", detail)


def _content(visit: Visit, sheet: InstanceSheet, tab: str) -> dict[str, Any]:
    """Return what the open tab shows, and read nothing for the others."""
    instance = sheet.instance
    if tab == "connect":
        return {"connect": connect_of(visit, sheet)}
    if tab == "cost" and visit.may("billing:read"):
        explanation = explain_instance(tenant_id=visit.tenant.id, instance_id=instance.pk)
        return {"cost": cost_of(explanation), "spent": explanation.total}
    if tab == "events":
        events = events_of(instance, with_names=visit.may("audit:read"), limit=MOST)
        return {"lines": lines_of(events)}
    if tab == "settings":
        return {"settings": settings_of(visit, sheet)}
    return {}


@page("instances:read")
def show_header(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """The header alone, fetched anew when the instance has changed."""
    return visit.render("web/instances/_header.html", Head(**_head(visit, instance_id)))


@page("billing:read")
def export_cost(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """The cost tab as a file."""
    instance = row_of(visit, instance_id).instance
    explanation = explain_instance(tenant_id=visit.tenant.id, instance_id=instance_id)
    answer: HttpResponse = csv_answer(
        visit.request,
        name=f"cost-{instance.slug}.csv",
        header=COLUMNS,
        batches=csv_rows(explanation, ZoneInfo(visit.tenant.time_zone)),
    )
    return answer
