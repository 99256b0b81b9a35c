"""The Django app that knows which slice runs where."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    name = "scheduler"
    label = "scheduler"
    verbose_name = "Scheduler"
