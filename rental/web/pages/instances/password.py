"""The password of an instance: shown on a click, audited, and gone with the page."""

import uuid
from dataclasses import dataclass

from django.http import HttpResponse

from rental.instances import services
from rental.instances.queries import InstanceRow
from rental.refusals import Refusal
from rental.web.pages.instances.finding import row_of
from rental.web.pages.instances.shown import Shown, shown_of
from rental.web.visit import Visit, action, by_method, page


@dataclass(frozen=True, kw_only=True)
class PasswordContext:
    """``password``: in clear, for this one answer."""

    shown: Shown
    password: str = ""
    refusal: Refusal | None = None


def _context(visit: Visit, row: InstanceRow, **rest: object) -> PasswordContext:
    (shown,) = shown_of([row], visit)
    return PasswordContext(shown=shown, **rest)  # type: ignore[arg-type]


@page("instances:write")
def hide_password(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """The place of the password, without it."""
    row = row_of(visit, instance_id)
    return visit.render("web/instances/_password.html", _context(visit, row))


@action("instances:write")
def show_password(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """Reveal it; with ``rotate`` a new one. Not kept for a second click: each is audited."""
    row = row_of(visit, instance_id)
    try:
        _instance, password = services.reveal_password(
            tenant_id=visit.tenant.id,
            instance_id=instance_id,
            rotate=visit.request.POST.get("rotate") == "1",
            actor=visit.actor,
            now=visit.now,
            request_id=visit.request_id,
        )
    except Exception as error:
        refusal = visit.refusal(error)
        if refusal is None or refusal.status == 404:
            raise
        context = _context(visit, row, refusal=refusal)
        return visit.render("web/instances/_password.html", context, status=refusal.status)
    template = "_password.html" if visit.is_htmx else "password_page.html"
    return visit.render(f"web/instances/{template}", _context(visit, row, password=password))


password = by_method(hide_password, show_password)
