"""Private networks: one for each tenant in each region, out of one space."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id
from rental.records.scoped import TenantScoped
from scheduler.fields import CidrField
from scheduler.models.places import Region

# The shared address space of RFC 6598: no customer's own network and no data centre uses it.
SPACE = "100.64.0.0/10"
PREFIX_LENGTH = 22  # 1,022 addresses each, 4,096 networks


class PrivateNetwork(models.Model):
    """
    Addresses that a tenant's instances in one region have among themselves.

    Given once, at the first placement there, and kept: instances remember their neighbours'
    addresses. No two networks overlap, in whatever region, so that they can be joined later.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", models.PROTECT, related_name="+", verbose_name=_("tenant")
    )
    region = models.ForeignKey(Region, models.PROTECT, related_name="+", verbose_name=_("region"))
    cidr = CidrField(_("network"))
    created_at = models.DateTimeField(_("created at"))

    objects = models.Manager.from_queryset(TenantScoped["PrivateNetwork"])()

    class Meta:
        verbose_name = _("private network")
        verbose_name_plural = _("private networks")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "region"], name="tenant_has_one_network_in_a_region"
            ),
            ExclusionConstraint(
                name="private_networks_do_not_overlap",
                expressions=[(OpClass("cidr", name="inet_ops"), "&&")],
            ),
            models.CheckConstraint(
                condition=RawSQL(
                    f"cidr << '{SPACE}' AND masklen(cidr) = {PREFIX_LENGTH}",
                    (),
                    output_field=models.BooleanField(),
                ),
                name="private_network_is_cut_from_the_space",
            ),
        ]

    def __str__(self) -> str:
        return str(self.cidr)
