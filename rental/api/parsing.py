"""Read a JSON body so strictly that nothing behind it can be surprised."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser

from rental.api.errors import Problem
from rental.records.texts import UNSTORABLE

MAX_BYTES = 1 << 20  # no request of this API has reason to be larger
MAX_DEPTH = 16
MAX_DIGITS = 20  # a signed 64-bit number has 19; fields give the true limits


def _refuse(detail: str) -> Problem:
    return Problem(400, "malformed_request", detail)


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _refuse(_("A number is too large."))
    return int(digits)


def _constant(word: str) -> None:
    raise _refuse(_("%s is not JSON.") % word)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _refuse(_("An object names a member twice."))
    return members


_decoder = json.JSONDecoder(parse_int=_whole, parse_constant=_constant, object_pairs_hook=_pairs)


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _refuse(_("The body is nested too deeply."))
    if isinstance(value, str):
        if UNSTORABLE.search(value):
            raise _refuse(_("A text has a NUL or half of a surrogate pair."))
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check(name, depth)
            _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth + 1)


class StrictJson(BaseParser):
    """
    UTF-8 JSON: no NaN, no member twice, no NUL, no lone surrogate, bounded in size and depth.

    :raises Problem: 400 malformed_request, 413 content_too_large
    """

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise Problem(413, "content_too_large")
        try:
            value = _decoder.decode(raw.decode("utf-8"))
        except UnicodeDecodeError:
            raise _refuse(_("The body is not UTF-8.")) from None
        except (ValueError, RecursionError) as error:
            where = getattr(error, "pos", None)
            raise _refuse(
                _("The body is not JSON.")
                if where is None
                else _("The body is not JSON (at character %d).") % where
            ) from None
        _check(value, 0)
        return value


class JsonAlways(BaseContentNegotiation):
    """JSON in, JSON out, whatever Accept says: a browser that asks for HTML may read JSON too."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return next((p for p in parsers if _is_json(request.content_type)), None)

    def select_renderer(
        self, request: Any, renderers: Any, format_suffix: str | None = None
    ) -> tuple[Any, str]:
        return renderers[0], renderers[0].media_type


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
