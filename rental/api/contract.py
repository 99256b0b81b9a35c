"""
One decorator that says what an operation takes, gives and needs; the view, the idempotency, the
OpenAPI file and the tenant matrix all read it, so they cannot disagree.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, wraps
from typing import Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rental.api.auth import Caller, KeyAuthentication, KeyMay
from rental.api.errors import FieldError, Problem, answer
from rental.api.fields import Input, Output, Query
from rental.api.parsing import JsonAlways, StrictJson
from rental.api.throttling import KeyThrottle
from rental.records import ids
from rental.records.clock import database_now
from rental.records.idempotency import Answer, answer_once
from rental.records.paging import Key, Page, take_page

Shape = Literal["one", "list", "page", "none"]

# Every path parameter of the API is an id; its name says of what.
PATH_IDS = {
    "instance_id": "ins",
    "operation_id": "op",
    "quote_id": "quo",
    "ssh_key_id": "ssh",
    "secret_id": "sec",
    "api_key_id": "key",
    "project_id": "prj",
    "user_id": "usr",
    "invitation_id": "inv",
}


@dataclass(frozen=True)
class Contract:
    """
    What one method of one path promises.

    :param name: operationId, verb first
    :param verb: what the key must be allowed to do (rental.tenants.permissions); None: any key
    :param once: takes Idempotency-Key; the effect and the stored answer are one transaction
    :param secret: name of a member that is shown in the first answer and never stored
    :param if_match: "required" answers 428 without If-Match; "optional" compares when given
    :param errors: statuses besides those that every operation can answer
    """

    name: str
    summary: str
    verb: str | None
    output: type[Output] | None
    shape: Shape = "one"
    status: int = 200
    query: type[Query] | None = None
    body: type[Input] | None = None
    once: bool = False
    secret: str | None = None
    etag: bool = False
    if_match: Literal["required", "optional"] | None = None
    errors: Sequence[int] = ()
    description: str = ""


@cache
def _presenter(output: type[Output]) -> Output:
    """Build the fields once: copying them costs more than presenting ten rows."""
    return output()


def present(output: type[Output], row: Any) -> dict[str, Any]:
    """Return one row as the JSON object that ``output`` describes."""
    return dict(_presenter(output).to_representation(row))


def _body_of(contract: Contract, value: Any) -> dict[str, Any] | None:
    if contract.output is None:
        return None
    if contract.shape == "page":
        page: Page[Any] = value
        return {
            "data": [present(contract.output, row) for row in page.rows],
            "has_more": page.next_cursor is not None,
            "next_cursor": page.next_cursor,
        }
    if contract.shape == "list":
        return {"data": [present(contract.output, row) for row in value]}
    return present(contract.output, value)


def operation(contract: Contract) -> Callable[[Callable[..., Any]], Callable[..., Response]]:
    """Turn a method that takes checked input and returns rows into a handler of DRF."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Response]:
        @wraps(method)
        def handler(view: "TenantView", request: Request, **path: Any) -> Response:
            given = view.read_input(contract, path)
            if contract.once and (key := view.read_idempotency_key()) is not None:
                return view.answer_once(contract, key, lambda: method(view, **given))
            value = method(view, **given)
            return view.respond(contract, value)

        handler.contract = contract  # type: ignore[attr-defined]
        return handler

    return decorate


class ProblemView(APIView):
    """A view whose every failure is a problem document."""

    authentication_classes: Sequence[Any] = ()
    permission_classes: Sequence[Any] = ()
    throttle_classes: Sequence[Any] = ()
    parser_classes = (StrictJson,)
    content_negotiation_class = JsonAlways
    metadata_class = None  # OPTIONS answers 405
    rate_headers: dict[str, str] | None = None

    def get_exception_handler(self) -> Any:
        return answer

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return self.http_method_not_allowed(request, *args, **kwargs)

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        for name, value in (self.rate_headers or {}).items():
            response[name] = value
        response["Cache-Control"] = "no-store"
        return response


