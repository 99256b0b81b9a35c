"""The operator's pages of joining: codes to pass on where no mail or SMS goes out, invitations."""

from typing import Any

from django.contrib import admin
from django.db import transaction
from django.db.models import Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from rental.records.admin import ReadOnlyAdmin, linked
from rental.records.audit import record_event
from rental.tenants.contacts import kept_contact
from rental.tenants.models import ContactCode, Invitation, User
from rental.tenants.staff import staff_actor, staff_user


@admin.register(ContactCode)
class ContactCodeAdmin(ReadOnlyAdmin):
    """
    Codes that wait to be typed in. A row's page shows the code; that is audited.

    A code opens the account of its contact, so those of staff are for superusers alone.
    """

    list_display = ("contact", "purpose", "created_at", "expires_at", "tries")
    list_filter = ("purpose",)
    search_fields = ("contact",)
    ordering = ("-created_at",)
    fields = ("contact", "purpose", "code", "created_at", "expires_at", "tries")
    show_full_result_count = False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return staff_user(request).has_staff_verb("tenants:write")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContactCode]:
        rows: QuerySet[ContactCode] = super().get_queryset(request)
        rows = rows.filter(expires_at__gt=timezone.now(), used_at__isnull=True)
        if staff_user(request).is_superuser:
            return rows
        staff = User.objects.filter(is_staff=True)
        emails = staff.filter(email__isnull=False).values("email")
        phones = staff.filter(phone__isnull=False).values("phone")
        return rows.exclude(Q(contact__in=Subquery(emails)) | Q(contact__in=Subquery(phones)))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        with transaction.atomic():
            row = self.get_object(request, object_id)
            if row is not None and request.method == "GET":
                record_event(
                    tenant_id=None,
                    actor=staff_actor(request),
                    verb="code.shown",
                    subject=f"contact_code:{row.pk}",
                    after={"contact": kept_contact(row.contact).masked, "purpose": row.purpose},
                    now=timezone.now(),
                )
            response: HttpResponse = super().change_view(
                request, object_id, form_url, extra_context
            )
        return response


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    """Who was invited where, by whom; members make and revoke them."""

    list_display = (
        "contact",
        "role",
        linked("tenant", _("tenant")),
        "invited_by",
        "created_at",
        "expires_at",
        "accepted_at",
        "revoked_at",
    )
    list_select_related = ("tenant", "invited_by")
    list_filter = ("role",)
    search_fields = ("contact", "tenant__slug")
    exclude = ("digest",)
    ordering = ("-created_at",)
