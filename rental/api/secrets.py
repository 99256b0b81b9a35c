"""Secrets: values that instances get by name. They come in here and never go out."""

import uuid
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem
from rental.api.fields import Input, Instant, Output, PageQuery, Prefixed, Text
from rental.instances.models import Secret
from rental.instances.secrets import MOST_VALUE, put_secret, remove_secret
from rental.records.paging import Page


class SecretInput(Input):
    name = Text(max_length=128, help_text="The variable that instances get: letters, digits, _.")
    value = Text(max_length=MOST_VALUE, allow_blank=True, trim_whitespace=False)


class SecretOutput(Output):
    """A secret without its value, which nobody is shown again."""

    id = Prefixed("sec")
    name = serializers.CharField()
    created_at = Instant()
    updated_at = Instant()


class SecretList(TenantView):
    @operation(
        Contract(
            name="list_secrets",
            summary="List secrets, without their values",
            verb="secrets:read",
            output=SecretOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Secret]:
        return self.page(Secret.objects.of(self.tenant_id), query)

    # No Idempotency-Key: putting it again changes nothing, and no hash of a value is stored.
    @operation(
        Contract(
            name="put_secret",
            summary="Keep a secret, or replace its value",
            description=(
                "Instances that run have the old value until their next start. Takes no "
                "Idempotency-Key: doing it twice is doing it once."
            ),
            verb="secrets:write",
            output=SecretOutput,
            status=201,
            body=SecretInput,
            errors=(503,),
        )
    )
    def post(self, asked: dict[str, Any]) -> Secret:
        return put_secret(
            tenant_id=self.tenant_id,
            name=asked["name"],
            value=asked["value"],
            actor=self.caller.actor,
            now=self.now,
            request_id=self.request_id,
        )


class SecretDetail(TenantView):
    @operation(
        Contract(
            name="get_secret",
            summary="Get a secret, without its value",
            verb="secrets:read",
            output=SecretOutput,
        )
    )
    def get(self, secret_id: uuid.UUID) -> Secret:
        secret = Secret.objects.of(self.tenant_id).filter(pk=secret_id).first()
        if secret is None:
            raise Problem(404, "not_found")
        return secret

    @operation(
        Contract(
            name="remove_secret",
            summary="Remove a secret",
            description="Refused while an instance that runs, or is about to, names it.",
            verb="secrets:write",
            output=None,
            shape="none",
            status=204,
            errors=(409,),
        )
    )
    def delete(self, secret_id: uuid.UUID) -> None:
        remove_secret(
            tenant_id=self.tenant_id,
            secret_id=secret_id,
            actor=self.caller.actor,
            now=self.now,
            request_id=self.request_id,
        )
