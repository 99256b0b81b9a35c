"""The Django app that knows which slice runs where."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SchedulerConfig(AppConfig):
    name = "scheduler"
    label = "scheduler"
    verbose_name = _("Scheduler")
