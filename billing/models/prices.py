"""Prices: versions in time, never changed backwards."""

import pgtrigger
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rental.records.ids import new_id

# The service has read its clock a moment before this statement runs. A tick is charged only when
# it has ended, so that a cut which is this much old re-prices nothing that was billed.
_CLOCK_SLACK = "interval '5 seconds'"


class PriceVersion(models.Model):
    """
    What one unit of ``price_key`` costs during [lower, upper); micro-units of ``currency``.

    An open version may be closed once, at a future time; nothing else of it ever changes.
    """

    class Unit(models.TextChoices):
        HOUR = "hour", _("hour")
        GB = "gb", _("GB")
        GB_MONTH = "gb_month", _("GB and month")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    price_key = models.CharField(max_length=200)
    currency = models.CharField(max_length=3)
    during = DateTimeRangeField(default_bounds="[)")
    price = models.BigIntegerField()
    unit = models.CharField(max_length=8, choices=Unit.choices, default=Unit.HOUR)
    unit_bytes = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name = _("price version")
        verbose_name_plural = _("price versions")
        constraints = [
            ExclusionConstraint(
                name="one_price_at_a_time",
                expressions=[
                    ("price_key", RangeOperators.EQUAL),
                    ("during", RangeOperators.OVERLAPS),
                ],
            ),
            models.CheckConstraint(condition=Q(price__gte=0), name="a_price_is_not_negative"),
            models.CheckConstraint(
                condition=Q(during__startswith__isnull=False)
                & Q(during__isempty=False)
                & Q(during__lower_inc=True)
                & Q(during__upper_inc=False),
                name="a_price_begins_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(unit="hour", unit_bytes__isnull=True)
                | Q(unit__in=["gb", "gb_month"], unit_bytes__gt=0),
                name="a_price_by_bytes_says_how_many_bytes",
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="prices_are_never_deleted", operation=pgtrigger.Delete),
            pgtrigger.Trigger(
                name="the_past_is_never_repriced",
                when=pgtrigger.Before,
                operation=pgtrigger.Update,
                func=f"""
                    IF (NEW.id, NEW.price_key, NEW.currency, lower(NEW.during), NEW.price, NEW.unit,
                        NEW.unit_bytes, NEW.created_at)
                       IS DISTINCT FROM
                       (OLD.id, OLD.price_key, OLD.currency, lower(OLD.during), OLD.price, OLD.unit,
                        OLD.unit_bytes, OLD.created_at)
                    THEN
                        RAISE EXCEPTION 'a price version is never changed, only closed'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    IF NOT upper_inf(OLD.during) THEN
                        RAISE EXCEPTION 'this price version is closed already'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    IF upper(NEW.during) < clock_timestamp() - {_CLOCK_SLACK} THEN
                        RAISE EXCEPTION 'a price version is closed at a future time only'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.price_key} {self.price}"
