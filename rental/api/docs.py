"""The API's own description: the OpenAPI file as committed, and a page that lists it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from rest_framework.request import Request
from rest_framework.response import Response

from rental.api.compat import METHODS
from rental.api.contract import ProblemView
from rental.api.errors import Problem
from rental.refusals import CODES

OPENAPI = Path(settings.BASE_DIR) / "docs" / "openapi.json"


@cache
def _text() -> str:
    return OPENAPI.read_text(encoding="utf-8")


@cache
def _operations() -> list[dict[str, Any]]:
    """Return the operations in the order of the file, as the page shows them."""
    found = []
    for path, item in json.loads(_text())["paths"].items():
        for method in METHODS:
            if method in item:
                described = item[method]
                found.append(
                    {
                        "method": method.upper(),
                        "path": path,
                        "name": described["operationId"],
                        "summary": described.get("summary", ""),
                        "description": described.get("description", ""),
                    }
                )
    return found


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """Answer the committed file; CI keeps it equal to the code."""
    return HttpResponse(_text(), content_type="application/json")


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Answer one page without scripts or outside assets: operations and error codes."""
    return render(request, "api/docs.html", {"operations": _operations(), "codes": CODES})


class Nothing(ProblemView):
    """What does not exist answers 404, whatever the method."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise Problem(404, "not_found")

    def get(self, request: Request) -> Response:  # never reached: ``initial`` answers
        raise Problem(404, "not_found")
