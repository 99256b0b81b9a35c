"""The operator's pages for users, tenants, keys and records. Changes go through services."""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.forms import ChoiceField, ModelChoiceField, ModelForm
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminSelectWidget

from rental.records.admin import (
    SEE_ALSO,
    ReadOnlyAdmin,
    ReadOnlyInline,
    linked,
    linked_all,
    links,
)
from rental.records.audit import record_event
from rental.records.ids import to_text
from rental.tenants import admin_joining as admin_joining  # registers its pages
from rental.tenants import services
from rental.tenants.models import (
    ApiKey,
    AuditEvent,
    Consent,
    Membership,
    OutboxMessage,
    Project,
    SshKey,
    StaffRole,
    Tenant,
    User,
)
from rental.tenants.services.sessions import end_other_sessions
from rental.tenants.staff import guard, staff_user
from rental.tenants.staff import staff_actor as staff_actor  # floors above take it from here

# Permissions are StaffRole's verbs; Django's groups would be a second, ignored list. How a person
# proves who he is (proven addresses, second factors, sessions) is his own: to edit it is a way in.
admin.site.unregister([Group, EmailAddress, Authenticator, UserSession])
guard(admin.site)


class NewUserForm(UserCreationForm):  # type: ignore[misc]  # unfold is untyped
    """E-mail or phone, and a password."""

    class Meta:
        model = User
        fields = ("email", "phone", "name", "language")


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[misc,type-arg]
    """
    People. Who is staff, and as what, is a superuser's to decide; so is any change of a member
    of staff, or a supporter could set a superuser's password.
    """

    form = UserChangeForm
    add_form = NewUserForm
    change_password_form = AdminPasswordChangeForm
    ordering = ("-created_at",)
    list_display = ("__str__", "email", "phone", "is_active", "is_staff", "created_at")
    list_filter = ("is_staff", "is_superuser", "is_active")
    search_fields = ("email", "phone", "name")
    filter_horizontal = ("staff_roles",)
    readonly_fields = (
        "last_login",
        "created_at",
        "email_verified_at",
        "phone_verified_at",
        "tenants",
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("email", "email_verified_at"),
                    ("phone", "phone_verified_at"),
                    "password",
                )
            },
        ),
        (_("Person"), {"fields": ("name", "tenants", "language", "last_login", "created_at")}),
        (_("Staff"), {"fields": ("is_active", "is_staff", "is_superuser", "staff_roles")}),
    )
    add_fieldsets = (
        (None, {"fields": ("email", "phone", "name", "language", "password1", "password2")}),
    )
    GRANTS = ("is_staff", "is_superuser", "staff_roles")

    @admin.display(description=_("tenants"))
    def tenants(self, user: User) -> str:
        """His tenants: their pages lead to instances, wallets and all else of theirs."""
        found = Tenant.objects.filter(memberships__user=user).order_by("name")
        page = "admin:tenants_tenant_change"
        return linked_all((tenant, reverse(page, args=[tenant.pk])) for tenant in found)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """A language is chosen, not typed; none is the one of the person's browser."""
        if db_field.name != "language":
            return super().formfield_for_dbfield(db_field, request, **kwargs)
        return ChoiceField(
            label=db_field.verbose_name,
            required=False,
            initial=db_field.default,
            choices=[("", _("as the browser asks")), *settings.LANGUAGES],
            widget=UnfoldAdminSelectWidget,
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = tuple(super().get_readonly_fields(request, obj))
        return fixed if staff_user(request).is_superuser else fixed + self.GRANTS

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj is not None and obj.is_staff and not staff_user(request).is_superuser:
            return False
        return bool(super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # deactivate instead: charges and audit events name him

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save and audit in one transaction (Django's admin opens it around the whole form)."""
        for kind in {"email", "phone"}.intersection(form.changed_data):
            setattr(obj, f"{kind}_verified_at", None)  # another contact is not proved by the former
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            facts = sorted(name for name in form.changed_data if "password" not in name)
            record_event(
                tenant_id=None,
                actor=staff_actor(request),
                verb="user.changed" if change else "user.created",
                subject=to_text("usr", obj.pk),
                before=_facts(form.initial, facts) if change else None,
                after=_facts(form.cleaned_data, facts),
                now=timezone.now(),
            )

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        with transaction.atomic():
            answer = super().user_change_password(request, id, form_url)
            if request.method == "POST" and answer.status_code == 302:
                user = self.get_object(request, id)
                assert user is not None, "Django has just set this user's password"
                end_other_sessions(user, keep=request.session.session_key)
                record_event(
                    tenant_id=None,
                    actor=staff_actor(request),
                    verb="user.password_set",
                    subject=to_text("usr", user.pk),
                    now=timezone.now(),
                )
        return answer


def _facts(source: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the named values as JSON; of related rows their text."""
    facts: dict[str, Any] = {}
    for name in names:
        value = source.get(name)
        if isinstance(value, QuerySet | list | tuple):
            facts[name] = sorted(str(row) for row in value)
        elif value is None or isinstance(value, bool | int | str):
            facts[name] = value
        else:
            facts[name] = str(value)
    return facts


@admin.register(StaffRole)
class StaffRoleAdmin(ModelAdmin):  # type: ignore[misc]
    """What staff may do. Only superusers change it: it is the key to everything else."""

    list_display = ("name", "code", "verbs")

    def get_form(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        words = _(
            "tenants:, rental:, scheduler: or billing:, each followed by read or write; "
            "billing:credit credits wallets; * is everything. With commas between."
        )
        return super().get_form(request, obj, **kwargs | {"help_texts": {"verbs": words}})

    def has_add_permission(self, request: HttpRequest) -> bool:
        return staff_user(request).is_superuser

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return staff_user(request).is_superuser

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # empty its verbs instead; the audit log names it

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            record_event(
                tenant_id=None,
                actor=staff_actor(request),
                verb="staff_role.changed" if change else "staff_role.created",
                subject=f"staff_role:{obj.code}",
                before={"verbs": form.initial.get("verbs")} if change else None,
                after={"verbs": obj.verbs},
                now=timezone.now(),
            )


class MembershipInline(ReadOnlyInline):
    model = Membership
    fields = ("user", "role", "created_at")
    readonly_fields = fields


class ProjectInline(ReadOnlyInline):
    model = Project
    fields = ("name", "slug", "is_default", "created_at")
    readonly_fields = fields


class NewTenantForm(ModelForm):  # type: ignore[type-arg]
    """Name, slug and the first owner: what ``create_tenant`` wants."""

    owner = ModelChoiceField(queryset=User.objects.filter(is_active=True), label=_("owner"))

    class Meta:
        model = Tenant
        fields = ("name", "slug")


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    """Tenants: made, suspended, resumed and verified by services."""

    form = NewTenantForm
    list_display = ("name", "slug", "status", "verification_level", "created_at")
    list_filter = ("status", "verification_level")
    search_fields = ("name", "slug", "memberships__user__email", "memberships__user__phone")
    search_help_text = _("Name of a tenant, or the e-mail address or phone number of a member.")
    readonly_fields = ("see_also",)
    actions = ("suspend", "resume", "verify_person", "verify_organization")

    def has_manage_permission(self, request: HttpRequest) -> bool:
        """Whether the actions are offered, and obeyed."""
        return staff_user(request).has_staff_verb("tenants:write")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_manage_permission(request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("name", "slug", "owner")
        return (
            "name",
            "slug",
            "status",
            "verification_level",
            "time_zone",
            "created_at",
            "see_also",
        )

    @admin.display(description=SEE_ALSO)
    def see_also(self, tenant: Tenant) -> str:
        query = f"?q={tenant.slug}"
        return links(
            (_("instances"), "admin:rental_instance_changelist", query),
            (_("wallets"), "admin:billing_wallet_changelist", query),
            (_("credit"), "operate:credit", query),
            (_("transfers"), "admin:billing_transfer_changelist", query),
            (_("runs"), "admin:billing_run_changelist", query),
            (_("API keys"), "admin:tenants_apikey_changelist", query),
            (
                _("audit log"),
                "admin:tenants_auditevent_changelist",
                f"?tenant_id={tenant.pk}",
            ),
        )

    def get_inlines(self, request: HttpRequest, obj: Tenant | None) -> Any:
        return () if obj is None else (MembershipInline, ProjectInline)

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:
        """Only for new tenants: there is no permission to change one here."""
        made = services.create_tenant(
            name=obj.name,
            slug=obj.slug,
            owner=form.cleaned_data["owner"],
            actor=staff_actor(request),
            now=timezone.now(),
        )
        obj.pk = made.pk  # for Django's message and redirect

    def _each(self, request: HttpRequest, tenants: QuerySet[Tenant], change: Any) -> None:
        now = timezone.now()
        with transaction.atomic():
            for tenant in tenants.order_by("pk"):
                change(tenant=tenant, actor=staff_actor(request), now=now)
        done = len(tenants)
        text = ngettext("%d tenant was changed.", "%d tenants were changed.", done) % done
        self.message_user(request, text, messages.SUCCESS)

    @admin.action(description=_("Suspend: keys can only read"), permissions=["manage"])
    def suspend(self, request: HttpRequest, queryset: QuerySet[Tenant]) -> None:
        self._each(request, queryset, services.suspend_tenant)

    @admin.action(description=_("Resume"), permissions=["manage"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Tenant]) -> None:
        self._each(request, queryset, services.resume_tenant)

    @admin.action(description=_("Verified: a person"), permissions=["manage"])
    def verify_person(self, request: HttpRequest, queryset: QuerySet[Tenant]) -> None:
        self._verify(request, queryset, Tenant.Verification.PERSON)

    @admin.action(description=_("Verified: an organization"), permissions=["manage"])
    def verify_organization(self, request: HttpRequest, queryset: QuerySet[Tenant]) -> None:
        self._verify(request, queryset, Tenant.Verification.ORGANIZATION)

    def _verify(
        self, request: HttpRequest, queryset: QuerySet[Tenant], level: Tenant.Verification
    ) -> None:
        def verify(**facts: Any) -> None:
            services.set_verification_level(level=level, **facts)

        self._each(request, queryset, verify)


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys of all tenants, without their digests."""

    list_display = (
        "name",
        "prefix",
        linked("tenant", _("tenant")),
        "kind",
        "last_used_at",
        "expires_at",
        "revoked_at",
    )
    list_filter = ("kind",)
    list_select_related = ("tenant",)
    search_fields = ("prefix", "name", "tenant__slug")
    exclude = ("digest",)
    actions = ("revoke",)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return staff_user(request).has_staff_verb("tenants:write")

    @admin.action(description=_("Revoke"), permissions=["manage"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        now = timezone.now()
        with transaction.atomic():
            for key in queryset.filter(revoked_at__isnull=True).order_by("pk"):
                services.revoke_api_key(
                    tenant_id=key.tenant_id, key_id=key.pk, actor=staff_actor(request), now=now
                )
        self.message_user(request, _("The keys are revoked."), messages.SUCCESS)


@admin.register(SshKey)
class SshKeyAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "fingerprint",
        linked("tenant", _("tenant")),
        "user",
        "created_at",
        "deleted_at",
    )
    list_select_related = ("tenant", "user")
    search_fields = ("fingerprint", "name", "tenant__slug")


@admin.register(Consent)
class ConsentAdmin(ReadOnlyAdmin):
    list_display = ("user", "document", "version", "at")
    list_select_related = ("user",)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """The log. Searched by exact ids: a scan over seven years helps nobody."""

    list_display = ("at", "verb", "subject", "actor_kind", "actor_id", "request_id")
    list_filter = ("actor_kind",)
    search_fields = ("=subject", "=actor_id", "=request_id", "=verb")
    search_help_text = _("A whole id (ins_…, usr_…, req_…) or a whole verb (wallet.credited).")
    keeps_uuids = False  # subjects and actors are public ids
    ordering = ("-at",)
    show_full_result_count = False


@admin.register(OutboxMessage)
class OutboxMessageAdmin(ReadOnlyAdmin):
    list_display = ("topic", "key", "created_at", "due_at", "sent_at", "attempts")
    list_filter = ("topic",)
    ordering = ("-created_at",)
