"""Ids in addresses: their public text outside, a UUID inside; any other text is no address."""

import uuid

from django.urls import register_converter

from rental.records import ids

# Converter -> prefix: `<ins:instance_id>`.
KINDS = ("ins", "key", "ssh", "sec", "prj", "usr", "op", "inv")


class _Id:
    prefix: str
    regex: str

    def to_python(self, text: str) -> uuid.UUID:
        return ids.from_text(self.prefix, text)  # a MalformedId is a ValueError: no match, 404

    def to_url(self, value: uuid.UUID) -> str:
        return ids.to_text(self.prefix, value)


def register() -> None:
    for prefix in KINDS:
        kind = type(prefix, (_Id,), {"prefix": prefix, "regex": f"{prefix}_[0-9a-z]{{26}}"})
        register_converter(kind, prefix)


register()
