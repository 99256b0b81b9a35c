"""The Django app that knows what things cost and who owes whom."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"
    label = "billing"
    verbose_name = "Billing"
