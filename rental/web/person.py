"""
The frame of pages that belong to a person and not to a tenant: ``/me``, ``/console``, ``/join``.

    @personal("GET", "POST")
    def show(person: Person) -> HttpResponse: ...
"""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property, wraps
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from django.contrib import messages
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render, resolve_url
from django.utils import timezone

from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.records.ids import to_text
from rental.tenants.models import User
from rental.web import answers
from rental.web.visit import Level, Visit, memberships_of, to_login, visit_to

log = structlog.get_logger()


class Person:
    """One request of somebody who is signed in. Templates see it as ``person``."""

    def __init__(self, request: HttpRequest, user: User, now: datetime) -> None:
        self.request = request
        self.user = user
        self.now = now

    @cached_property
    def actor(self) -> Actor:
        return Actor(kind="user", id=to_text("usr", self.user.pk))

    @cached_property
    def visit(self) -> Visit | None:
        """Return the tenant that he looked at last, or his first: the page stands in its frame."""
        memberships = memberships_of(self.user)
        if not memberships:
            return None
        slug = self.request.session.get("tenant")
        first = min(memberships, key=lambda one: (one.created_at, one.pk))
        last = next((one for one in memberships if one.tenant.slug == slug), first)
        return visit_to(self.request, last, memberships, now=self.now)

    @property
    def is_htmx(self) -> bool:
        return self.request.headers.get("HX-Request") == "true"

    def render(self, template: str, page: Any = None, *, status: int = 200) -> HttpResponse:
        """Answer with a page; it extends ``shell``: the console, where he has a tenant."""
        context = {
            "person": self,
            "visit": self.visit,
            "shell": "web/console.html" if self.visit else "web/joining/shell.html",
            **answers.members_of(page),
        }
        zone = ZoneInfo(self.visit.tenant.time_zone) if self.visit else None
        with timezone.override(zone):
            return render(self.request, template, context, status=status)

    def redirect(self, to: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        return answers.redirect(self.request, resolve_url(to, *args, **kwargs))

    def toast(self, text: str, level: Level = "ok") -> None:
        """Say something on the next page."""
        messages.add_message(self.request, answers.LEVELS[level], text)


Function = Callable[..., HttpResponse]


def personal(*methods: str) -> Callable[[Function], Function]:
    """Serve ``methods`` to whoever is signed in; ``view.personal`` says so to the tenant matrix."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def view(request: HttpRequest, **path: Any) -> HttpResponse:
            asked = "GET" if request.method == "HEAD" else request.method
            if asked not in methods:
                return HttpResponseNotAllowed(list(methods))
            try:
                if not isinstance(request.user, User):
                    return to_login(request)
                response = function(Person(request, request.user, database_now()), **path)
            except (OperationalError, InterfaceError) as error:
                log.warning("web.database_away", error=str(error))
                return answers.unavailable(request)
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        view.personal = methods  # type: ignore[attr-defined]
        return view

    return decorate
