"""How the contract writes money and time, and which text it can keep. Pure."""

import re
from datetime import UTC, datetime

# PostgreSQL text holds no NUL, and UTF-8 holds no half of a surrogate pair.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def money_text(micro: int) -> str:
    """
    Return an amount of micro-units as a decimal string.

    Exact, with at least two and at most six decimals: 1250000 -> "1.25", 1 -> "0.000001".
    """
    sign, micro = ("-", -micro) if micro < 0 else ("", micro)
    whole, part = divmod(micro, 1_000_000)
    decimals = f"{part:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"


def instant_text(moment: datetime) -> str:
    """Return RFC 3339 in UTC, always with six decimals so that texts sort as times do."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
