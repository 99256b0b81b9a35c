"""How people come in: invitations, and the codes that prove an address or a number."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped
from rental.tenants.models.tenants import Role, Tenant
from rental.tenants.models.users import User


class InvitationQuerySet(TenantScoped["Invitation"]):
    def open(self, *, at: datetime) -> Self:
        return self.filter(expires_at__gt=at, accepted_at__isnull=True, revoked_at__isnull=True)


class Invitation(models.Model):
    """
    A place in a tenant that waits for a person. Its link is shown once; only the SHA-256 is kept.

    Only who owns the ``contact`` may take it: a link that is passed on opens nothing. Over by
    time, by use or by revocation; the row stays, for the record.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="invitations")
    contact = models.CharField(_("e-mail address or phone number"), max_length=254)
    role = models.CharField(_("role"), max_length=9, choices=Role.choices)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)
    expires_at = models.DateTimeField(_("expires at"))
    accepted_at = models.DateTimeField(_("accepted at"), null=True, blank=True)
    accepted_by = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")
        constraints = [
            models.CheckConstraint(
                condition=Q(role__in=["owner", "admin", "developer", "billing", "viewer"]),
                name="invitation_role_is_known",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")),
                name="invitation_expires_after_it_is_made",
            ),
            models.CheckConstraint(
                condition=Q(accepted_at__isnull=True, accepted_by__isnull=True)
                | Q(accepted_at__isnull=False, accepted_by__isnull=False, revoked_at__isnull=True),
                name="invitation_is_accepted_by_somebody_or_revoked",
            ),
            models.CheckConstraint(
                condition=Q(digest__regex=r"^[0-9a-f]{64}$"), name="invitation_digest_is_sha256"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "-created_at"], name="invitation_of_tenant")]

    def __str__(self) -> str:
        return f"{self.contact} {self.role}"


class ContactCode(models.Model):
    """
    A six-digit code on its way to a person, for one purpose. Good for minutes, once; only the
    newest of a contact and purpose is.

    Kept as plain text: where no mail or SMS is set up, a member of staff reads it and passes it
    on, so it must be readable here. A short life, few tries and the night's sweep bound what a
    leaked row is worth; ``grants.py`` hides the table from the reader. Rows of the last day stay,
    since their number limits how many more are made.
    """

    class Purpose(models.TextChoices):
        SIGN_UP = "sign_up", _("sign up")
        PASSWORD = "password", _("new password")
        CONTACT = "contact", _("change of contact")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    contact = models.CharField(_("e-mail address or phone number"), max_length=254)
    purpose = models.CharField(_("purpose"), max_length=8, choices=Purpose.choices)
    code = models.CharField(_("code"), max_length=6)
    tries = models.PositiveSmallIntegerField(_("tries"), default=0)
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)
    expires_at = models.DateTimeField(_("expires at"))
    used_at = models.DateTimeField(_("used at"), null=True, blank=True)

    class Meta:
        verbose_name = _("code to pass on")
        verbose_name_plural = _("codes to pass on")
        constraints = [
            models.CheckConstraint(
                condition=Q(purpose__in=["sign_up", "password", "contact"]),
                name="contact_code_purpose_is_known",
            ),
        ]
        indexes = [
            models.Index(fields=["contact", "purpose", "-created_at"], name="contact_code_newest"),
            models.Index(fields=["created_at"], name="contact_code_age"),
        ]

    def __str__(self) -> str:
        return f"{self.get_purpose_display()}: {self.contact}"
