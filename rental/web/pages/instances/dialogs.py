"""
The dialogs of commands: what each does to money and data, said before it is given.

A dialog carries the generation that was looked at (If-Match) and a key of its own, so that a stale
page cannot act on a changed instance, and a second click is the first one again.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.http import HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from billing.services.wallets import Balance
from rental.catalog.services import lasts_s
from rental.instances import services
from rental.instances.effects import ALL_DATA, Effect, effect_of
from rental.instances.models import Instance
from rental.instances.queries import InstanceRow
from rental.refusals import Refusal
from rental.web.forms.instances import CommandForm
from rental.web.once import new_key
from rental.web.pages.instances.answers import finished, in_words
from rental.web.pages.instances.buttons import LOOKS, Look
from rental.web.pages.instances.finding import balance_for, row_of
from rental.web.pages.instances.shown import Shown, shown_of
from rental.web.visit import Visit, action, by_method, page

COMMANDS: Final[dict[str, Callable[..., Instance]]] = {
    "stop": services.stop_instance,
    "start": services.start_instance,
    "restart": services.restart_instance,
    "release": services.release_instance,
}
DONE: Final[dict[str, Promise]] = {
    "cancel": _("%(name)s waits no more; nothing was charged."),
    "start": _("%(name)s is in the queue; it costs nothing before it is ready."),
    "retry": _("%(name)s is in the queue; it costs nothing before it is ready."),
    "stop": _("%(name)s: billing has ended; it is being stopped."),
    "restart": _("%(name)s restarts; it costs nothing until it is ready again."),
    "release": _("%(name)s is released; all its costs have ended."),
}


@dataclass(frozen=True, kw_only=True)
class Dialog:
    """
    ``lasts_s``: how long the balance lasts with what a start adds, seconds. ``asks_name``: data is
    lost for ever, so the name is typed; ``typed``: what was, if it was wrong. ``refusal``: why it
    was not done; ``button``: None if the command cannot be given any more.
    """

    shown: Shown
    word: str
    look: Look
    effect: Effect
    once: str
    asks_name: bool
    balance: Balance | None = None
    lasts_s: int | None = None
    refusal: Refusal | None = None
    why_not: str = ""
    typed: str = ""
    nav: str = "instances"


def _dialog(visit: Visit, row: InstanceRow, word: str, *, refusal: Refusal | None = None) -> Dialog:
    look = LOOKS[word]
    (shown,) = shown_of([row], visit)
    effect = effect_of(row.instance, look.verb, now=visit.now)
    balance = balance_for(visit) if look.verb == "start" else None
    return Dialog(
        shown=shown,
        word=word,
        look=look,
        effect=effect,
        once=new_key(),
        asks_name=ALL_DATA in effect.lost,
        balance=balance,
        lasts_s=None
        if balance is None
        else lasts_s(
            available=balance.available, burn_per_hour=balance.burn_per_hour + effect.burn_begins
        ),
        refusal=refusal,
        why_not=row.actions[look.verb].why,
        typed=visit.request.POST.get("name", "") if refusal and refusal.field == "name" else "",
    )


@page("instances:write")
def show_dialog(visit: Visit, instance_id: uuid.UUID, word: str) -> HttpResponse:
    return _render(visit, _dialog(visit, row_of(visit, instance_id), word))


@action("instances:write")
def give_command(visit: Visit, instance_id: uuid.UUID, word: str) -> HttpResponse:
    """Give the command of the dialog once; a refusal is said in the dialog, drawn anew."""
    look, row = LOOKS[word], row_of(visit, instance_id)
    form = CommandForm(visit.request.POST)
    if not form.is_valid():
        return HttpResponse(status=400)
    asks_name = look.verb == "release" and _loses_data(visit, row)
    if asks_name and form.cleaned_data["name"].strip() != row.instance.name:
        words = gettext("Type the name as it stands there. Nothing was released.")
        return _refuse(visit, row, word, Refusal(422, "invalid_request", words, "name"))

    def run() -> dict[str, str]:
        instance = COMMANDS[look.verb](
            tenant_id=visit.tenant.id,
            instance_id=instance_id,
            if_generation=form.cleaned_data["generation"],
            actor=visit.actor,
            now=visit.now,
            request_id=visit.request_id,
        )
        return {"name": instance.name}

    try:
        done = visit.once(run)
    except Exception as error:
        refusal = visit.refusal(error)
        if refusal is None or refusal.status == 404:
            raise
        return _refuse(visit, row_of(visit, instance_id), word, in_words(error, refusal))
    words = str(DONE[word]) % {"name": done["name"]}
    return finished(visit, words, instance_id)


def _loses_data(visit: Visit, row: InstanceRow) -> bool:
    return ALL_DATA in effect_of(row.instance, "release", now=visit.now).lost


def _refuse(visit: Visit, row: InstanceRow, word: str, refusal: Refusal) -> HttpResponse:
    dialog = _dialog(visit, row, word, refusal=refusal)
    return _render(visit, dialog, status=refusal.status)


def _render(visit: Visit, dialog: Dialog, *, status: int = 200) -> HttpResponse:
    """Under htmx the dialog alone; without JavaScript a page with the same form."""
    template = "_dialog.html" if visit.is_htmx else "dialog_page.html"
    return visit.render(f"web/instances/{template}", dialog, status=status)


dialog = by_method(show_dialog, give_command)
