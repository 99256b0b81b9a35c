"""
Parts of pages that are drawn once for all who see the same: ``{% cache None name key %}``.

The key is all that a part is drawn from, so what is kept can never be stale: something changed is
another key. Rows of a table and the cards of the price list cost most of their pages otherwise
(benchmarks.console).
"""

from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

from django.db.models import Model
from django.utils.functional import Promise
from django.utils.translation import get_language


def print_of(*things: Any) -> str:
    """
    Return a text that is equal for equal contents in one language: of dataclasses and model rows
    (their columns; of related rows only the id), lists, tuples, mappings and plain values.
    """
    contents = repr([get_language(), *(_plain(thing) for thing in things)])
    return blake2b(contents.encode(), digest_size=16).hexdigest()


def _plain(thing: Any) -> object:
    if isinstance(thing, Model):
        columns = thing.__dict__
        return [columns.get(field.attname) for field in thing._meta.concrete_fields]
    if is_dataclass(thing):
        return [_plain(getattr(thing, field.name)) for field in fields(thing)]
    if isinstance(thing, list | tuple):
        return [_plain(one) for one in thing]
    if isinstance(thing, dict):
        return [(key, _plain(value)) for key, value in thing.items()]
    return str(thing) if isinstance(thing, Promise) else thing
