"""Rows that belong to a tenant are reached by ``.of(tenant_id)``."""

import uuid
from typing import Self, TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


class TenantQuerySet(models.QuerySet[Row]):
    def of(self, tenant_id: uuid.UUID) -> Self:
        return self.filter(tenant_id=tenant_id)
