"""The Django app that owns the tables of catalogue and instances."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class RentalConfig(AppConfig):
    name = "rental"
    label = "rental"
    verbose_name = _("Rental")
