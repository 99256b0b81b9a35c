"""Values that are kept sealed (sealing.py): secrets of tenants, passwords of instances."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from rental.instances.models.instance import Instance
from rental.records.ids import new_id
from rental.records.scoped import TenantScoped


class Sealed(models.Model):
    """
    ``ciphertext``: nonce, then AES-256-GCM of the value, bound to this row. ``key_id``: which key.
    Written and read by sealing.py alone.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    ciphertext = models.BinaryField()
    key_id = models.CharField(max_length=16)
    created_at = models.DateTimeField(_("created"))
    updated_at = models.DateTimeField(_("changed"))

    class Meta:
        abstract = True


class Secret(Sealed):
    """
    A value that a tenant's instances get as the variable ``name``. Written and read by secrets.py
    alone; nobody is ever shown it again.
    """

    name = models.CharField(_("name"), max_length=128)

    objects = models.Manager.from_queryset(TenantScoped["Secret"])()

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="secret_has_one_value_a_name")
        ]

    def __str__(self) -> str:
        return self.name


class InstancePassword(Sealed):
    """
    What opens an instance to whoever has no SSH key at hand. Written and read by passwords.py
    alone; there from when password log-in is switched on until it is switched off.

    ``digest``: what its node gets instead of the password, in the form of crypt(3).
    """

    instance = models.OneToOneField(Instance, on_delete=models.PROTECT, related_name="password")
    digest = models.CharField(max_length=120)

    objects = models.Manager.from_queryset(TenantScoped["InstancePassword"])()

    class Meta:
        verbose_name = _("password of an instance")
        verbose_name_plural = _("passwords of instances")

    def __str__(self) -> str:
        return str(self.instance_id)
