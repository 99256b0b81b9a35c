"""Audit events: who changed what in this tenant."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.fields import Instant, Output, PageQuery, Prefixed, Text
from rental.records.audit import AuditEvent
from rental.records.paging import Page


@extend_schema_field(OpenApiTypes.OBJECT)
class Facts(serializers.JSONField):
    """What changed; its members depend on the verb."""


class EventOutput(Output):
    """One accepted change. Kept for 7 years, never edited."""

    id = Prefixed("evt")
    at = Instant()
    actor_kind = serializers.CharField(help_text="user, api_key, staff or system")
    actor_id = serializers.CharField()
    verb = serializers.CharField()
    subject = serializers.CharField(help_text="The id of what was changed.")
    before = Facts(allow_null=True)
    after = Facts(allow_null=True)
    request_id = serializers.CharField(allow_null=True)


class EventQuery(PageQuery):
    subject = Text(required=False, max_length=96)
    verb = Text(required=False, max_length=64)


class EventList(TenantView):
    @operation(
        Contract(
            name="list_events",
            summary="List what was changed, newest first",
            verb="audit:read",
            output=EventOutput,
            shape="page",
            query=EventQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[AuditEvent]:
        events = AuditEvent.objects.of(self.tenant_id)
        for name in ("subject", "verb"):
            if name in query:
                events = events.filter(**{name: query[name]})
        return self.page(events, query, key=("at", "id"))
