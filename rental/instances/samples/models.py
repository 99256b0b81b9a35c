"""Minutes of samples: one row an instance and minute."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from rental.records.scoped import TenantScoped


class InstanceSampleMinute(models.Model):
    """
    What the samples of one minute say together; the mean is ``*_sum / count``. Charts, not money.

    Partitioned by day of ``minute`` (UTC) and kept 14 days (``days.py``). No foreign keys: ten
    thousand rows a minute would each check two of them, and nobody is billed by this table.
    """

    pk = models.CompositePrimaryKey("instance_id", "minute")
    instance_id = models.UUIDField()
    tenant_id = models.UUIDField()
    minute = models.DateTimeField()
    count = models.PositiveIntegerField()
    util_sum = models.BigIntegerField()
    util_max = models.PositiveIntegerField()
    vram_sum = models.BigIntegerField()
    vram_max = models.BigIntegerField()
    watts_sum = models.BigIntegerField()
    watts_max = models.PositiveIntegerField()
    celsius_sum = models.BigIntegerField()
    celsius_max = models.IntegerField()

    objects = models.Manager.from_queryset(TenantScoped["InstanceSampleMinute"])()

    class Meta:
        app_label = "rental"
        db_table = "rental_instancesampleminute"
        verbose_name = _("minute of samples")
        verbose_name_plural = _("minutes of samples")

    def __str__(self) -> str:
        return f"{self.instance_id} {self.minute:%Y-%m-%dT%H:%M}"
