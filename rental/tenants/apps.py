"""The Django app that owns users, tenants, keys and the records (audit, outbox, idempotency)."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "rental.tenants"
    label = "tenants"
    verbose_name = "Tenants"
