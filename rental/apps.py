"""The Django app that owns the tables of catalogue and instances."""

from django.apps import AppConfig


class RentalConfig(AppConfig):
    name = "rental"
    label = "rental"
    verbose_name = "Rental"
