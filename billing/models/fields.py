"""Column types that Django does not have."""

from typing import Any

from django.db import models


class Int8MultiRange(models.Field):  # type: ignore[type-arg]
    """A set of whole numbers as PostgreSQL's ``int8multirange``; psycopg reads ``Multirange``."""

    description = "set of whole-number ranges"

    def db_type(self, connection: Any) -> str:
        return "int8multirange"
