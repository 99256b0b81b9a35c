"""SSH keys, which open instances, and API keys, which open this API."""

import uuid
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem
from rental.api.fields import Input, Instant, Output, PageQuery, Prefixed, Text
from rental.records.paging import Page
from rental.tenants.models import ApiKey, SshKey
from rental.tenants.services import api_keys, ssh_keys


class SshKeyInput(Input):
    name = Text(max_length=80)
    public_key = Text(max_length=16384, help_text="One line of an OpenSSH .pub file.")


class SshKeyOutput(Output):
    id = Prefixed("ssh")
    name = serializers.CharField()
    public_key = serializers.CharField()
    fingerprint = serializers.CharField()
    created_at = Instant()


class SshKeyList(TenantView):
    @operation(
        Contract(
            name="list_ssh_keys",
            summary="List SSH keys",
            verb="ssh_keys:read",
            output=SshKeyOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[SshKey]:
        return self.page(SshKey.objects.of(self.tenant_id).live(), query)

    @operation(
        Contract(
            name="add_ssh_key",
            summary="Add an SSH key",
            verb="ssh_keys:write",
            output=SshKeyOutput,
            status=201,
            body=SshKeyInput,
            once=True,
        )
    )
    def post(self, asked: dict[str, Any]) -> SshKey:
        return ssh_keys.add_ssh_key(
            tenant=self.caller.key.tenant,
            user=self.caller.key.created_by,
            name=asked["name"],
            public_key=asked["public_key"],
            actor=self.caller.actor,
            now=self.now,
        )


class SshKeyDetail(TenantView):
    @operation(
        Contract(
            name="get_ssh_key",
            summary="Get an SSH key",
            verb="ssh_keys:read",
            output=SshKeyOutput,
        )
    )
    def get(self, ssh_key_id: uuid.UUID) -> SshKey:
        key = SshKey.objects.of(self.tenant_id).live().filter(pk=ssh_key_id).first()
        if key is None:
            raise Problem(404, "not_found")
        return key

    @operation(
        Contract(
            name="remove_ssh_key",
            summary="Remove an SSH key",
            description=(
                "Instances that run keep it until their next start. A key may remove what its "
                "person added; the keys of others only with `members:write`."
            ),
            verb="ssh_keys:write",
            output=None,
            shape="none",
            status=204,
        )
    )
    def delete(self, ssh_key_id: uuid.UUID) -> None:
        ssh_keys.remove_ssh_key(
            tenant_id=self.tenant_id, key_id=ssh_key_id, actor=self.caller.actor, now=self.now
        )


class ApiKeyInput(Input):
    name = Text(max_length=80)
    scopes = serializers.ListField(child=Text(max_length=64), min_length=1, max_length=32)
    kind = serializers.ChoiceField(
        choices=ApiKey.Kind.values,
        default=ApiKey.Kind.PERSON.value,
        help_text="A key for an agent must expire.",
    )
    expires_at = Instant(required=False, allow_null=True, default=None)


class ApiKeyOutput(Output):
    """A key without its secret. ``prefix`` is the part that may be shown and logged."""

    id = Prefixed("key")
    name = serializers.CharField()
    kind = serializers.CharField()
    prefix = serializers.CharField()
    project_id = Prefixed("prj", allow_null=True)
    scopes = serializers.ListField(child=serializers.CharField())
    created_at = Instant()
    expires_at = Instant(allow_null=True)
    last_used_at = Instant(allow_null=True)
    revoked_at = Instant(allow_null=True)


class ApiKeySecretOutput(ApiKeyOutput):
    """A new key. ``secret`` is the whole text to send; it is shown this once."""

    secret = serializers.CharField(
        allow_null=True, help_text="null when the answer is a replay: it is not stored."
    )


class ApiKeyList(TenantView):
    @operation(
        Contract(
            name="list_api_keys",
            summary="List API keys, revoked ones too",
            verb="keys:read",
            output=ApiKeyOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[ApiKey]:
        return self.page(ApiKey.objects.of(self.tenant_id), query)

    @operation(
        Contract(
            name="create_api_key",
            summary="Make an API key",
            description="A key cannot make one that may do more than itself.",
            verb="keys:write",
            output=ApiKeySecretOutput,
            status=201,
            body=ApiKeyInput,
            once=True,
            secret="secret",
        )
    )
    def post(self, asked: dict[str, Any]) -> ApiKey:
        key, text = api_keys.issue_api_key(
            tenant=self.caller.key.tenant,
            created_by=self.caller.key.created_by,
            name=asked["name"],
            scopes=asked["scopes"],
            kind=asked["kind"],
            expires_at=asked["expires_at"],
            actor=self.caller.actor,
            now=self.now,
        )
        key.secret = text  # type: ignore[attr-defined]  # shown once, in this answer
        return key


class ApiKeyDetail(TenantView):
    @operation(
        Contract(
            name="get_api_key",
            summary="Get an API key",
            verb="keys:read",
            output=ApiKeyOutput,
        )
    )
    def get(self, api_key_id: uuid.UUID) -> ApiKey:
        key = ApiKey.objects.of(self.tenant_id).filter(pk=api_key_id).first()
        if key is None:
            raise Problem(404, "not_found")
        return key

    @operation(
        Contract(
            name="revoke_api_key",
            summary="Revoke an API key",
            description=(
                "Its next request is refused. A key may revoke itself and what its person made; "
                "the keys of others only with `members:write`."
            ),
            verb="keys:write",
            output=None,
            shape="none",
            status=204,
        )
    )
    def delete(self, api_key_id: uuid.UUID) -> None:
        api_keys.revoke_api_key(
            tenant_id=self.tenant_id, key_id=api_key_id, actor=self.caller.actor, now=self.now
        )
