"""Where nodes stand and which kinds of GPU there are."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id


class PolicyName(models.TextChoices):
    """How a place is chosen; ``manage.py replay`` says which suits a region."""

    BEST_FIT = "best_fit", _("best fit")
    FIRST_FIT = "first_fit", _("first fit")
    FGD = "fgd", _("least fragments (FGD)")
    FGDX = "fgdx", _("expected fill (FGDX)")
    FGDX_FILLING = "fgdx_filling", _("expected fill, for a room that only fills up")


class Region(models.Model):
    """A place with prices and a network of its own; part of the price key."""

    code = models.SlugField(_("code"), primary_key=True, max_length=32)
    name = models.CharField(_("name"), max_length=80, blank=True, default="")
    policy = models.CharField(
        _("how places are chosen"),
        max_length=16,
        choices=PolicyName.choices,
        default=PolicyName.BEST_FIT,
    )
    failover_reserve_nodes = models.PositiveSmallIntegerField(
        _("nodes kept for failover"),
        default=0,
        db_default=0,
        help_text=_("So many of the emptiest nodes take nothing but instances of lost nodes."),
    )

    class Meta:
        verbose_name = _("region")
        verbose_name_plural = _("regions")
        constraints = [
            models.CheckConstraint(
                condition=Q(policy__in=PolicyName.values), name="region_policy_is_known"
            ),
        ]

    def __str__(self) -> str:
        return self.code


class Zone(models.Model):
    """
    A part of a region that fails on its own (power, network). ``frozen_at``: since when so much of
    it is lost that nothing is re-placed from there (services/failover.py).
    """

    code = models.SlugField(_("code"), primary_key=True, max_length=32)
    name = models.CharField(_("name"), max_length=80, blank=True, default="")
    region = models.ForeignKey(
        Region, models.PROTECT, related_name="zones", verbose_name=_("region")
    )
    frozen_at = models.DateTimeField(
        _("re-placement frozen since"), null=True, blank=True, editable=False
    )

    class Meta:
        verbose_name = _("zone")
        verbose_name_plural = _("zones")

    def __str__(self) -> str:
        return self.code


class GpuModel(models.Model):
    """
    A kind of GPU. The name alone does not say what it is (a 4090 has 24 or 48 GiB): the key is
    name **and** memory. Rows come from a data file and stay inactive until a node reports one.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(_("name"), max_length=64)
    memory_mib = models.PositiveIntegerField(_("memory, MiB"))
    vendor = models.CharField(_("vendor"), max_length=32, blank=True, default="")
    fp16_tflops = models.DecimalField(
        _("FP16, TFLOPS"), max_digits=8, decimal_places=2, null=True, blank=True
    )
    fp64_tflops = models.DecimalField(
        _("FP64, TFLOPS"), max_digits=8, decimal_places=2, null=True, blank=True
    )
    bandwidth_gbs = models.PositiveIntegerField(_("memory bandwidth, GB/s"), null=True, blank=True)
    power_watts = models.PositiveIntegerField(_("power, W"), null=True, blank=True)
    compute_capability = models.CharField(
        _("compute capability"), max_length=8, blank=True, default=""
    )
    active = models.BooleanField(_("active"), default=False)

    class Meta:
        verbose_name = _("GPU model")
        verbose_name_plural = _("GPU models")
        constraints = [
            models.UniqueConstraint(
                fields=["name", "memory_mib"], name="gpu_model_is_a_name_with_a_memory"
            ),
            models.CheckConstraint(condition=Q(memory_mib__gt=0), name="gpu_model_has_memory"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.memory_mib // 1024} GiB"
