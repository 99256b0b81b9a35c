"""The operator's pages for places, nodes, cards, and what is asked and held. Services change."""

from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from rental.records.admin import SEE_ALSO, ReadOnlyAdmin, ReadOnlyInline, linked, links
from rental.records.audit import record_event
from rental.records.clock import database_now
from rental.tenants.admin import staff_actor
from rental.tenants.models import User
from scheduler.errors import BadWindow, SchedulerError
from scheduler.models import (
    Agent,
    Allocation,
    EnrolmentToken,
    GatewayFlush,
    Gpu,
    GpuModel,
    MaintenanceWindow,
    Node,
    NodeLiveness,
    PrivateNetwork,
    QuarantineEvent,
    Region,
    Request,
    Residence,
    Slice,
    Zone,
)
from scheduler.services import enrolment, hardware, windows
from scheduler.services.death import declare_dead


def _may_manage(request: HttpRequest) -> bool:
    return bool(cast(User, request.user).has_staff_verb("scheduler:write"))


class AuditedAdmin(ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    """Rows that only describe (no state, no money): edited here, and audited. Never deleted."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            kind = obj._meta.model_name
            changed = sorted(form.changed_data)
            record_event(
                tenant_id=None,
                actor=staff_actor(request),
                verb=f"{kind}.changed" if change else f"{kind}.created",
                subject=str(obj.pk),
                before={name: str(form.initial.get(name)) for name in changed} if change else None,
                after={name: str(form.cleaned_data[name]) for name in changed},
                now=timezone.now(),
            )


@admin.register(Region)
class RegionAdmin(AuditedAdmin):
    list_display = ("code", "name", "policy", "failover_reserve_nodes")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("code",) if obj else ()  # it is in price keys


@admin.register(Zone)
class ZoneAdmin(AuditedAdmin):
    list_display = ("code", "name", "region", "frozen_at")
    list_filter = ("region",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("code", "region") if obj else ()


@admin.register(GpuModel)
class GpuModelAdmin(AuditedAdmin):
    list_display = ("name", "memory_mib", "vendor", "compute_capability", "active")
    list_filter = ("active", "vendor")
    search_fields = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("name", "memory_mib", "active") if obj else ("active",)  # nodes make it active


class GpuInline(ReadOnlyInline):
    model = Gpu
    show_change_link = True
    fields = readonly_fields = (
        "index",
        "model",
        "serial",
        "memory_mib",
        "vram_free_mib",
        "nvlink_group",
        "health",
        "health_reason",
    )


class DeclareDeadForm(forms.Form):
    """``name``: that of the node, typed by hand, since this cannot be taken back."""

    name = forms.CharField(label=_("The node's name"), widget=UnfoldAdminTextInputWidget)
    reason = forms.CharField(
        label=_("Reason"), max_length=500, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2})
    )

    def __init__(self, node: Node, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.node = node

    def clean_name(self) -> str:
        if self.cleaned_data["name"] != self.node.name:
            raise forms.ValidationError(_("This is not the name of the node."))
        return self.node.name


class RackForm(forms.Form):
    rack = forms.SlugField(
        label=_("Rack"),
        max_length=40,
        required=False,
        help_text=Node._meta.get_field("rack").help_text,
        widget=UnfoldAdminTextInputWidget,
    )


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    """Nodes appear by enrolment and describe themselves; staff say whether to place on them."""

    list_display = (
        "name",
        "zone",
        "rack",
        "status",
        "cordoned",
        "drained",
        "drain_by",
        "cpu_milli_free",
        "ram_mib_free",
        "disk_mib_free",
        "version",
    )
    list_filter = ("zone", "cordoned", "drained", "liveness__status")
    list_select_related = ("zone", "liveness")
    search_fields = ("name",)
    inlines = (GpuInline,)
    actions = ("cordon", "uncordon", "drain")
    actions_detail = ("stand_in_rack", "declare_dead")
    readonly_fields = ("see_also",)

    @admin.display(description=SEE_ALSO)
    def see_also(self, node: Node) -> str:
        return links((_("who is on it"), "operate:fleet", f"{node.pk}/"))

    def has_manage_permission(self, request: HttpRequest, _object_id: object = None) -> bool:
        return _may_manage(request)

    @admin.display(description=_("status"))
    def status(self, node: Node) -> str:
        liveness = getattr(node, "liveness", None)
        return liveness.get_status_display() if liveness else str(_("never heard"))

    def _each(self, request: HttpRequest, nodes: QuerySet[Node], change: Any) -> None:
        now = timezone.now()
        with transaction.atomic():
            for node in nodes.order_by("pk"):
                change(node_id=node.pk, actor=staff_actor(request), now=now)
        done = len(nodes)
        text = ngettext("%d node was changed.", "%d nodes were changed.", done) % done
        self.message_user(request, text, messages.SUCCESS)

    @admin.action(description=_("Cordon: place nothing more here"), permissions=["manage"])
    def cordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        self._each(request, queryset, hardware.cordon)

    @admin.action(description=_("Uncordon: place here again"), permissions=["manage"])
    def uncordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        self._each(request, queryset, hardware.uncordon)

    @admin.action(
        description=_("Drain: move what may be moved, stop the rest in time"),
        permissions=["manage"],
    )
    def drain(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        self._each(request, queryset, hardware.drain)

    @action(  # type: ignore[untyped-decorator]
        description=_("Rack"), url_path="rack", permissions=["manage"]
    )
    def stand_in_rack(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask in which rack the node stands, then call the service."""
        if not self.has_manage_permission(request):
            raise PermissionDenied
        node = get_object_or_404(Node, pk=object_id)
        asked = request.POST if request.method == "POST" else None
        form = RackForm(asked, initial={"rack": node.rack})
        if asked is not None and form.is_valid():
            hardware.stand_in_rack(
                node_id=node.pk,
                rack=form.cleaned_data["rack"],
                actor=staff_actor(request),
                now=timezone.now(),
            )
            messages.success(request, _("The rack of the node is stored."))
            return redirect("admin:scheduler_node_change", object_id)
        context = self.admin_site.each_context(request) | {
            "title": _("Rack"),
            "node": node,
            "form": form,
            "opts": Node._meta,
        }
        return render(request, "scheduler/rack.html", context)

    @action(  # type: ignore[untyped-decorator]
        description=_("Declare dead"), url_path="declare-dead", permissions=["manage"]
    )
    def declare_dead(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what is lost, ask for the node's name and why, then call the service."""
        if not self.has_manage_permission(request):
            raise PermissionDenied
        node = get_object_or_404(Node, pk=object_id)
        form = DeclareDeadForm(node, request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                declare_dead(
                    node_id=node.pk,
                    actor=staff_actor(request),
                    reason=form.cleaned_data["reason"],
                    now=database_now(),
                )
            except SchedulerError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, _("The node was declared dead."))
                return redirect("admin:scheduler_node_change", object_id)
        context = self.admin_site.each_context(request) | {
            "title": _("Declare dead"),
            "node": node,
            "allocations": node.allocations.filter(released_at=None).count(),
            "residences": node.residences.filter(wiped_at=None).count(),
            "form": form,
            "opts": Node._meta,
        }
        return render(request, "scheduler/declare_dead.html", context)


class WindowForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """Checks what the service refuses, where the person sees it."""

    class Meta:
        model = MaintenanceWindow
        fields = ("node", "begins_at", "ends_at", "reason")

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or self.cleaned_data
        begins_at, ends_at = asked.get("begins_at"), asked.get("ends_at")
        node = asked.get("node")
        if begins_at and begins_at < database_now() + settings.SCHEDULER_MAINTENANCE_NOTICE:
            hours = settings.SCHEDULER_MAINTENANCE_NOTICE.total_seconds() / 3600
            words = _("Tenants are told %(hours)g hours ahead, at least.") % {"hours": hours}
            self.add_error("begins_at", words)
        if begins_at and ends_at and ends_at <= begins_at:
            self.add_error("ends_at", _("It ends after it begins."))
        if node and MaintenanceWindow.objects.announced().filter(node=node).exists():
            self.add_error("node", _("Another window of this node is still to come."))
        return asked


@admin.register(MaintenanceWindow)
class MaintenanceWindowAdmin(ReadOnlyAdmin):
    """Announced and cancelled here; tenants are told of both by a pass within seconds."""

    list_display = ("node", "begins_at", "ends_at", "reason", "begun_at", "cancelled_at")
    list_filter = (("cancelled_at", admin.EmptyFieldListFilter),)
    list_select_related = ("node",)
    search_fields = ("node__name", "reason")
    form = WindowForm
    actions = ("cancel",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _may_manage(request)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return _may_manage(request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        asked = ("node", "begins_at", "ends_at", "reason")
        return (*asked, "announced_at", "begun_at", "cancelled_at") if obj else asked

    def save_model(
        self, request: HttpRequest, obj: MaintenanceWindow, form: Any, change: bool
    ) -> None:
        """Only for new ones: there is no permission to change one here."""
        made = windows.announce(
            node_id=obj.node_id,
            begins_at=obj.begins_at,
            ends_at=obj.ends_at,
            reason=obj.reason,
            actor=staff_actor(request),
            now=database_now(),
        )
        obj.pk = made.pk

    @admin.action(description=_("Cancel: withdraw the notices"), permissions=["manage"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[MaintenanceWindow]) -> None:
        now = database_now()
        for window in queryset.order_by("pk"):
            try:
                windows.cancel(window_id=window.pk, actor=staff_actor(request), now=now)
            except BadWindow:
                words = _("%(window)s has begun; uncordon the node to end it.")
                self.message_user(request, words % {"window": window}, messages.ERROR)


@admin.register(EnrolmentToken)
class EnrolmentTokenAdmin(ReadOnlyAdmin):
    """Tokens are issued here; the text is shown once, in the message after saving."""

    list_display = ("id", "zone", "uses_left", "expires_at", "created_at")
    list_filter = ("zone",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _may_manage(request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        asked = ("zone", "uses_left", "expires_at")
        return (*asked, "created_at") if obj else asked

    def save_model(
        self, request: HttpRequest, obj: EnrolmentToken, form: Any, change: bool
    ) -> None:
        """Only for new tokens: there is no permission to change one here."""
        text = enrolment.issue_token(
            zone=obj.zone,
            uses=obj.uses_left,
            expires_at=obj.expires_at,
            actor=staff_actor(request),
            now=timezone.now(),
        )
        obj.pk = EnrolmentToken.objects.get(digest=enrolment.digest_of(text)).pk
        self.message_user(
            request, _("The token, shown only now: %(token)s") % {"token": text}, messages.WARNING
        )


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    list_display = ("name", "enrolled_at", "revoked_at")
    fields = ("name", "enrolled_at", "revoked_at")
    search_fields = ("name",)
    actions = ("revoke",)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return _may_manage(request)

    @admin.action(description=_("Revoke the credential"), permissions=["manage"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        now = timezone.now()
        with transaction.atomic():
            for agent in queryset.order_by("pk"):
                enrolment.revoke_agent(agent_id=agent.pk, actor=staff_actor(request), now=now)


@admin.register(NodeLiveness)
class NodeLivenessAdmin(ReadOnlyAdmin):
    list_display = ("node", "status", "status_at", "received_at", "boot_id", "seq")
    list_filter = ("status",)
    list_select_related = ("node",)


@admin.register(GatewayFlush)
class GatewayFlushAdmin(ReadOnlyAdmin):
    list_display = ("gateway_id", "started_at", "flushed_at", "hole_at")


@admin.register(Gpu)
class GpuAdmin(ReadOnlyAdmin):
    list_display = (
        "uuid",
        "serial",
        "model",
        linked("node", _("node")),
        "index",
        "vram_free_mib",
        "memory_mib",
        "health",
    )
    list_filter = ("health", "model")
    list_select_related = ("model", "node")
    search_fields = ("uuid", "serial", "node__name")


@admin.register(Slice)
class SliceAdmin(ReadOnlyAdmin):
    list_display = (
        "gpu",
        "mode",
        "cells",
        "vram_mib",
        linked("tenant", _("tenant")),
        linked("allocation", _("allocation")),
        "released_at",
    )
    list_filter = ("mode", ("released_at", admin.EmptyFieldListFilter))
    list_select_related = ("gpu", "tenant", "allocation")
    search_fields = ("gpu__uuid", "tenant__slug")


@admin.register(Request)
class RequestAdmin(ReadOnlyAdmin):
    """What is asked, and why it waits: nodes per dimension that refused it in the last pass."""

    list_display = (
        "id",
        linked("tenant", _("tenant")),
        "state",
        "mode",
        "count",
        "tenths",
        "market",
        "region",
        "why",
        "requested_at",
    )
    list_filter = ("state", "mode", "market", "region")
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "instance_id")
    exclude = ("spec",)  # customers' commands and environment are not the operator's to read

    @admin.display(description=_("why it waits"))
    def why(self, request: Request) -> str:
        reasons = sorted(request.reasons.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{dimension}: {nodes}" for dimension, nodes in reasons)


class SliceInline(TabularInline):  # type: ignore[misc]  # unfold is untyped
    model = Slice
    extra = 0
    can_delete = False
    fields = readonly_fields = ("gpu", "mode", "cells", "vram_mib", "released_at")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Allocation)
class AllocationAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        linked("tenant", _("tenant")),
        linked("node", _("node")),
        "want",
        "phase",
        "incarnation",
        "observed_incarnation",
        "created_at",
        "released_at",
        "lost_at",
        "abandoned_at",
    )
    list_filter = ("want", "phase", ("released_at", admin.EmptyFieldListFilter))
    list_select_related = ("tenant", "node")
    search_fields = ("tenant__slug", "instance_id", "node__name")
    inlines = (SliceInline,)
    exclude = ("spec",)  # customers' commands and environment are not the operator's to read


@admin.register(Residence)
class ResidenceAdmin(ReadOnlyAdmin):
    list_display = (
        "instance_id",
        "kind",
        "node",
        "tenant",
        "disk_mib",
        "want",
        "wiped_at",
        "lost_at",
        "abandoned_at",
    )
    list_filter = ("kind", "want", ("wiped_at", admin.EmptyFieldListFilter))
    list_select_related = ("node", "tenant")
    search_fields = ("instance_id", "tenant__slug", "node__name")


@admin.register(PrivateNetwork)
class PrivateNetworkAdmin(ReadOnlyAdmin):
    list_display = ("cidr", "tenant", "region", "created_at")
    list_filter = ("region",)
    list_select_related = ("tenant", "region")
    search_fields = ("tenant__slug",)


@admin.register(QuarantineEvent)
class QuarantineAdmin(ReadOnlyAdmin):
    """Containers of ours that nobody ordered. They are never ended by themselves."""

    list_display = (
        "allocation_id",
        "node",
        "incarnation",
        "alive",
        "first_seen_at",
        "last_seen_at",
    )
    list_filter = ("alive",)
    list_select_related = ("node",)
