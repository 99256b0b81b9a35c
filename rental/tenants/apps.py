"""The Django app that owns users, tenants, keys and the records (audit, outbox, idempotency)."""

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy as _


class TenantsConfig(AppConfig):
    name = "rental.tenants"
    label = "tenants"
    verbose_name = _("Tenants")

    def ready(self) -> None:
        from rental.records.columns import word_columns

        for label in ("billing", "rental", "scheduler", "tenants"):
            word_columns(apps.get_app_config(label).get_models())
