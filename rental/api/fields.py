"""Serializer fields of the contract: ids, money, instants; strict about types and about names."""

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.core.money import parse_micro
from rental.records import ids
from rental.records.texts import UNSTORABLE, instant_text, money_text

# JSON writes their values as they stand in the database.
_AS_IT_IS = {serializers.CharField, serializers.IntegerField, serializers.BooleanField}


class _Strict(serializers.Serializer[Any]):
    """A serializer that refuses what it does not know: it catches misspelt names."""

    def to_internal_value(self, data: Any) -> Any:
        unknown: dict[str, list[serializers.ErrorDetail]] = {}
        if isinstance(data, Mapping):
            for name in data:
                if name not in self.fields:
                    text = str(_("There is no such field."))
                    unknown[name] = [serializers.ErrorDetail(text, code="unknown_field")]
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if isinstance(error.detail, dict):
                raise serializers.ValidationError({**error.detail, **unknown}) from None
            raise
        if unknown:
            raise serializers.ValidationError(unknown)
        return value


class Input(_Strict):
    """What a request body may hold."""


class Query(_Strict):
    """What a query string may hold."""


class Output(serializers.Serializer[Any]):
    """
    What an answer holds. Every field is always there; what is unknown is null.

    Presents rows and dictionaries alike, by a plan that is made once: DRF's own loop looks up for
    every field of every row what never changes, which took half of the time of a list.
    """

    @cached_property
    def plan(self) -> list[tuple[str, list[str], Callable[[Any], Any] | None]]:
        """For each member: its name, where its value is, and what is done to it."""
        return [
            (
                name,
                field.source_attrs,
                None if type(field) in _AS_IT_IS else field.to_representation,
            )
            for name, field in self.fields.items()
        ]

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for name, path, convert in self.plan:
            value = instance
            for part in path:
                value = value[part] if isinstance(value, dict) else getattr(value, part)
            shown[name] = value if convert is None or value is None else convert(value)
        return shown


class Text(serializers.CharField):
    """A string; numbers are not taken for strings."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if UNSTORABLE.search(data):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A whole number; "5", 5.0 and true are not taken for numbers in a body."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


class Flag(serializers.BooleanField):
    """true or false; "true" and 1 are not taken for them in a body."""

    def to_internal_value(self, data: Any) -> bool:
        if type(data) is not bool:
            self.fail("invalid", input=data)
        return data


class Prefixed(serializers.Field[uuid.UUID, str, str, Any]):
    """An id: a UUID inside, ``prefix_<26 characters>`` outside."""

    default_error_messages = {"invalid_id": _("This is not an id of the form {prefix}_….")}

    def __init__(self, prefix: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.prefix = prefix
        self._spectacular_annotation = {
            "field": {
                "type": "string",
                "pattern": f"^{prefix}_[0-9a-z]{{26}}$",
                "examples": [f"{prefix}_01k0e9w7m4f0bt6zq3yh2x5v8c"],
            }
        }

    def to_internal_value(self, data: Any) -> uuid.UUID:
        try:
            if not isinstance(data, str):
                raise ids.MalformedId(self.prefix, "")
            return ids.from_text(self.prefix, data)
        except ids.MalformedId:
            self.fail("invalid_id", prefix=self.prefix)

    def to_representation(self, value: uuid.UUID) -> str:
        return ids.to_text(self.prefix, value)


@extend_schema_field({"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{2,6}$", "examples": ["1.25"]})
class Money(serializers.Field[int, Any, str, Any]):
    """Micro-units inside, a decimal string outside. The currency stands beside it."""

    default_error_messages = {
        "invalid_amount": _('Write an amount as a decimal string, such as "1.25".')
    }

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, str):
            self.fail("invalid_amount")
        whole, dot, part = data.partition(".")
        digits = whole + part
        if (
            not (digits.isascii() and digits.isdigit() and whole)
            or (dot and not part)
            or len(part) > 6
            or len(whole) > 12  # bigint micro-units hold 9.2 million million
        ):
            self.fail("invalid_amount")
        return parse_micro(data)

    def to_representation(self, value: int) -> str:
        return money_text(value)


@extend_schema_field({"type": "string", "format": "date-time"})
class Instant(serializers.Field[datetime, str, str, Any]):
    """An aware datetime inside, RFC 3339 outside."""

    default_error_messages = {
        "invalid_time": _("Write a time as RFC 3339 with an offset: 2026-12-01T08:00:00Z.")
    }

    def to_internal_value(self, data: Any) -> datetime:
        try:
            if not isinstance(data, str):
                raise ValueError(data)
            moment = datetime.fromisoformat(data)
            if moment.tzinfo is None or "T" not in data.upper():
                raise ValueError(data)
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail("invalid_time")

    def to_representation(self, value: datetime) -> str:
        return instant_text(value)


class Words(serializers.Field[list[str], str, list[str], Any]):
    """Comma-separated words of a closed list: ``state=running,stopped`` in a query string."""

    default_error_messages = {"invalid_choice": _('"{input}" is not one of {choices}.')}

    def __init__(self, choices: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.choices = choices
        self._spectacular_annotation = {
            "field": {
                "type": "string",
                "description": "One or more of: " + ", ".join(choices) + "; separated by commas.",
            }
        }

    def to_internal_value(self, data: Any) -> list[str]:
        words = str(data).split(",")
        for word in words:
            if word not in self.choices:
                self.fail("invalid_choice", input=word[:40], choices=", ".join(self.choices))
        return words

    def to_representation(self, value: list[str]) -> list[str]:
        return value


class PageQuery(Query):
    """``limit`` and ``cursor``, which every list takes."""

    limit = serializers.IntegerField(min_value=1, max_value=100, default=50, required=False)
    cursor = Text(required=False, max_length=400)
