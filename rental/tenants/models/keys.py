"""Keys: API keys that programs show us, SSH keys that people log in to instances with."""

from datetime import datetime
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped
from rental.tenants.models.tenants import Project, Tenant
from rental.tenants.models.users import User


class ApiKeyQuerySet(TenantScoped["ApiKey"]):
    def live(self, *, at: datetime) -> Self:
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=at), revoked_at__isnull=True
        )


class ApiKey(models.Model):
    """
    A credential of a tenant. Only the SHA-256 of its secret is kept; the text is shown once.

    A fast hash is enough, since the secret is 256 random bits and not somebody's word. What a
    key may do is its scopes within what its creator's role allows now (``permissions.py``).
    """

    class Kind(models.TextChoices):
        PERSON = "person", _("person")
        AGENT = "agent", _("agent")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="api_keys")
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="api_keys", null=True, blank=True
    )
    name = models.CharField(_("name"), max_length=80)
    kind = models.CharField(_("kind"), max_length=6, choices=Kind.choices, default=Kind.PERSON)
    prefix = models.CharField(_("prefix"), max_length=8, unique=True)
    digest = models.CharField(max_length=64)
    scopes = ArrayField(models.CharField(max_length=64), verbose_name=_("scopes"))
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used at"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["person", "agent"]), name="api_key_kind_is_known"
            ),
            models.CheckConstraint(
                condition=Q(kind="person") | Q(expires_at__isnull=False),
                name="api_key_of_an_agent_expires",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__isnull=True) | Q(expires_at__gt=F("created_at")),
                name="api_key_expires_after_it_is_made",
            ),
            models.CheckConstraint(
                condition=Q(digest__regex=r"^[0-9a-f]{64}$"), name="api_key_digest_is_sha256"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "-created_at"], name="api_key_of_tenant")]

    def __str__(self) -> str:
        return f"{self.name} (tsr_{self.prefix}_…)"


class SshKeyQuerySet(TenantScoped["SshKey"]):
    def live(self) -> Self:
        return self.filter(deleted_at__isnull=True)


class SshKey(models.Model):
    """
    A public key that opens a tenant's instances. Kept after removal: it tells who could log in.

    ``public_key`` is ``<algorithm> <base64>`` without options or comment; ``fingerprint`` is
    what ``ssh-keygen -lf`` prints (``SHA256:…``).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="ssh_keys")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="ssh_keys")
    name = models.CharField(_("name"), max_length=80)
    public_key = models.TextField(_("public key"))
    fingerprint = models.CharField(_("fingerprint"), max_length=64)
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)
    deleted_at = models.DateTimeField(_("deleted at"), null=True, blank=True)

    objects = SshKeyQuerySet.as_manager()

    class Meta:
        verbose_name = _("SSH key")
        verbose_name_plural = _("SSH keys")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "fingerprint"],
                condition=Q(deleted_at__isnull=True),
                name="ssh_key_is_known_once_a_tenant",
            ),
        ]
        indexes = [models.Index(fields=["tenant", "-created_at"], name="ssh_key_of_tenant")]

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint})"
