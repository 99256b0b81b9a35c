"""The tabs of billing, and the words of the ledger."""

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rental.web.visit import Visit

TABS: Final = (
    ("balance", _("Balance"), ""),
    ("transfers", _("Ledger"), "/transfers"),
    ("charges", _("Charges"), "/charges"),
)

# What a movement of the ledger was, by its code.
MOVEMENTS: Final[dict[str, Promise]] = {
    "credit": _("Credit"),
    "usage": _("Usage"),
    "usage_arrears": _("Usage that the balance did not cover"),
    "arrears_paid": _("Payment of what was owed"),
    "reversal": _("Given back"),
}


@dataclass(frozen=True)
class Tab:
    name: str
    label: str | Promise
    url: str


def tabs_of(visit: Visit) -> list[Tab]:
    return [Tab(name, label, f"{visit.home}billing{path}") for name, label, path in TABS]


def movement_words(code: str) -> str:
    return str(MOVEMENTS.get(code, code))
