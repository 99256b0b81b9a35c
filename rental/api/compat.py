"""
Would this OpenAPI document break a client of that one? Pure.

A client may send what was allowed and read what was promised. So inputs may only be widened
(nothing newly required, no enum narrowed, nothing removed) and answers may only gain members.
"""

from collections.abc import Iterator
from typing import Any, Literal

Document = dict[str, Any]
Side = Literal["input", "output"]

UPPER = ("maximum", "maxLength", "maxItems")
LOWER = ("minimum", "minLength", "minItems")
METHODS = ("get", "post", "put", "patch", "delete")


def breaking(old: Document, new: Document) -> list[str]:
    """Return each break in words, in the order of the document; empty if there is none."""
    return list(_paths(old, new))


def _paths(old: Document, new: Document) -> Iterator[str]:
    for path, item in old.get("paths", {}).items():
        after = new.get("paths", {}).get(path)
        if after is None:
            yield f"{path}: removed"
            continue
        for method in METHODS:
            if method in item and method not in after:
                yield f"{method.upper()} {path}: removed"
            elif method in item:
                where = f"{method.upper()} {path}"
                yield from _operation(where, item[method], after[method], old, new)


def _operation(
    where: str, was: Document, now: Document, old: Document, new: Document
) -> Iterator[str]:
    yield from _parameters(where, was, now, old, new)
    yield from _bodies(where, was, now, old, new)
    for status, answer in was.get("responses", {}).items():
        if not status.startswith("2"):
            continue
        after = now.get("responses", {}).get(status)
        if after is None:
            yield f"{where}: no longer answers {status}"
            continue
        for kind, before, later in _contents(answer, after):
            if later is None:
                yield f"{where}: no longer answers {kind}"
                continue
            place = f"{where} {status}"
            yield from _schema(place, before, later, old, new, "output", frozenset())


def _contents(was: Document, now: Document) -> Iterator[tuple[str, Document, Document | None]]:
    """Yield each media type with its schema before and after; None: it is gone."""
    after = now.get("content", {})
    for kind, media in was.get("content", {}).items():
        later = after[kind].get("schema", {}) if kind in after else None
        yield kind, media.get("schema", {}), later


def _parameters(
    where: str, was: Document, now: Document, old: Document, new: Document
) -> Iterator[str]:
    before = {(p["in"], p["name"]): p for p in was.get("parameters", [])}
    after = {(p["in"], p["name"]): p for p in now.get("parameters", [])}
    for key, parameter in before.items():
        if key not in after:
            yield f"{where}: parameter {key[1]} removed"
            continue
        yield from _schema(
            f"{where} ?{key[1]}",
            parameter.get("schema", {}),
            after[key].get("schema", {}),
            old,
            new,
            "input",
            frozenset(),
        )
    for key, parameter in after.items():
        needed_before = before.get(key, {}).get("required", False)
        if parameter.get("required") and not needed_before:
            yield f"{where}: parameter {key[1]} newly required"


def _bodies(
    where: str, was: Document, now: Document, old: Document, new: Document
) -> Iterator[str]:
    before, after = was.get("requestBody"), now.get("requestBody")
    if before is None:
        if after and after.get("required"):
            yield f"{where}: body newly required"
        return
    if after is None:
        yield f"{where}: body removed"
        return
    if after.get("required") and not before.get("required"):
        yield f"{where}: body newly required"
    for kind, asked, later in _contents(before, after):
        if later is None:
            yield f"{where}: no longer takes {kind}"
            continue
        yield from _schema(f"{where} body", asked, later, old, new, "input", frozenset())


def _resolve(schema: Document, document: Document) -> tuple[Document, str]:
    name = ""
    while "$ref" in schema:
        name = schema["$ref"]
        target: Any = document
        for part in name.removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema, name


def _types(schema: Document) -> set[str]:
    kind = schema.get("type")
    if kind is None:
        return set()
    return {kind} if isinstance(kind, str) else set(kind)


def _schema(
    where: str,
    was: Document,
    now: Document,
    old: Document,
    new: Document,
    side: Side,
    seen: frozenset[str],
) -> Iterator[str]:
    was, name = _resolve(was, old)
    now, _name = _resolve(now, new)
    if name and name in seen:
        return  # a schema that holds itself has been compared already
    seen = seen | {name} if name else seen
    yield from _values(where, was, now, side)
    yield from _members(where, was, now, old, new, side, seen)
    if "items" in was and "items" in now:
        yield from _schema(f"{where}[]", was["items"], now["items"], old, new, side, seen)
    for combination in ("oneOf", "anyOf", "allOf"):
        for index, part in enumerate(was.get(combination, [])):
            parts = now.get(combination, [])
            if index < len(parts):
                yield from _schema(where, part, parts[index], old, new, side, seen)
            else:
                yield f"{where}: fewer alternatives"


def _values(where: str, was: Document, now: Document, side: Side) -> Iterator[str]:
    """Compare types, enums and bounds: inputs may widen, outputs may narrow."""
    types, types_now = _types(was), _types(now)
    lost = types - types_now if side == "input" else types_now - types
    if types and types_now and lost:
        yield f"{where}: type {'|'.join(sorted(types))} became {'|'.join(sorted(types_now))}"
    if side == "input":  # enums of answers are open to clients by contract, so they may grow
        yield from _enum(where, was, now)
        yield from _bounds(where, was, now)


def _enum(where: str, was: Document, now: Document) -> Iterator[str]:
    if "enum" not in now:
        return
    if "enum" not in was:
        yield f"{where}: newly limited to {now['enum']}"
    elif gone := [value for value in was["enum"] if value not in now["enum"]]:
        yield f"{where}: no longer takes {', '.join(map(str, gone))}"


def _bounds(where: str, was: Document, now: Document) -> Iterator[str]:
    for words, tighter in ((UPPER, min), (LOWER, max)):
        for word in words:
            if word in now and (word not in was or tighter(was[word], now[word]) != was[word]):
                yield f"{where}: {word} tightened to {now[word]}"
    if "pattern" in now and was.get("pattern") != now["pattern"]:
        yield f"{where}: pattern changed"


def _members(
    where: str,
    was: Document,
    now: Document,
    old: Document,
    new: Document,
    side: Side,
    seen: frozenset[str],
) -> Iterator[str]:
    before, after = was.get("properties", {}), now.get("properties", {})
    for name, member in before.items():
        if name not in after:
            yield f"{where}: {name} removed"
            continue
        yield from _schema(f"{where}.{name}", member, after[name], old, new, side, seen)
    required, required_now = set(was.get("required", [])), set(now.get("required", []))
    if side == "input":
        for name in sorted(required_now - required):
            yield f"{where}: {name} newly required"
    else:
        for name in sorted((required - required_now) & set(after)):
            yield f"{where}: {name} is no longer always there"
