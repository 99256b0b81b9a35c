"""The tenant itself: its name, and the zone in which the console shows times."""

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem, invalid
from rental.api.fields import Input, Instant, Output, Prefixed, Text
from rental.tenants import services
from rental.tenants.models import Tenant


class TenantChange(Input):
    name = Text(max_length=120, required=False)
    time_zone = Text(
        max_length=64,
        required=False,
        help_text="Such as Asia/Shanghai. Changes what is shown; bills are cut the same for all.",
    )


class TenantOutput(Output):
    id = Prefixed("ten")
    slug = serializers.CharField()
    name = serializers.CharField()
    status = serializers.CharField()
    verification_level = serializers.CharField()
    time_zone = serializers.CharField()
    created_at = Instant()


class TenantDetail(TenantView):
    @operation(
        Contract(
            name="get_tenant",
            summary="Get the tenant of the key",
            verb="tenant:read",
            output=TenantOutput,
        )
    )
    def get(self) -> Tenant:
        tenant = Tenant.objects.filter(pk=self.tenant_id).first()
        if tenant is None:
            raise Problem(404, "not_found")
        return tenant

    @operation(
        Contract(
            name="change_tenant",
            summary="Change the name or the time zone of the tenant",
            verb="tenant:write",
            output=TenantOutput,
            body=TenantChange,
        )
    )
    def patch(self, asked: dict[str, Any]) -> Tenant:
        if not asked:
            raise invalid("", "required", _("Name what to change."))
        return services.change_tenant(
            tenant=self.caller.key.tenant, actor=self.caller.actor, now=self.now, **asked
        )
