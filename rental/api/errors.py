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
from rest_framework import exceptions as drf
from rest_framework.response import Response

from rental.refusals import CODES, facts_of, field_of, row_of

log = structlog.get_logger()

PROBLEM = "application/problem+json"


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
