"""What the templates of the operator's pages write numbers with."""

from fractions import Fraction

from django import template

from rental.operate import words
from rental.records.ids import to_text

register = template.Library()


@register.filter
def micro(amount: int | None) -> str:
    """Micro-units as an amount; a dash where there is none."""
    return "–" if amount is None else words.money(amount)


@register.filter
def hours(tenth_ticks: Fraction) -> str:
    return words.card_hours(tenth_ticks)


@register.filter
def tenths(cells: int) -> str:
    """Tenths of cards as cards."""
    return f"{cells // 10}.{cells % 10}"


@register.filter
def percent_of(part: Fraction | int, whole: Fraction | int) -> str:
    return words.percent(part, whole)


@register.filter
def ins(instance_id: object) -> str:
    return to_text("ins", instance_id)  # type: ignore[arg-type]
