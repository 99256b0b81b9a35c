"""The operator's pages for instances: read, and stop or release through the services."""

from collections.abc import Callable
from typing import cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rental.instances import services
from rental.instances.errors import InstanceError
from rental.instances.models import Endpoint, Instance, Notice, Operation, Secret
from rental.records.admin import SEE_ALSO, ReadOnlyAdmin, ReadOnlyInline, linked, links
from rental.records.ids import to_text
from rental.tenants.admin import staff_actor
from rental.tenants.models import User


class EndpointInline(ReadOnlyInline):
    model = Endpoint
    fields = readonly_fields = ("kind", "host", "port", "user", "opened_at")


class OperationInline(ReadOnlyInline):
    model = Operation
    fields = readonly_fields = ("kind", "state", "generation", "created_at", "finished_at")


class NoticeInline(ReadOnlyInline):
    model = Notice
    fields = readonly_fields = ("kind", "threshold_s", "at", "deadline", "withdrawn_at")


@admin.register(Instance)
class InstanceAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        linked("tenant", _("tenant")),
        "state",
        "health",
        linked("offer", _("offer")),
        "market",
        "region",
        "state_at",
        "created_at",
    )
    readonly_fields = ("see_also",)
    list_filter = ("state", "health", "market", "region")
    list_select_related = ("tenant", "offer")
    search_fields = ("name", "slug", "tenant__slug", "tenant__name", "id")
    search_help_text = _("Name or whole id (ins_…) of an instance, or its tenant.")
    # What a customer hands to his program is his; support does not need it to help.
    exclude = ("env", "command")
    inlines = (EndpointInline, OperationInline, NoticeInline)
    actions = ("stop", "release")

    @admin.display(description=SEE_ALSO)
    def see_also(self, instance: Instance) -> str:
        """What other rooms have of it; their lists are searched by its id."""
        query = f"?q={instance.pk}"
        waits = [(_("why it waits"), "operate:queue", "")] if instance.state == "queued" else []
        return links(
            *waits,
            (_("allocations"), "admin:scheduler_allocation_changelist", query),
            (_("requests"), "admin:scheduler_request_changelist", query),
            (_("disks"), "admin:scheduler_residence_changelist", query),
            (_("runs"), "admin:billing_run_changelist", query),
            (_("charges"), "admin:billing_charge_changelist", query),
            (_("operations"), "admin:rental_operation_changelist", query),
            (
                _("audit log"),
                "admin:tenants_auditevent_changelist",
                f"?q={to_text('ins', instance.pk)}",
            ),
        )

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return cast(User, request.user).has_staff_verb("rental:write")

    @admin.action(description=_("Stop; the disk is kept"), permissions=["manage"])
    def stop(self, request: HttpRequest, queryset: QuerySet[Instance]) -> None:
        self._each(request, queryset, services.stop_instance)

    @admin.action(description=_("Release; the disk is wiped"), permissions=["manage"])
    def release(self, request: HttpRequest, queryset: QuerySet[Instance]) -> None:
        self._each(request, queryset, services.release_instance)

    def _each(
        self,
        request: HttpRequest,
        instances: QuerySet[Instance],
        command: Callable[..., Instance],
    ) -> None:
        """One transaction for each: one that is refused is named and stops no other."""
        now, actor, done = timezone.now(), staff_actor(request), 0
        for instance in instances.order_by("pk"):
            try:
                command(tenant_id=instance.tenant_id, instance_id=instance.pk, actor=actor, now=now)
            except InstanceError as error:
                self.message_user(request, f"{instance}: {error}", messages.WARNING)
            else:
                done += 1
        text = ngettext("%d instance was changed.", "%d instances were changed.", done) % done
        self.message_user(request, text, messages.SUCCESS)


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        linked("instance", _("instance")),
        "kind",
        "state",
        "created_at",
        "finished_at",
    )
    list_filter = ("kind", "state")
    list_select_related = ("instance",)
    search_fields = ("instance__name", "instance__slug", "instance__id")
    search_help_text = _("Name of an instance, or its whole id (ins_…).")


@admin.register(Notice)
class NoticeAdmin(ReadOnlyAdmin):
    list_display = (
        linked("instance", _("instance")),
        "kind",
        "threshold_s",
        "at",
        "deadline",
        "withdrawn_at",
    )
    list_filter = ("kind", "threshold_s")
    list_select_related = ("instance",)
    search_fields = ("instance__slug", "instance__id")


@admin.register(Secret)
class SecretAdmin(ReadOnlyAdmin):
    """Who keeps what under which name; the values are shown to nobody."""

    list_display = ("name", "tenant", "key_id", "updated_at")
    list_select_related = ("tenant",)
    search_fields = ("name", "tenant__slug")
    exclude = ("ciphertext",)
