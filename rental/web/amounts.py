"""How people read amounts, sizes and spans. Pure but for the language in force."""

from typing import Final

from django.utils.translation import gettext, ngettext

from billing.core.money import format_micro

SYMBOLS: Final = {"CNY": "¥", "USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "HKD": "HK$"}
MINUS: Final = "\N{MINUS SIGN}"
_MICRO = 1_000_000
_CENT = 10_000


def money(micro: int, currency: str) -> str:
    """
    Return an amount with two digits, rounded half up; one that would read as nothing although it
    is something shows all it has: 12345678 -> ¥12.35, 4900 -> ¥0.0049, 1 -> ¥0.000001.
    """
    if micro and abs(micro) < _CENT // 2:
        return money_exact(micro, currency)
    return _with_symbol(micro, format_micro(abs(micro), places=2), currency)


def money_exact(micro: int, currency: str) -> str:
    """Return every digit that is not a trailing zero, at least two: 1250000 -> ¥1.25."""
    whole, part = format_micro(abs(micro)).split(".")
    return _with_symbol(micro, f"{whole}.{part.rstrip('0').ljust(2, '0')}", currency)


def _with_symbol(micro: int, text: str, currency: str) -> str:
    whole, part = text.split(".")
    symbol = SYMBOLS.get(currency, f"{currency} ")
    return f"{MINUS if micro < 0 else ''}{symbol}{int(whole):,}.{part}"


def rate(micro: int, currency: str) -> str:
    """Return micro-units an hour, exact: 5000000 -> ¥5.00/h."""
    return gettext("%(amount)s/h") % {"amount": money_exact(micro, currency)}


def gib(mib: int) -> str:
    """Return MiB as GiB, with a digit after the point where there is something: 1536 -> 1.5 GiB."""
    whole, rest = divmod(mib, 1024)
    if not rest:
        return f"{whole:,} GiB"
    if mib < 1024:
        return f"{mib} MiB"
    return f"{mib / 1024:,.1f}".removesuffix(".0") + " GiB"


def duration(seconds: int) -> str:
    """Return the two largest units: 45 -> 45 s, 3900 -> 1 h 5 min, 90000 -> 1 d 1 h."""
    seconds = max(0, int(seconds))
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        if not hours:
            return gettext("%(days)s d") % {"days": days}
        return gettext("%(days)s d %(hours)s h") % {"days": days, "hours": hours}
    if hours:
        if not minutes:
            return gettext("%(hours)s h") % {"hours": hours}
        return gettext("%(hours)s h %(minutes)s min") % {"hours": hours, "minutes": minutes}
    if minutes:
        if not rest:
            return gettext("%(minutes)s min") % {"minutes": minutes}
        return gettext("%(minutes)s min %(seconds)s s") % {"minutes": minutes, "seconds": rest}
    return gettext("%(seconds)s s") % {"seconds": rest}


def distance(seconds: int) -> str:
    """
    Return how far a moment is: 180 -> in 3 minutes, -3600 -> 1 hour ago. One unit, cut, as the
    browser does it later (static/js/src/times.js).
    """
    span = abs(int(seconds))
    if span == 0:
        return gettext("now")
    if span < 60:
        return _count(seconds, span, "second")
    if span < 3600:
        return _count(seconds, span // 60, "minute")
    if span < 86400:
        return _count(seconds, span // 3600, "hour")
    if span < 2_592_000:
        return _count(seconds, span // 86400, "day")
    if span < 31_536_000:
        return _count(seconds, span // 2_592_000, "month")
    return _count(seconds, span // 31_536_000, "year")


def _count(seconds: int, n: int, unit: str) -> str:
    forms = _FUTURE if seconds > 0 else _PAST
    return forms[unit](n) % {"n": n}


_PAST = {
    "second": lambda n: ngettext("%(n)s second ago", "%(n)s seconds ago", n),
    "minute": lambda n: ngettext("%(n)s minute ago", "%(n)s minutes ago", n),
    "hour": lambda n: ngettext("%(n)s hour ago", "%(n)s hours ago", n),
    "day": lambda n: ngettext("%(n)s day ago", "%(n)s days ago", n),
    "month": lambda n: ngettext("%(n)s month ago", "%(n)s months ago", n),
    "year": lambda n: ngettext("%(n)s year ago", "%(n)s years ago", n),
}
_FUTURE = {
    "second": lambda n: ngettext("in %(n)s second", "in %(n)s seconds", n),
    "minute": lambda n: ngettext("in %(n)s minute", "in %(n)s minutes", n),
    "hour": lambda n: ngettext("in %(n)s hour", "in %(n)s hours", n),
    "day": lambda n: ngettext("in %(n)s day", "in %(n)s days", n),
    "month": lambda n: ngettext("in %(n)s month", "in %(n)s months", n),
    "year": lambda n: ngettext("in %(n)s year", "in %(n)s years", n),
}
