"""The one place where failures become HTTP answers (RFC 9457, application/problem+json)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from rest_framework import exceptions as drf
from rest_framework.response import Response

from rental.api.answers import facts_of, field_of, row_of

log = structlog.get_logger()

PROBLEM = "application/problem+json"

# Stable codes and their titles; `/v1/docs` and docs/api.md list them, and a test compares.
CODES: dict[str, str | Promise] = {
    "malformed_request": _("The request could not be read"),
    "unauthenticated": _("A valid API key is required"),
    "insufficient_balance": _("The balance does not cover half an hour"),
    "in_arrears": _("There is an unpaid amount"),
    "forbidden": _("This key may not do that"),
    "not_found": _("There is nothing here"),
    "method_not_allowed": _("This method is not offered here"),
    "illegal_transition": _("The instance cannot do this in its state"),
    "locked": _("The instance is locked"),
    "protected": _("The instance is protected"),
    "in_use": _("Something still uses it"),
    "uniqueness_error": _("This already exists"),
    "idempotency_in_progress": _("The first request with this key is still running"),
    "precondition_failed": _("The resource has changed since it was read"),
    "content_too_large": _("The request is too large"),
    "unsupported_media_type": _("Send application/json"),
    "invalid_request": _("The request has invalid fields"),
    "idempotency_key_reused": _("The key was used for another request"),
    "unknown_offer": _("Nothing is on sale under this code"),
    "unknown_image": _("No image is offered under this code"),
    "market_not_offered": _("The offer is not sold on this market"),
    "image_does_not_fit": _("The image does not run on this GPU"),
    "unknown_quote": _("There is no such quote"),
    "quote_expired": _("The quote is no longer valid"),
    "quote_mismatch": _("The order is not what was quoted"),
    "unknown_project": _("There is no such project"),
    "unknown_ssh_key": _("There is no such SSH key"),
    "unknown_secret": _("There is no such secret"),
    "price_exceeded": _("The price is above the given limit"),
    "resource_unavailable": _("This is not on sale"),
    "precondition_required": _("If-Match is required"),
    "rate_limit_exceeded": _("Too many requests"),
    "internal_error": _("An error on our side"),
    "unavailable": _("The service cannot answer at the moment"),
}


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one part of the input; ``field`` is a dotted path."""

    field: str
    code: str
    detail: str

    def as_dict(self) -> dict[str, str]:
        return {"field": self.field, "code": self.code, "detail": self.detail}


@dataclass
class Problem(Exception):
    """An answer that is not a success. Raised by the frame; domain errors use ``ANSWERS``."""

    status: int
    code: str
    detail: str = ""
    errors: list[FieldError] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    def body(self, *, path: str, request_id: str) -> dict[str, Any]:
        title = str(CODES[self.code])
        return {
            "type": f"/v1/docs#{self.code}",
            "title": title,
            "status": self.status,
            "detail": self.detail or title,
            "instance": path,
            "code": self.code,
            "request_id": request_id,
            "errors": [error.as_dict() for error in self.errors],
            **self.facts,
        }


def invalid(field_name: str, code: str, detail: str | Promise) -> Problem:
    """Return the 422 for one field."""
    return Problem(422, "invalid_request", errors=[FieldError(field_name, code, str(detail))])


def _flatten(detail: Any, path: str = "") -> Iterator[FieldError]:
    """Walk DRF's nested error details. Ends at (path, code, text)."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            own = "" if name == "non_field_errors" else str(name)
            yield from _flatten(inner, ".".join(part for part in (path, own) if part))
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, Mapping | list)
            yield from _flatten(inner, f"{path}.{index}" if nested else path)
    else:
        yield FieldError(path, getattr(detail, "code", "invalid"), str(detail))


_FRAMEWORK: dict[type[Exception], tuple[int, str]] = {
    drf.ParseError: (400, "malformed_request"),
    drf.NotAuthenticated: (401, "unauthenticated"),
    drf.AuthenticationFailed: (401, "unauthenticated"),
    drf.PermissionDenied: (403, "forbidden"),
    drf.NotFound: (404, "not_found"),
    Http404: (404, "not_found"),
    DjangoPermissionDenied: (403, "forbidden"),
    drf.MethodNotAllowed: (405, "method_not_allowed"),
    drf.UnsupportedMediaType: (415, "unsupported_media_type"),
    drf.Throttled: (429, "rate_limit_exceeded"),
    RequestDataTooBig: (413, "content_too_large"),
    SuspiciousOperation: (400, "malformed_request"),
}


def problem_of(exc: Exception) -> Problem:
    """Return the answer to any exception. What nobody expected is logged and becomes a 500."""
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, drf.ValidationError):
        return Problem(422, "invalid_request", errors=list(_flatten(exc.detail)))
    if (row := row_of(exc)) is not None:
        words = str(row.words or exc)
        name = field_of(exc, row)
        errors = [] if name is None else [FieldError(name, row.code, words)]
        return Problem(row.status, row.code, words, errors, facts=facts_of(exc))
    for kind, (status, code) in _FRAMEWORK.items():
        if isinstance(exc, kind):
            return Problem(status, code, _words(exc), headers=_headers(exc))
    if isinstance(exc, OperationalError | InterfaceError):
        log.warning("api.database_away", error=str(exc))
        return Problem(503, "unavailable", headers={"Retry-After": "2"})
    log.error("api.bug", exc_info=exc, database=isinstance(exc, DatabaseError))
    return Problem(500, "internal_error")


def _words(exc: Exception) -> str:
    if isinstance(exc, Http404 | SuspiciousOperation | DjangoPermissionDenied):
        return ""  # Django's own words name models and settings
    if isinstance(exc, drf.APIException):
        return str(exc.detail)
    return str(exc)


def _headers(exc: Exception) -> dict[str, str]:
    headers: dict[str, str] = {}
    if challenge := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(exc, "wait", None)) is not None:
        headers["Retry-After"] = str(max(1, int(wait + 0.999)))
    return headers


def answer(exc: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception handler: every exception of a view ends here, bugs too."""
    request = context["request"]
    problem = problem_of(exc)
    return Response(
        problem.body(path=request.path, request_id=getattr(request, "request_id", "")),
        status=problem.status,
        headers=problem.headers,
        content_type=PROBLEM,
    )
