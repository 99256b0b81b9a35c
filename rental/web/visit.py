"""
Who looks at which tenant: the frame of every page under ``/t/<slug>/``.

    @page("instances:read")
    def show_list(visit: Visit) -> HttpResponse: ...

    @action("instances:write")
    def stop(visit: Visit, instance_id: uuid.UUID) -> HttpResponse: ...

The decorators check membership and verb on every request, read the clock once, and turn what the
domain refuses into words. ``view.verbs`` says what each method needs; the tenant matrix reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property, wraps
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import structlog
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render, resolve_url
from django.utils import timezone
from django.utils.translation import gettext as _

from rental import refusals
from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.records.ids import to_text
from rental.tenants import permissions
from rental.tenants.models import Membership, Tenant, User
from rental.web import answers, once

Level = Literal["ok", "info", "warn", "bad"]
log = structlog.get_logger()


class Visit:
    """
    One request of a member to his tenant. Templates see it as ``visit``.

    :param now: PostgreSQL's clock, read once
    :param others: the tenants of his other memberships, by name
    """

    def __init__(
        self,
        request: HttpRequest,
        membership: Membership,
        now: datetime,
        others: Sequence[Tenant] = (),
    ) -> None:
        self.request = request
        self.membership = membership
        self.others = others
        self.tenant: Tenant = membership.tenant
        self.user: User = membership.user
        self.now = now
        self._events: dict[str, Any] = {}

    # --- who and what

    @property
    def role(self) -> str:
        return self.membership.role

    @cached_property
    def verbs(self) -> frozenset[str]:
        """What he may do here now; in a suspended tenant everybody may only look."""
        verbs = permissions.verbs_of(self.membership.role)
        return verbs if self.tenant.status == Tenant.Status.ACTIVE else verbs & permissions.READ

    def may(self, verb: str) -> bool:
        if verb not in permissions.VERBS:
            raise permissions.UnknownVerb(verb)
        return verb in self.verbs

    @cached_property
    def actor(self) -> Actor:
        return Actor(kind="user", id=to_text("usr", self.user.pk))

    @property
    def request_id(self) -> str:
        return str(getattr(self.request, "request_id", ""))

    @property
    def is_htmx(self) -> bool:
        return self.request.headers.get("HX-Request") == "true"

    @property
    def home(self) -> str:
        """The address under which all pages of this tenant lie, with its slash."""
        return f"/t/{self.tenant.slug}/"

    # --- answers

    def render(self, template: str, page: Any = None, *, status: int = 200) -> HttpResponse:
        """
        Answer with a page or a fragment. ``page`` is a dataclass or a mapping; its members are the
        template's names, beside ``visit``.
        """
        context = {"visit": self, **answers.members_of(page)}
        response = render(self.request, template, context, status=status)
        return self._with_events(response)

    def redirect(self, to: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """Send the browser to a page, whole; what ``toast`` said is shown there."""
        url = resolve_url(to, *args, **kwargs)
        for toast in self._events.pop("toast", []):
            messages.add_message(self.request, answers.LEVELS[toast["level"]], toast["text"])
        return answers.redirect(self.request, url)

    def done(self, text: str = "", *, level: Level = "ok") -> HttpResponse:
        """Answer an action that changed no part of the page by itself: 204, close the dialog."""
        if text:
            self.toast(text, level)
        self._events.setdefault("close-dialog", True)
        return self._with_events(HttpResponse(status=204))

    def toast(self, text: str, level: Level = "ok") -> None:
        """Say something in the corner of the page, with this answer or after its redirect."""
        self._events.setdefault("toast", []).append({"text": str(text), "level": level})

    def trigger(self, event: str, detail: Any = True) -> None:
        """Fire an event in the browser when this answer arrives."""
        self._events[event] = detail

    def _with_events(self, response: HttpResponse) -> HttpResponse:
        return answers.with_events(response, self._events)

    # --- what the domain says no to

    def refusal(self, error: Exception) -> refusals.Refusal | None:
        """Return what to tell of an expected failure; None if it is not one."""
        return refusals.refusal_of(error)

    def once(self, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """
        Run an effect once for each form that was drawn: its hidden field ``once`` is the key. A
        second click gets what the first returned (JSON only).

        :raises SuspiciousOperation: if the form has no key
        """
        return once.run_once(self.request, tenant_id=self.tenant.id, now=self.now, run=run)


class View(Protocol):
    """A decorated view. ``verbs``: what each method needs, {"GET": "instances:read"}."""

    verbs: dict[str, str]

    def __call__(self, request: HttpRequest, **path: Any) -> HttpResponse: ...


PageFunction = Callable[..., HttpResponse]


def page(verb: str) -> Callable[[PageFunction], View]:
    """Serve GET to members who may ``verb``."""
    return _decorator("GET", verb)


def action(verb: str) -> Callable[[PageFunction], View]:
    """Serve POST to members who may ``verb``."""
    return _decorator("POST", verb)


def by_method(*views: View) -> View:
    """Put a page and an action under one address."""
    table = {method: view for view in views for method in view.verbs}

    def dispatch(request: HttpRequest, **path: Any) -> HttpResponse:
        view = table.get("GET" if request.method == "HEAD" else str(request.method))
        return view(request, **path) if view else HttpResponseNotAllowed(list(table))

    return _as_view(dispatch, {method: view.verbs[method] for method, view in table.items()})


def _decorator(method: str, verb: str) -> Callable[[PageFunction], View]:
    if verb not in permissions.VERBS:
        raise permissions.UnknownVerb(verb)

    def decorate(function: PageFunction) -> View:
        @wraps(function)
        def view(request: HttpRequest, *, tenant: str, **path: Any) -> HttpResponse:
            asked = "GET" if request.method == "HEAD" else request.method
            if asked != method:
                return HttpResponseNotAllowed([method])
            try:
                return _serve(function, request, tenant, verb, path)
            except (OperationalError, InterfaceError) as error:
                log.warning("web.database_away", error=str(error))
                return answers.unavailable(request)

        return _as_view(view, {method: verb})

    return decorate


def _as_view(function: Callable[..., HttpResponse], verbs: Mapping[str, str]) -> View:
    function.verbs = dict(verbs)  # type: ignore[attr-defined]
    return function  # type: ignore[return-value]


def _serve(
    function: PageFunction, request: HttpRequest, slug: str, verb: str, path: dict[str, Any]
) -> HttpResponse:
    user = request.user
    if not isinstance(user, User):
        return to_login(request)
    memberships = memberships_of(user)
    membership = next((one for one in memberships if one.tenant.slug == slug), None)
    if membership is None:
        raise Http404  # also for a tenant that exists: a stranger does not learn that it does
    visit = visit_to(request, membership, memberships, now=database_now())
    if request.session.get("tenant") != slug:
        request.session["tenant"] = slug
    with timezone.override(ZoneInfo(visit.tenant.time_zone)):
        if verb not in visit.verbs:
            return _forbidden(visit)
        try:
            response = function(visit, **path)
        except Exception as error:
            refusal = refusals.refusal_of(error)
            if refusal is None:
                raise
            response = _refused(visit, refusal)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def memberships_of(user: User) -> list[Membership]:
    """All of them, by name of the tenant: the way to another one lists them; nobody has many."""
    mine = Membership.objects.filter(user=user).select_related("tenant")
    found = list(mine.order_by("tenant__name", "tenant_id"))
    for membership in found:
        membership.user = user
    return found


def visit_to(
    request: HttpRequest, membership: Membership, all_of_his: Sequence[Membership], *, now: datetime
) -> Visit:
    others = [one.tenant for one in all_of_his if one is not membership]
    return Visit(request, membership, now, others)


def to_login(request: HttpRequest) -> HttpResponse:
    current = request.headers.get("HX-Current-URL")
    back = urlsplit(current).path if current else request.get_full_path()
    if request.method not in ("GET", "HEAD") and current is None:
        back = "/console"
    response = redirect_to_login(back)
    if request.headers.get("HX-Request") == "true":
        return answers.redirect(request, response["Location"], status=401)
    return response


def _forbidden(visit: Visit) -> HttpResponse:
    words = _("Your role in this tenant does not allow this. An owner can change it.")
    if visit.tenant.status != Tenant.Status.ACTIVE:
        words = _("This tenant is suspended: everything can be read, nothing can be changed.")
    return _refused(visit, refusals.Refusal(403, "forbidden", words))


def _refused(visit: Visit, refusal: refusals.Refusal) -> HttpResponse:
    """Under htmx the page stays as it is and a toast says why; else a page says it."""
    if refusal.status == 404:
        raise Http404
    if visit.is_htmx:
        visit.toast(refusal.words, "bad")
        response = visit._with_events(HttpResponse(status=refusal.status))
        response["HX-Reswap"] = "none"
        return response
    return visit.render("web/refused.html", {"refusal": refusal}, status=refusal.status)
