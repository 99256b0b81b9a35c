"""How an action on instances ends: said in a toast, and what shows them is read anew at once."""

import uuid

from django.http import HttpResponse
from django.utils.translation import gettext

from rental.instances.errors import GenerationMismatch
from rental.records.ids import to_text
from rental.refusals import Refusal
from rental.web.visit import Visit


def changed_event(instance_id: uuid.UUID) -> str:
    """Return the browser's event on which rows and headers of the instance fetch themselves."""
    return f"changed-{to_text('ins', instance_id)}"


def finished(visit: Visit, words: str, *instance_ids: uuid.UUID) -> HttpResponse:
    """Close the dialog and refresh what shows the instances; without htmx go to their page."""
    if not visit.is_htmx:
        visit.toast(words)
        only = f"/{to_text('ins', instance_ids[0])}" if len(instance_ids) == 1 else ""
        return visit.redirect(f"{visit.home}instances{only}")
    for instance_id in instance_ids:
        visit.trigger(changed_event(instance_id))
    return visit.done(words)


def in_words(error: Exception, refusal: Refusal) -> Refusal:
    """Return the refusal as a person understands it who looked at an older state."""
    if isinstance(error, GenerationMismatch):
        words = gettext("It has changed since you looked at it, so nothing was done.")
        return Refusal(refusal.status, refusal.code, words)
    return refusal
