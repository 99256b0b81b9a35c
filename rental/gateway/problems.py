"""Failures of the HTTP side, as RFC 9457 has them. No page of the web process is drawn here."""

from django.http import HttpRequest, JsonResponse


def problem(status: int, code: str, detail: str) -> JsonResponse:
    """Answer a failure with its code and what to do next."""
    return JsonResponse(
        {"title": code.replace("_", " "), "status": status, "code": code, "detail": detail},
        status=status,
        content_type="application/problem+json",
    )


def show_nothing_here(request: HttpRequest, exception: Exception) -> JsonResponse:
    return problem(404, "not_found", "agents enrol at /agent/v1/enrol; pages are the web process's")


def show_malformed(request: HttpRequest, exception: Exception) -> JsonResponse:
    return problem(400, "malformed", "the request could not be read")


def show_forbidden(request: HttpRequest, exception: Exception) -> JsonResponse:
    return problem(403, "forbidden", "this is not yours to ask")


def show_broken(request: HttpRequest) -> JsonResponse:
    return problem(
        500, "internal", "a fault of the gateway's; its log names it, and nothing was done"
    )