class TenantView(ProblemView):
    """
    A view behind an API key. It reads the clock once and takes the tenant from the key.

    Methods carry ``@operation(Contract(...))``.
    """

    authentication_classes = (KeyAuthentication,)
    permission_classes = (KeyMay,)
    throttle_classes = (KeyThrottle,)
    now: datetime

    @property
    def verbs(self) -> dict[str, str | None]:
        return {name: contract.verb for name, contract in contracts_of(type(self)).items()}

    @property
    def caller(self) -> Caller:
        caller: Caller = self.request.user  # type: ignore[assignment]
        return caller

    @property
    def tenant_id(self) -> uuid.UUID:
        return self.caller.tenant_id

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method not in self.allowed_methods:
            self.http_method_not_allowed(request)
        self.now = database_now()
        super().initial(request, *args, **kwargs)

    @property
    def allowed_methods(self) -> list[str]:
        names = list(contracts_of(type(self)))
        return [*names, "HEAD"] if "GET" in names else names

    @property
    def request_id(self) -> str:
        return str(getattr(self.request, "request_id", ""))

    def page(
        self,
        rows: QuerySet[Any],
        query: dict[str, Any],
        *,
        key: Key = ("id",),
        descending: bool = True,
    ) -> Page[Any]:
        """
        Return a page of ``rows``. The cursor is good for this tenant, list and filters only.

        Ids are uuid7, so the order of ids is the order of creation, and an index serves it.
        """
        filters = {name: query[name] for name in sorted(query) if name not in ("cursor", "limit")}
        return take_page(
            rows,
            key=key,
            descending=descending,
            limit=query["limit"],
            cursor=query.get("cursor"),
            scope=f"{type(self).__name__}:{self.tenant_id}:{self.kwargs}:{filters}",
        )

    def read_input(self, contract: Contract, path: dict[str, str]) -> dict[str, Any]:
        """
        Return the checked arguments of the method: ids from the path, ``query``, ``asked``,
        ``if_generation``.

        :raises Problem: 404 for a malformed id, 422 for the rest
        """
        given: dict[str, Any] = {}
        for name, text in path.items():
            try:
                given[name] = ids.from_text(PATH_IDS[name], text) if name in PATH_IDS else text
            except ids.MalformedId:
                raise Problem(404, "not_found") from None
        query = (contract.query or Query)(data=dict(self.request.query_params.items()))
        query.is_valid(raise_exception=True)
        if contract.query is not None:
            given["query"] = query.validated_data
        if contract.body is not None:
            asked = contract.body(data=self.request.data)
            asked.is_valid(raise_exception=True)
            given["asked"] = asked.validated_data
        elif self.request.method == "POST" and self.request.data:
            raise Problem(
                422,
                "invalid_request",
                errors=[FieldError("", "unknown_field", str(_("This takes no body.")))],
            )
        if contract.if_match is not None:
            given["if_generation"] = self.read_if_match(contract.if_match)
        return given

    def read_if_match(self, rule: str) -> int | None:
        """
        Return the generation that the caller has seen; None for ``*`` or, if optional, nothing.

        :raises Problem: 428 if it is required and missing, 412 if it is no tag of ours
        """
        text = self.request.headers.get("If-Match", "").strip()
        if not text and rule == "required":
            raise Problem(428, "precondition_required")
        if not text or text == "*":
            return None
        number = text.removeprefix('"').removesuffix('"')
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            raise Problem(412, "precondition_failed")
        return int(number)

    def read_idempotency_key(self) -> str | None:
        """:raises Problem: 422 if the header is not 1–255 printable ASCII characters"""
        key = self.request.headers.get("Idempotency-Key")
        if key is None:
            return None
        if not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
            detail = str(_("Use 1 to 255 printable ASCII characters."))
            raise Problem(
                422, "invalid_request", errors=[FieldError("Idempotency-Key", "invalid", detail)]
            )
        return key

    def respond(self, contract: Contract, value: Any) -> Response:
        response = Response(_body_of(contract, value), status=contract.status)
        if contract.etag:
            response["ETag"] = f'"{value.generation}"'
        return response

    def answer_once(self, contract: Contract, key: str, run: Callable[[], Any]) -> Response:
        """Answer a repeated request with the first answer; see rental.records.idempotency."""

        def effect() -> Answer:
            body = _body_of(contract, run()) or {}
            secret = contract.secret
            kept = None if secret is None else {**body, secret: None}
            return Answer(status=contract.status, body=body, kept=kept)

        given = answer_once(
            tenant_id=self.tenant_id,
            key=key,
            request_hash=_hash(self.request),
            now=self.now,
            run=effect,
        )
        response = Response(given.body, status=given.status)
        if given.replayed:
            response["Idempotent-Replayed"] = "true"
        return response


def _hash(request: Request) -> str:
    """Return what must be equal for two requests to be one: method, path, query, body."""
    text = json.dumps(
        [request.method, request.get_full_path(), request.data], sort_keys=True, ensure_ascii=True
    )
    return hashlib.sha256(text.encode()).hexdigest()


def contracts_of(view: type) -> dict[str, Contract]:
    """Return the contracts of a view by method, as {"GET": …}."""
    found = {}
    for name in ("get", "post", "put", "patch", "delete"):
        contract = getattr(getattr(view, name, None), "contract", None)
        if contract is not None:
            found[name.upper()] = contract
    return found


def is_api(request: HttpRequest) -> bool:
    return request.path == "/v1" or request.path.startswith("/v1/")
