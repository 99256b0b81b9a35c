"""Amounts, hours, moments and reasons as the operator reads them."""

from datetime import datetime
from fractions import Fraction
from typing import Any, Final

from django.utils import formats, timezone
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from billing.core.money import MICRO, format_micro, round_half_up

# Tenths of a card, tick by tick: the unit in which card-hours are counted without rounding.
TENTH_TICKS_PER_CARD_HOUR: Final = 6000  # 600 ticks x 10 tenths

REASONS: Final[dict[str, Any]] = {
    "releasing": _("the last place is not given back yet"),
    "residence": _("the disk is elsewhere"),
    "region": _("another region"),
    "zone": _("another zone"),
    "cordoned": _("cordoned"),
    "silent": _("not heard from"),
    "cleaning": _("back after a loss, not cleaned yet"),
    "model": _("no such GPU model"),
    "health": _("such GPUs are unhealthy"),
    "mig": _("no card there can be cut so"),
    "isolation": _("strangers may not share a card there"),
    "held": _("kept for a larger request that has waited longer"),
    "gpu": _("no room on a GPU"),
    "vram": _("too little GPU memory left"),
    "cpu": _("too little CPU left"),
    "ram": _("too little RAM left"),
    "disk": _("too little disk left"),
    "apart": _("has one already from which it is kept apart"),
}
# What is counted in members of a group, not in nodes.
OF_GANGS: Final[dict[str, Any]] = {
    "gang": _("%(n)d of its group would find a place"),
    "incomplete": _("%(n)d of its group not there yet"),
}


def reasons_in_words(reasons: dict[str, int]) -> list[tuple[int, Any]]:
    """
    Return (nodes, words) of each dimension that refused a request, the most frequent first; what
    is not counted in nodes comes last, with 0 of them.
    """
    members = [(0, words % {"n": reasons[k]}) for k, words in OF_GANGS.items() if k in reasons]
    reasons = {k: nodes for k, nodes in reasons.items() if k not in OF_GANGS}
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return [(nodes, REASONS.get(dimension, dimension)) for dimension, nodes in ordered] + members


def money(amount: int) -> str:
    """Return micro-units with two decimal places; with more where two would show nothing."""
    if 0 < abs(amount) < MICRO // 100:
        return exact_money(amount)
    return _grouped(format_micro(amount, places=2))


def exact_money(amount: int) -> str:
    """Return micro-units with every decimal place that says something, two at least."""
    whole, _dot, part = format_micro(amount).partition(".")
    return _grouped(f"{whole}.{part.rstrip('0').ljust(2, '0')}")


def _grouped(text: str) -> str:
    whole, _dot, part = text.partition(".")
    sign = "-" if whole.startswith("-") else ""
    return f"{sign}{int(whole.removeprefix('-')):,}.{part}"


def card_hours(tenth_ticks: int | Fraction) -> str:
    """Return tenth-ticks as hours of whole cards with one decimal place."""
    tenths = round_half_up(Fraction(tenth_ticks) * 10 / TENTH_TICKS_PER_CARD_HOUR)
    return f"{tenths // 10:,}.{tenths % 10}"


def percent(part: Fraction | int, whole: Fraction | int) -> str:
    """Return a part of a whole as "42 %", or a dash of nothing."""
    return f"{round_half_up(Fraction(part) * 100 / Fraction(whole))} %" if whole else "–"


def moment(at: datetime) -> str:
    """Return an instant as the admin writes it, in the zone of the deployment."""
    return formats.date_format(timezone.localtime(at), "Y-m-d H:i")


def sentences(*texts: Any) -> str:
    """Return texts as one; between sentences of Chinese there is no space."""
    return gap().join(str(text) for text in texts if text)


def gap() -> str:
    return "" if (get_language() or "").startswith("zh") else " "
