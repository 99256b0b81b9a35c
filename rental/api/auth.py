"""Who calls: an API key, and nothing else. The tenant comes from it, never from the request."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rental.records import ids
from rental.records.audit import Actor
from rental.tenants import permissions
from rental.tenants.models import ApiKey
from rental.tenants.services.api_keys import authenticate_api_key


@dataclass(frozen=True)
class Caller:
    """The tenant and the key behind a request."""

    tenant_id: uuid.UUID
    key: ApiKey
    actor: Actor
    is_authenticated: bool = True

    def may(self, verb: str) -> bool:
        return permissions.may(self.key.scopes, verb)


class KeyAuthentication(BaseAuthentication):
    """``Authorization: Bearer tsr_…``. Unknown, expired and revoked keys all answer alike."""

    def authenticate(self, request: Request) -> tuple[Caller, ApiKey] | None:
        header = get_authorization_header(request)
        if not header:
            return None
        kind, _space, text = header.partition(b" ")
        if kind.lower() != b"bearer" or not text.isascii() or len(text) > 200:
            raise AuthenticationFailed(_("Send Authorization: Bearer with an API key."))
        now = request.parser_context["view"].now
        key = authenticate_api_key(text.decode().strip(), now)
        if key is None:
            raise AuthenticationFailed(_("This API key is not valid."))
        actor = Actor(kind="api_key", id=ids.to_text("key", key.id))
        return Caller(key.tenant_id, key, actor), key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tessera"'


class KeyMay(BasePermission):
    """The key's scopes must hold the verb that the view names for this method."""

    def has_permission(self, request: Request, view: Any) -> bool:
        method = "GET" if request.method == "HEAD" else str(request.method)
        caller = request.user
        if not isinstance(caller, Caller):
            return False
        verb = view.verbs.get(method)
        return verb is None or caller.may(verb)


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How OpenAPI names it."""

    target_class = "rental.api.auth.KeyAuthentication"
    name = "ApiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tsr_…"}
