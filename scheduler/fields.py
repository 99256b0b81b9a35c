"""Column types that Django lacks: a set of half-open ranges of small integers, and a network."""

from ipaddress import IPv4Network, ip_network
from typing import TYPE_CHECKING, Any, TypeAlias

from django.db import models
from psycopg.types.multirange import Int4Multirange, Multirange
from psycopg.types.range import Range

Cells: TypeAlias = tuple[tuple[int, int], ...]

if TYPE_CHECKING:
    Field = models.Field[Any, Any]
else:  # Django's own class takes no type arguments
    Field = models.Field


class CellsField(Field):
    """
    A column of type ``int4multirange``; in Python half-open pairs, ``((0, 3), (7, 10))``.

    PostgreSQL keeps it sorted and merged, so equal sets are equal values.
    """

    description = "half-open ranges of cells"

    def db_type(self, connection: Any) -> str:
        return "int4multirange"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Cells | None:
        return None if value is None else self.to_python(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, Multirange):
            return tuple((part.lower, part.upper) for part in value)
        if isinstance(value, str):  # what value_to_string writes
            pairs = (pair.split("-") for pair in value.split(",") if pair)
            return tuple((int(lower), int(upper)) for lower, upper in pairs)
        return value if value is None else tuple((int(lower), int(upper)) for lower, upper in value)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if value is None or isinstance(value, Multirange):
            return value
        return Int4Multirange([Range(lower, upper, "[)") for lower, upper in value])

    def value_to_string(self, obj: models.Model) -> str:
        cells: Cells = self.value_from_object(obj)
        return ",".join(f"{lower}-{upper}" for lower, upper in cells)


class CidrField(Field):
    """A column of type ``cidr``; in Python an ``IPv4Network``, which refuses bits of a host."""

    description = "an IPv4 network"

    def db_type(self, connection: Any) -> str:
        return "cidr"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> IPv4Network | None:
        return None if value is None else self.to_python(value)

    def to_python(self, value: Any) -> Any:
        return value if value is None else ip_network(value)

    def get_prep_value(self, value: Any) -> Any:
        return value if value is None else str(ip_network(value))
