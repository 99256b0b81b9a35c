"""Rating: from proven ticks to micro-units. Pure; the caller does all reading and writing."""

from fractions import Fraction

from billing.core.money import round_half_up

TICKS_PER_HOUR = 600  # a tick is 6 s


def price_of_ticks(n: int, *, price: int, share: Fraction) -> int:
    """
    Return what the first ``n`` ticks of a segment under one price version cost, in micro-units.

        F(n) = round_half_up(n [ticks] x price [micro-units/h] x share / 600)

    Rounds the running total, never a tick: see ``price_between``.

    :raises ValueError: if ``n`` is negative
    Source: docs/pricing.md, docs/adr/0002-money-ticks-stretches.md
    """
    if n < 0:
        raise ValueError(f"a segment has no tick {n}")
    return round_half_up(n * price * share / TICKS_PER_HOUR)


def price_between(first: int, last: int, *, price: int, share: Fraction) -> int:
    """
    Return the price of the ticks counted from ``first`` up to ``last``. However a segment is cut,
    its pieces add up to the same total, to the last micro-unit.
    """
    return price_of_ticks(last, price=price, share=share) - price_of_ticks(
        first, price=price, share=share
    )


def burn_per_hour(*, price: int, share: Fraction) -> int:
    """Return what an hour costs, micro-units."""
    return round_half_up(price * share)
