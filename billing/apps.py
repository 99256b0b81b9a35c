"""The Django app that knows what things cost and who owes whom."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class BillingConfig(AppConfig):
    name = "billing"
    label = "billing"
    verbose_name = _("Billing")
