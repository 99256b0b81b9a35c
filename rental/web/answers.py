"""The plain parts of an answer to a browser: events for htmx, redirects, the page for an outage."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from django.contrib.messages import constants
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

LEVELS = {
    "ok": constants.SUCCESS,
    "info": constants.INFO,
    "warn": constants.WARNING,
    "bad": constants.ERROR,
}


def members_of(page: Any) -> dict[str, Any]:
    """Return the names that a template sees: members of a dataclass (not copied) or a mapping."""
    if page is None:
        return {}
    if isinstance(page, Mapping):
        return dict(page)
    return {field.name: getattr(page, field.name) for field in dataclasses.fields(page)}


def with_events(response: HttpResponse, events: Mapping[str, Any]) -> HttpResponse:
    """Let the browser fire ``events`` ({name: detail}) when the answer arrives."""
    if events:
        # ASCII, as a header must be; the browser reads \uXXXX.
        response["HX-Trigger"] = json.dumps(events, default=str)
    return response


def redirect(request: HttpRequest, url: str, *, status: int = 204) -> HttpResponse:
    """Send the browser to another page; under htmx the whole page goes, not a part of it."""
    if request.headers.get("HX-Request") == "true":
        response = HttpResponse(status=status)
        response["HX-Redirect"] = url
        return response
    return HttpResponseRedirect(url)


def unavailable(request: HttpRequest) -> HttpResponse:
    """Say that the database is away. Reads nothing from it."""
    response = render(request, "web/unavailable.html", status=503)
    response["Retry-After"] = "2"
    return response
