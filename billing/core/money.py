"""Money: whole micro-units (1e-6 of the currency). Pure; the one place that rounds."""

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import floor

MICRO = 1_000_000
_HALF = Fraction(1, 2)
_LARGEST = 2**63 - 1  # what a bigint column holds


def round_half_up(exact: Fraction | int) -> int:
    """Return the nearest whole number; halves go up. Amounts here are never negative."""
    return floor(exact + _HALF)


def format_micro(amount: int, *, places: int = 6) -> str:
    """Return ``amount`` micro-units as a decimal string: 4900000 -> "4.900000"."""
    sign = "-" if amount < 0 else ""
    scaled = round_half_up(Fraction(abs(amount) * 10**places, MICRO))
    whole, part = divmod(scaled, 10**places)
    return f"{sign}{whole}.{part:0{places}d}" if places else f"{sign}{whole}"


def parse_micro(text: str) -> int:
    """
    Return micro-units for a decimal string: "4.9" -> 4900000. Nothing is rounded.

    :raises ValueError: if it is no plain decimal, has more than 6 digits, or does not fit
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"not an amount: {text[:40]!r}") from None
    if not number.is_finite():
        raise ValueError(f"not an amount: {text[:40]!r}")
    exact = Fraction(number) * MICRO
    if exact.denominator != 1:
        raise ValueError(f"more than six decimal places: {text[:40]!r}")
    if abs(exact) > _LARGEST:
        raise ValueError(f"too large an amount: {text[:40]!r}")
    return int(exact)
