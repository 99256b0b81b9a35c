"""Why an order is refused, in the words of the launch page and beside the field at fault."""

from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from billing.errors import InsufficientBalance, TenantInArrears
from rental.catalog import errors as catalog
from rental.instances import errors as instances
from rental.records.idempotency import IdempotencyKeyReused
from rental.refusals import Refusal, refusal_of
from rental.tenants.errors import MalformedSshKey
from rental.web.amounts import money
from rental.web.key_words import why_not

# The order's names of fields, where the form calls them otherwise.
FIELDS: Final = {
    "market": "offer",
    "project_id": "project",
    "ssh_key_ids": "ssh_keys",
    "public_key": "new_key",
    "auto_stop_at": "stop_at",
    "max_duration_s": "stop_after",
}
# What is at fault is the price that was shown: the answer brings a new one.
OF_THE_PRICE: Final = (catalog.QuoteExpired, catalog.QuoteMismatch, catalog.UnknownQuote)

ORDERS: Final[dict[str, Promise]] = {
    "name": _("A name has 1 to 64 printable characters."),
    "command": _("This command is too long for an instance."),
    "env": _(
        "A variable is called by letters, digits and underscores, and not LD_, NVIDIA_ or"
        " CUDA_MPS_, which the node sets itself."
    ),
    "auto_stop_at": _("This lies in the past, or more than a year ahead."),
    "max_duration_s": _("From one minute to a year."),
}


def _misfit(error: Any) -> str:
    if error.needs[0].isdigit():
        words = gettext(
            "This image needs a GPU of compute capability %(needs)s; this card has %(has)s."
            " Choose another image or another card."
        )
    else:
        words = gettext(
            "This image is for GPUs of %(needs)s; this card is of %(has)s. Choose another image."
        )
    return words % {"needs": error.needs, "has": error.has}


def _poor(error: Any) -> str:
    return gettext(
        "Launching this needs %(needed)s free of holds, and %(left)s are. Top up, or choose fewer"
        " or smaller ones."
    ) % {"needed": _money(error.needed), "left": _money(error.available)}


WORDS: Final[dict[type[Exception], Callable[[Any], str]]] = {
    catalog.UnknownOffer: lambda _e: gettext("This is not on sale any more. Choose another."),
    catalog.MarketNotOffered: lambda _e: gettext("This is not sold on demand. Choose another."),
    catalog.OfferHasNoPrice: lambda _e: gettext("This has no price at the moment. Choose another."),
    catalog.UnknownImage: lambda _e: gettext("This image is not offered any more. Choose another."),
    catalog.ImageDoesNotFit: _misfit,
    catalog.BadCount: lambda e: gettext("From 1 to %(most)s at a time.") % {"most": e.most},
    InsufficientBalance: _poor,
    TenantInArrears: lambda e: (
        gettext("%(owed)s are unpaid. Nothing new starts before they are paid.")
        % {"owed": _money(e.amount)}
    ),
    instances.BadOrder: lambda e: str(ORDERS.get(e.field, e.detail)),
    instances.UnknownProject: lambda _e: gettext("This project is gone. Choose another."),
    instances.UnknownSshKey: lambda _e: gettext("One of these keys was removed. Choose again."),
    instances.UnknownSecret: lambda e: (
        gettext("There is no secret %(name)s any more.") % {"name": e.name}
    ),
    instances.SecretsNotSetUp: lambda _e: gettext(
        "Passwords cannot be kept here: the operator has set no SECRETS_KEY. Use an SSH key."
    ),
    IdempotencyKeyReused: lambda _e: gettext(
        "You have launched with this form already. Press Launch again if you want more."
    ),
    MalformedSshKey: why_not,
}


def order_refusal(error: Exception) -> Refusal | None:
    """Return the refusal in words, with the form's name of the field; None for a bug."""
    known = refusal_of(error)
    if known is None:
        return None
    words = known.words
    for kind in type(error).__mro__:
        if kind in WORDS:
            words = WORDS[kind](error)
            break
    if isinstance(error, OF_THE_PRICE):
        words = gettext(
            "The price that was shown is not valid any more, so nothing was ordered. This is the"
            " price now: look at it and launch again."
        )
    field = "password_login" if isinstance(error, instances.SecretsNotSetUp) else known.field
    return Refusal(known.status, known.code, words, FIELDS.get(field or "", field))


def _money(micro: int) -> str:
    return money(micro, settings.BILLING_CURRENCY)
