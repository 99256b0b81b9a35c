"""Makes the wiring known to Django: its commands, and Celery for whoever publishes a hint."""

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import celery  # noqa: F401  # @shared_task finds its app here
