"""Tenants: the organisations that pay, their members and their projects."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped
from rental.tenants.models.users import User


class Role(models.TextChoices):
    """What a member is in a tenant; ``permissions.py`` says what each may do."""

    OWNER = "owner", _("owner")
    ADMIN = "admin", _("administrator")
    DEVELOPER = "developer", _("developer")
    BILLING = "billing", _("billing")
    VIEWER = "viewer", _("viewer")


class Tenant(models.Model):
    """The organisation that pays. Bills point at it, so it is suspended, never deleted."""

    class Status(models.TextChoices):
        ACTIVE = "active", _("active")
        SUSPENDED = "suspended", _("suspended")

    class Verification(models.TextChoices):
        """How well the operator knows who this is; higher levels include the lower ones."""

        NONE = "none", _("not verified")
        CONTACT = "contact", _("e-mail or phone verified")
        PERSON = "person", _("person verified")
        ORGANIZATION = "organization", _("organization verified")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(_("slug"), max_length=40, unique=True)
    name = models.CharField(_("name"), max_length=120)
    verification_level = models.CharField(
        _("verification level"),
        max_length=12,
        choices=Verification.choices,
        default=Verification.NONE,
    )
    # Changes what is displayed, nothing else: months are cut by BILLING_TIME_ZONE for everybody.
    time_zone = models.CharField(_("time zone"), max_length=64, default="Asia/Shanghai")
    status = models.CharField(
        _("status"), max_length=9, choices=Status.choices, default=Status.ACTIVE
    )
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["active", "suspended"]), name="tenant_status_is_known"
            ),
            models.CheckConstraint(
                condition=Q(verification_level__in=["none", "contact", "person", "organization"]),
                name="tenant_verification_level_is_known",
            ),
            models.CheckConstraint(
                condition=Q(slug__regex=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"),
                name="tenant_slug_fits_a_host_name",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class MembershipQuerySet(TenantScoped["Membership"]):
    """Rows of a tenant."""


class Membership(models.Model):
    """A person in a tenant, in one role. Removed when he leaves; the audit log remembers."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(_("role"), max_length=9, choices=Role.choices)
    # When the member put the first steps (rental/web/onboarding.py) away.
    onboarded_at = models.DateTimeField(_("first steps put away at"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)

    objects = MembershipQuerySet.as_manager()

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "user"], name="membership_is_one_role_a_tenant"
            ),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "admin", "developer", "billing", "viewer"]),
                name="membership_role_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role}"


class ProjectQuerySet(TenantScoped["Project"]):
    """Rows of a tenant."""


class Project(models.Model):
    """A cost centre of a tenant; frozen on every charge."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="projects")
    slug = models.SlugField(_("slug"), max_length=40)
    name = models.CharField(_("name"), max_length=80)
    is_default = models.BooleanField(_("default"), default=False)
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)

    objects = ProjectQuerySet.as_manager()

    class Meta:
        verbose_name = _("project")
        verbose_name_plural = _("projects")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="project_slug_is_unique"),
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(is_default=True), name="project_default_is_one"
            ),
        ]

    def __str__(self) -> str:
        return self.name
