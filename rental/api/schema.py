"""The OpenAPI 3.1 document, built from the contracts of the views."""

import json
from functools import cache
from typing import Any

from django.urls import include, path
from django.utils import translation
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, inline_serializer
from rest_framework import serializers

from rental.api.contract import PATH_IDS, Contract, TenantView, contracts_of
from rental.api.errors import PROBLEM
from rental.api.fields import Output, Prefixed
from rental.refusals import CODES

# What every operation behind a key can answer, besides its own statuses.
COMMON = (401, 403, 422, 429, 500, 503)
_WITH_BODY = (400, 413, 415)

_REASONS = {
    400: "The body is not JSON that we can store.",
    401: "No key, or one that is unknown, expired or revoked.",
    402: "The balance does not cover the start.",
    403: "The key's scopes do not allow this.",
    404: "There is no such thing, or it is another tenant's.",
    409: "The present state does not allow this, or the first request is still running.",
    412: "The resource changed since it was read.",
    413: "The body is larger than 1 MiB.",
    415: "The body is not application/json.",
    422: "A field, parameter or header is invalid, or the Idempotency-Key was used before.",
    428: "If-Match is required.",
    429: "Too many requests; see Retry-After.",
    500: "A bug on our side; quote request_id.",
    503: "The database is away; try again.",
}


class ProblemErrorOutput(Output):
    """One thing wrong with one part of the input."""

    field = serializers.CharField(help_text="Dotted path; empty for the whole body.")
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemOutput(Output):
    """RFC 9457. Further members may follow: facts that a program can use."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(help_text="The path that was asked.")
    code = serializers.CharField(help_text="Stable; one of: " + ", ".join(CODES) + ".")
    request_id = serializers.CharField()
    errors = ProblemErrorOutput(many=True)  # type: ignore[assignment]


@cache
def _envelope(output: type[Output], shape: str) -> Any:
    name = output.__name__.removesuffix("Output")
    fields: dict[str, Any] = {"data": output(many=True)}
    if shape == "page":
        fields |= {
            "has_more": serializers.BooleanField(),
            "next_cursor": serializers.CharField(allow_null=True),
        }
    return inline_serializer(f"{name}{shape.title()}", fields)


class ContractSchema(AutoSchema):
    """Says what the ``Contract`` of a method says."""

    @property
    def contract(self) -> Contract:
        return contracts_of(type(self.view))[self.method]

    def is_excluded(self) -> bool:
        return not (
            isinstance(self.view, TenantView) and self.method in contracts_of(type(self.view))
        )

    def get_operation_id(self) -> str:
        return self.contract.name

    def _get_serializer_name(
        self, serializer: Any, direction: Any, bypass_extensions: bool = False
    ) -> str:
        name = str(super()._get_serializer_name(serializer, direction, bypass_extensions))
        return name.removesuffix("Request").removesuffix("Output")

    def get_summary(self) -> str:
        return self.contract.summary

    def get_description(self) -> str:  # type: ignore[override]
        words = [self.contract.description.strip()]
        if self.contract.verb:
            words.append(f"Needs `{self.contract.verb}`.")
        return "\n\n".join(word for word in words if word)

    def get_tags(self) -> list[str]:
        return [self.path.split("/")[2]]

    def get_auth(self) -> list[dict[str, list[str]]]:
        return [{"ApiKey": []}]

    def get_override_parameters(self) -> list[Any]:
        parameters: list[Any] = [
            OpenApiParameter(
                "X-Request-Id",
                str,
                OpenApiParameter.HEADER,
                description="Your own name for this request; comes back in the answer.",
            )
        ]
        if self.contract.query is not None:
            parameters.append(self.contract.query)
        if self.contract.once:
            parameters.append(
                OpenApiParameter(
                    "Idempotency-Key",
                    str,
                    OpenApiParameter.HEADER,
                    description="1-255 printable characters. The same key with the same body "
                    "is answered with the first answer and does nothing again.",
                )
            )
        if self.contract.if_match is not None:
            parameters.append(
                OpenApiParameter(
                    "If-Match",
                    str,
                    OpenApiParameter.HEADER,
                    required=self.contract.if_match == "required",
                    description='The ETag that you have read, such as "3", or *.',
                )
            )
        return parameters

    def get_request_serializer(self) -> Any:
        return self.contract.body

    def get_response_serializers(self) -> Any:
        contract = self.contract
        given: Any = None
        if contract.output is not None:
            given = (
                contract.output
                if contract.shape == "one"
                else _envelope(contract.output, contract.shape)
            )
        answers: dict[Any, Any] = {
            contract.status: OpenApiResponse(given, description=contract.summary)
        }
        statuses = {*COMMON, *contract.errors}
        if self.method in {"POST", "PATCH", "PUT"}:
            statuses |= set(_WITH_BODY)
        if "{" in self.path:
            statuses.add(404)
        if contract.once:
            statuses.add(409)
        if contract.if_match is not None:
            statuses.add(412)
        if contract.if_match == "required":
            statuses.add(428)
        for status in sorted(statuses):
            answers[(status, PROBLEM)] = OpenApiResponse(
                ProblemOutput, description=_REASONS[status]
            )
        return answers

    def _resolve_path_parameters(self, variables: list[str]) -> list[dict[str, Any]]:
        found = []
        for name in variables:
            schema: dict[str, Any] = {"type": "string"}
            if name in PATH_IDS:
                schema = dict(Prefixed(PATH_IDS[name])._spectacular_annotation["field"])
            found.append({"in": "path", "name": name, "required": True, "schema": schema})
        return found


def build() -> dict[str, Any]:
    """Return the document of the code as it is now, in English."""
    with translation.override("en"):
        generator: Any = SchemaGenerator  # untyped
        routes = [path("v1/", include("rental.api.urls"))]
        document = generator(patterns=routes).get_schema(request=None, public=True)
        return dict(json.loads(json.dumps(document, default=str)))


def text_of(document: dict[str, Any]) -> str:
    """Return the document as the committed file spells it."""
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
