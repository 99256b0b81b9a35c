"""Request ids for every answer, and no HTML under /v1 whatever happens."""

import json
import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_only_middleware

from rental.api.contract import is_api
from rental.api.errors import PROBLEM, Problem
from rental.records import ids
from rental.records.context import bound

GOOD_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

_CODE_OF = {
    301: "not_found",  # Django's offer to append a slash; no path of the API ends in one
    400: "malformed_request",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "content_too_large",
    415: "unsupported_media_type",
    503: "unavailable",
}

Handler = Callable[[HttpRequest], HttpResponseBase]


@sync_only_middleware
def request_ids(get_response: Handler) -> Handler:
    """
    Outermost. Takes a sane X-Request-Id or makes one, and sends it back.

    Errors that Django answers outside any view (a bad Host, a path with a newline) are HTML;
    under /v1 they are written again as problems.
    """

    def handle(request: HttpRequest) -> HttpResponseBase:
        asked = request.headers.get("X-Request-Id", "")
        name = asked if GOOD_ID.fullmatch(asked) else ids.to_text("req", ids.new_id())
        request.request_id = name  # type: ignore[attr-defined]
        with bound(request_id=name):
            response = get_response(request)
        if response.status_code >= 300 and is_api(request):
            response = _as_problem(request, response, name)
        response["X-Request-Id"] = name
        return response

    return handle


@sync_only_middleware
def in_one_thread(get_response: Handler) -> Handler:
    """
    Innermost. Being sync, it makes Django run all middleware and the view in one thread: without
    it every middleware of an ASGI process hops between threads twice (measured: 2-4 ms).
    """
    return get_response


def _as_problem(request: HttpRequest, response: HttpResponseBase, name: str) -> HttpResponseBase:
    if "json" in response.get("Content-Type", ""):
        return response
    status = response.status_code
    code = _CODE_OF.get(status)
    if code is None:
        status, code = 500, "internal_error"
    elif code == "not_found":
        status = 404
    body = Problem(status, code).body(path=request.path, request_id=name)
    return HttpResponse(json.dumps(body), status=status, content_type=PROBLEM)
