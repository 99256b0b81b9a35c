"""The name, changed where it stands: a title, and the form that takes its place."""

import uuid
from dataclasses import dataclass

from django.http import HttpResponse

from rental.instances import services
from rental.instances.queries import InstanceRow
from rental.refusals import Refusal
from rental.web.forms.instances import CommandForm
from rental.web.once import new_key
from rental.web.pages.instances.answers import changed_event, in_words
from rental.web.pages.instances.finding import row_of
from rental.web.pages.instances.shown import Shown, shown_of
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True, kw_only=True)
class Title:
    """``value``: what stands in the field; ``refusal``: why it was not taken."""

    shown: Shown
    value: str
    once: str
    refusal: Refusal | None = None
    is_open: bool = False


def title_of(
    visit: Visit,
    row: InstanceRow,
    *,
    value: str | None = None,
    refusal: Refusal | None = None,
    is_open: bool = False,
) -> Title:
    (shown,) = shown_of([row], visit)
    return Title(
        shown=shown,
        value=row.instance.name if value is None else value,
        once=new_key(),
        refusal=refusal,
        is_open=is_open,
    )


@page("instances:read")
def show_title(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """The title; with ``edit`` the form, for whoever may rename it."""
    row = row_of(visit, instance_id)
    is_open = "edit" in visit.request.GET and row.actions["rename"].legal
    return visit.render("web/instances/_title.html", title_of(visit, row, is_open=is_open))


@action("instances:write")
def take_name(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """Rename it. A refusal is said beside the field, which keeps what was typed."""
    form = CommandForm(visit.request.POST)
    row = row_of(visit, instance_id)
    if not form.is_valid():
        return HttpResponse(status=400)
    name = form.cleaned_data["name"]

    def run() -> dict[str, str]:
        instance = services.rename_instance(
            tenant_id=visit.tenant.id,
            instance_id=instance_id,
            name=name,
            if_generation=form.cleaned_data["generation"],
            actor=visit.actor,
            now=visit.now,
            request_id=visit.request_id,
        )
        return {"name": instance.name}

    try:
        visit.once(run)
    except Exception as error:
        refusal = visit.refusal(error)
        if refusal is None or refusal.status == 404:
            raise
        title = title_of(
            visit,
            row_of(visit, instance_id),
            value=name,
            refusal=in_words(error, refusal),
            is_open=True,
        )
        return visit.render("web/instances/_title.html", title, status=refusal.status)
    if not visit.is_htmx:
        return visit.redirect(f"{visit.home}instances/{title_of(visit, row).shown.id}")
    visit.trigger(changed_event(instance_id))
    return visit.render("web/instances/_title.html", title_of(visit, row_of(visit, instance_id)))


rename = by_method(show_title, take_name)
