"""How prices (micro-units an hour) and figures of cards are said: ``{% load prices %}``."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from django import template
from django.utils.translation import gettext

from billing.core.rating import price_of_ticks
from rental.web.estimates import HOURS_PER_MONTH
from rental.web.isolation import BY_NAME

register = template.Library()
NOTHING = "\N{EN DASH}"


@register.filter
def per_tick(price: int) -> int:
    """What the first tick costs, micro-units."""
    return price_of_ticks(1, price=price, share=Fraction(1))


@register.filter
def per_month(price: int) -> int:
    """What 30 days without a break cost, micro-units."""
    return price * HOURS_PER_MONTH


@register.filter
def tflops(figure: Decimal | None) -> str:
    """312 TFLOPS, 9.7 TFLOPS"""
    if figure is None:
        return NOTHING
    return f"{figure.normalize():f} TFLOPS"


@register.filter
def bandwidth(gbs: int | None) -> str:
    """2,039 GB/s"""
    return NOTHING if gbs is None else f"{gbs:,} GB/s"


@register.filter
def cores(milli: int) -> str:
    """16 vCPU, 1.6 vCPU: what 16000 and 1600 thousandths are worth."""
    whole, part = divmod(milli, 1000)
    number = f"{whole}.{part:03}".rstrip("0") if part else f"{whole}"
    return gettext("%(n)s vCPU") % {"n": number}


@register.filter
def level_label(name: str) -> str:
    """The name of an isolation level, in the reader's language."""
    return str(BY_NAME[name].label)


@register.filter
def named(code: str, names: Mapping[str, str]) -> str:
    """What stands for ``code`` in a table of names."""
    return names.get(code, code)
