"""
What templates say amounts, moments and ids with: ``{% load tessera %}``.

Filters of amounts take micro-units; an empty value shows as an en dash, never as zero.
"""

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.conf import settings
from django.forms import BoundField, CheckboxInput, CheckboxSelectMultiple, RadioSelect
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, gettext_noop

from rental.instances.states import StateWord
from rental.records import ids
from rental.web import amounts, once
from rental.web.frame import Frame, frame_of
from rental.web.icons import draw
from rental.web.kept import print_of

register = template.Library()

NOTHING = "\N{EN DASH}"
_EMPTY: tuple[object, ...] = (None, "")


# --- amounts


@register.filter
def money(micro: int | None) -> str:
    """¥12.34; more digits where two would show nothing."""
    return NOTHING if micro in _EMPTY else amounts.money(int(micro or 0), settings.BILLING_CURRENCY)


@register.filter
def money_exact(micro: int | None) -> str:
    """¥12.345678: all digits."""
    if micro in _EMPTY:
        return NOTHING
    return amounts.money_exact(int(micro or 0), settings.BILLING_CURRENCY)


@register.filter
def rate(micro: int | None) -> str:
    """¥5.00/h"""
    return NOTHING if micro in _EMPTY else amounts.rate(int(micro or 0), settings.BILLING_CURRENCY)


@register.filter
def gib(mib: int | None) -> str:
    """24 GiB"""
    return NOTHING if mib in _EMPTY else amounts.gib(int(mib or 0))


@register.filter
def duration(value: int | timedelta | None) -> str:
    """1 h 5 min, from seconds or a timedelta."""
    if value in _EMPTY:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return amounts.duration(int(seconds or 0))


# --- moments

# Django's own words, said here so that our catalogue has them: its Chinese ones are long names.
_WEEKDAYS = (
    gettext_noop("Mon"),
    gettext_noop("Tue"),
    gettext_noop("Wed"),
    gettext_noop("Thu"),
    gettext_noop("Fri"),
    gettext_noop("Sat"),
    gettext_noop("Sun"),
)

# Translators give these in their own order: Django's letters for date formats.
_FORMATS: dict[str, Callable[[], str]] = {
    "": lambda: gettext("j M Y, H:i"),
    "short": lambda: gettext("j M, H:i"),
    "day": lambda: gettext("j M Y"),
    "weekday": lambda: gettext("D H:i"),
    "time": lambda: "H:i:s",
    "exact": lambda: "Y-m-d H:i:s O",
}


@register.filter
def moment(value: datetime | None, form: str = "") -> str:
    """
    <time> in the zone in force, which is the tenant's. ``form``: short, day, weekday, time, exact.
    A weekday says which day it is for six days; beyond them it is the date.
    """
    if value is None:
        return NOTHING
    local = timezone.localtime(value)
    if form == "weekday" and abs((local.date() - timezone.localdate()).days) > 6:
        form = "day"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        local.isoformat(timespec="seconds"),
        date_format(local, _FORMATS["exact"]()),
        date_format(local, _FORMATS[form]()),
    )


@register.filter
def ago(value: datetime | None, now: datetime | None = None) -> str:
    """<time> that reads "3 minutes ago" and is kept true by times.js. ``now`` is for tests."""
    if value is None:
        return NOTHING
    local = timezone.localtime(value)
    seconds = round((value - (now or timezone.now())).total_seconds())
    return format_html(
        '<time datetime="{}" title="{}" data-ago>{}</time>',
        local.isoformat(timespec="milliseconds"),
        date_format(local, _FORMATS["exact"]()),
        amounts.distance(seconds),
    )


# --- ids, rights, words


@register.filter
def kept(thing: object, other: object = None) -> str:
    """{% cache None name card|kept:regions %}: a key of all that the two contain."""
    return print_of(thing, other)


@register.simple_tag
def tid(value: uuid.UUID | None, prefix: str) -> str:
    """{% tid instance.id "ins" %}: the id as people and the API write it."""
    return ids.to_text(prefix, value) if value else ""


@register.filter
def text_id(value: uuid.UUID | None, prefix: str) -> str:
    """The same where a tag cannot stand: ``:value="instance.id|text_id:'ins'"``."""
    return ids.to_text(prefix, value) if value else ""


@register.filter
def may(visit: Any, verb: str) -> bool:
    """{% if visit|may:"instances:write" %}"""
    return bool(visit.may(verb))


@register.filter
def state_label(word: str) -> str:
    """The word of a state in the reader's language, from the word or its code."""
    return str(StateWord(word).label)


@register.filter
def error_text(error: object) -> str:
    """One line out of a text, a list of texts or a form's ErrorList."""
    if isinstance(error, str) or not isinstance(error, Iterable):
        return str(error)
    return " ".join(str(one) for one in error)


_WIDTHS = ("w-full", "w-11/12", "w-4/5", "w-3/5")


@register.filter
def skeleton_rows(count: int | str) -> list[str]:
    """Widths of the lines that stand for text to come."""
    return [_WIDTHS[n % len(_WIDTHS)] for n in range(int(count))]


@register.filter
def html_lang(code: str) -> str:
    """Django's code of a language as HTML writes it: zh-hans -> zh-Hans."""
    return "zh-Hans" if code == "zh-hans" else code


# --- forms

_CSS = {
    "checkbox": "checkbox",
    "radio": "radio",
    "select": "select",
    "selectmultiple": "select h-auto",
    "textarea": "textarea",
    "file": "file-input",
}


@register.filter
def field_kind(field: BoundField) -> str:
    """check (label beside the box), choices (a group of radios or boxes) or line."""
    widget = field.field.widget
    if isinstance(widget, CheckboxInput):
        return "check"
    return "choices" if isinstance(widget, RadioSelect | CheckboxSelectMultiple) else "line"


@register.filter
def styled(field: BoundField) -> SafeString:
    """The input of a field with our class, and tied to its help and error for screen readers."""
    classes = field.field.widget.attrs.get("class", "")
    css = _CSS.get(field.widget_type, "input")
    extra: dict[str, str | bool] = {"class": f"{css} {classes}".strip()}
    if field.field.widget.attrs.get("placeholder") == field.label:
        extra["placeholder"] = ""  # allauth's: it repeats the label, which stands above
    told = [f"{field.name}-help"] if field.help_text else []
    if field.errors:
        extra["aria-invalid"] = "true"
        told.append(f"{field.name}-error")
    if told:
        extra["aria-describedby"] = " ".join(told)
    return field.as_widget(attrs=extra)


# --- parts


@register.simple_tag
def gap() -> str:
    """{% gap %}: what stands between two sentences: a space; nothing in Chinese."""
    return "" if (get_language() or "").startswith("zh") else " "


@register.simple_tag
def icon(name: str, css: str = "size-4") -> SafeString:
    """The tag behind <c-icon>."""
    return draw(name, css or "size-4")


@register.simple_tag
def new_once() -> str:
    """What the hidden field ``once`` of a form that acts carries (rental/web/once.py)."""
    return once.new_key()


@register.simple_tag
def signup_is_open() -> bool:
    """{% signup_is_open as is_open %}: may anybody open a tenant by himself?"""
    return bool(getattr(settings, "SIGNUP_ENABLED", False))


@register.simple_tag(takes_context=True)
def console_frame(context: dict[str, Any]) -> Frame | None:
    """What stands around a page of a tenant; None where no tenant is in force."""
    visit = context.get("visit")
    return frame_of(visit, context.get("balance")) if visit is not None else None
