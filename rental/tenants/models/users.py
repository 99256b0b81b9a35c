"""People: users, what staff may do, and what they agreed to."""

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower, Now
from django.utils.translation import gettext_lazy as _

from rental.records.append_only import AppendOnly
from rental.records.ids import new_id
from rental.tenants.fields import LowerEmailField


class StaffRole(models.Model):
    """
    What a member of the operator's staff may do. Data, not code: an operator cuts his own.

    A verb is ``<app>:read``, ``<app>:write`` (see ``User.has_perm``) or the name of one action,
    for example ``billing:credit``; ``*`` is everything.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    code = models.SlugField(_("code"), max_length=32, unique=True)
    name = models.CharField(_("name"), max_length=80)
    verbs = ArrayField(models.CharField(max_length=64), verbose_name=_("verbs"), default=list)

    class Meta:
        verbose_name = _("staff role")
        verbose_name_plural = _("staff roles")

    def __str__(self) -> str:
        return self.name


class UserManager(BaseUserManager["User"]):
    def create_user(
        self,
        email: str | None = None,
        password: str | None = None,
        *,
        phone: str | None = None,
        **fields: Any,
    ) -> "User":
        """
        Save a new user who is reached by ``email``, by ``phone`` (+ and digits) or by both.

        Without a password none is accepted until one is set.

        :raises ValueError: if there is neither an e-mail address nor a phone number
        """
        if not email and not phone:
            raise ValueError("a user has an e-mail address or a phone number")
        user = self.model(email=email or None, phone=phone or None, **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(
        self, email: str | None = None, password: str | None = None, **fields: Any
    ) -> "User":
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> "User":
        """Find by what was typed at the login: an e-mail address or a phone number."""
        name = (username or "").strip()
        return self.get(email=name) if "@" in name else self.get(phone=name)

    async def aget_by_natural_key(self, username: str | None) -> "User":
        name = (username or "").strip()
        return await (self.aget(email=name) if "@" in name else self.aget(phone=name))


class User(AbstractBaseUser):
    """A person. What he may do with a tenant says his Membership; with the platform, his roles."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = LowerEmailField(_("e-mail address"), unique=True, null=True, blank=True)
    phone = models.CharField(
        _("phone number"),
        max_length=16,
        unique=True,
        null=True,
        blank=True,
        help_text=_("In international form, for example +8613800000000."),
    )
    # When a code proved that the person reads what is sent there; None: nobody has asked yet.
    email_verified_at = models.DateTimeField(_("e-mail verified at"), null=True, blank=True)
    phone_verified_at = models.DateTimeField(_("phone verified at"), null=True, blank=True)
    name = models.CharField(_("name"), max_length=80, blank=True)
    language = models.CharField(_("language"), max_length=16, default="zh-hans")
    is_active = models.BooleanField(_("active"), default=True)
    is_staff = models.BooleanField(_("staff"), default=False)
    is_superuser = models.BooleanField(_("superuser"), default=False)
    staff_roles = models.ManyToManyField(
        StaffRole, verbose_name=_("staff roles"), related_name="users", blank=True
    )
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        verbose_name = _("user")
        verbose_name_plural = _("users")
        constraints = [
            models.CheckConstraint(
                condition=Q(email__isnull=False) | Q(phone__isnull=False),
                name="user_has_email_or_phone",
            ),
            models.CheckConstraint(
                condition=Q(email__isnull=True) | Q(email=Lower("email")) & ~Q(email=""),
                name="user_email_is_lower_case",
            ),
            models.CheckConstraint(
                condition=(Q(email__isnull=False) | Q(email_verified_at__isnull=True))
                & (Q(phone__isnull=False) | Q(phone_verified_at__isnull=True)),
                name="user_contact_that_is_verified_exists",
            ),
            models.CheckConstraint(
                condition=Q(phone__isnull=True) | Q(phone__regex=r"^\+[1-9][0-9]{6,14}$"),
                name="user_phone_is_in_international_form",
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.email or self.phone or str(self.id)

    def get_username(self) -> str:
        return self.email or self.phone or ""

    # --- the admin asks these; see permissions.py for the verbs of tenants' members

    def staff_verbs(self) -> frozenset[str]:
        """Return the union of the verbs of the roles; read once for each user object."""
        if not hasattr(self, "_staff_verbs"):
            rows = self.staff_roles.values_list("verbs", flat=True)
            self._staff_verbs = frozenset(verb for verbs in rows for verb in verbs)
        return self._staff_verbs

    def has_staff_verb(self, verb: str) -> bool:
        if not (self.is_active and self.is_staff):
            return False
        return self.is_superuser or not self.staff_verbs().isdisjoint({"*", verb})

    def has_perm(self, perm: str, obj: object = None) -> bool:
        """Django's ``app.view_model`` needs ``app:read``; add, change, delete ``app:write``."""
        app, _, codename = perm.partition(".")
        return self.has_staff_verb(f"{app}:{'read' if codename.startswith('view_') else 'write'}")

    def has_perms(self, perm_list: Any, obj: object = None) -> bool:
        return all(self.has_perm(perm, obj) for perm in perm_list)

    def has_module_perms(self, app_label: str) -> bool:
        return self.has_staff_verb(f"{app_label}:read") or self.has_staff_verb(f"{app_label}:write")


class Consent(AppendOnly):
    """A user agreed to one version of a document (terms, privacy) at a moment."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="consents")
    document = models.SlugField(_("document"), max_length=32)
    version = models.CharField(_("version"), max_length=32)
    at = models.DateTimeField(_("at"))

    class Meta(AppendOnly.Meta):
        verbose_name = _("consent")
        verbose_name_plural = _("consents")
        constraints = [
            models.UniqueConstraint(
                fields=["user", "document", "version"], name="consent_is_given_once_a_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.document} {self.version}"
