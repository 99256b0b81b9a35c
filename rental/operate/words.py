"""Amounts, hours and reasons as the operator reads them."""

from fractions import Fraction
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from billing.core.money import MICRO, format_micro, round_half_up

# Tenths of a card, tick by tick: the unit in which card-hours are counted without rounding.
TENTH_TICKS_PER_CARD_HOUR: Final = 6000  # 600 ticks x 10 tenths

REASONS: Final[dict[str, Any]] = {
    "releasing": _("its last place is not given back yet"),
    "residence": _("its disk is on another node"),
    "region": _("in another region"),
    "zone": _("in another zone"),
    "cordoned": _("cordoned"),
    "silent": _("not heard from"),
    "model": _("without this GPU model"),
    "health": _("with this GPU model unhealthy"),
    "mig": _("cannot be cut by MIG yet"),
    "isolation": _("where strangers may not share a card"),
    "gpu": _("with no room on a GPU"),
    "vram": _("with too little GPU memory left"),
    "cpu": _("with too little CPU left"),
    "ram": _("with too little RAM left"),
    "disk": _("with too little disk left"),
}


def reasons_in_words(reasons: dict[str, int]) -> list[tuple[int, Any]]:
    """Return (nodes, words) of each dimension that refused a request, the most frequent first."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return [(nodes, REASONS.get(dimension, dimension)) for dimension, nodes in ordered]


def money(amount: int) -> str:
    """Return micro-units with two decimal places, and with six where two would hide a part."""
    places = 2 if amount % (MICRO // 100) == 0 else 6
    whole, _dot, part = format_micro(amount, places=places).partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{int(digits):,}.{part}"


def card_hours(tenth_ticks: int | Fraction) -> str:
    """Return tenth-ticks as hours of whole cards with one decimal place."""
    tenths = round_half_up(Fraction(tenth_ticks) * 10 / TENTH_TICKS_PER_CARD_HOUR)
    return f"{tenths // 10:,}.{tenths % 10}"


def percent(part: Fraction | int, whole: Fraction | int) -> str:
    """Return a part of a whole as "42 %", or a dash of nothing."""
    return f"{round_half_up(Fraction(part) * 100 / Fraction(whole))} %" if whole else "–"
