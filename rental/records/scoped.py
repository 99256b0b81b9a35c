"""Rows that belong to one tenant."""

import uuid
from typing import Self, TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


class TenantScoped(models.QuerySet[Row]):
    """Tenant rows are reached by ``.of(tenant_id)``, with the id from the credential."""

    def of(self, tenant_id: uuid.UUID) -> Self:
        return self.filter(tenant_id=tenant_id)
