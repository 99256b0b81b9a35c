"""How a slice is kept apart from others, in words: what each level promises, and its limits."""

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rental.catalog.models import Isolation


@dataclass(frozen=True, kw_only=True)
class Level:
    """``short``: beside a choice. ``promise``, ``limits``: what is kept, and what is not."""

    name: Isolation
    label: str | Promise
    icon: str
    short: str | Promise
    promise: str | Promise
    limits: str | Promise


# From the best kept apart to the least. DESIGN §7: only what is enforced is promised.
LEVELS: Final = (
    Level(
        name=Isolation.WHOLE,
        label=_("Whole cards"),
        icon="lock",
        short=_("The card is yours alone."),
        promise=_(
            "All memory and all compute of the card are yours. Nobody else runs anything on it,"
            " and it is wiped before it is sold again."
        ),
        limits=_(
            "Other customers may use other cards of the same server. CPU, RAM and disk end at"
            " what comes with the offer."
        ),
    ),
    Level(
        name=Isolation.HARDWARE,
        label=_("Hardware partition (MIG)"),
        icon="shield-check",
        short=_("A part of the card that the hardware itself separates."),
        promise=_(
            "The GPU divides its memory and its compute units itself. Neighbors can neither read"
            " your part nor slow it down, and their faults stay with them."
        ),
        limits=_(
            "Power and cooling of the card are shared. A reset of the whole card ends all parts."
        ),
    ),
    Level(
        name=Isolation.TENANT,
        label=_("Share, your tenant only"),
        icon="layers",
        short=_("Only instances of your own tenant share the card."),
        promise=_(
            "Your tenths of the memory and of the compute units, limited by CUDA MPS. As long as"
            " you have a share of the card, nobody else gets one."
        ),
        limits=_(
            "Not separated by hardware: a fault in one of your instances can end the others on"
            " the card. One that takes more memory than its share loses its youngest process."
        ),
    ),
    Level(
        name=Isolation.SHARED,
        label=_("Share beside strangers"),
        icon="users",
        short=_("Other customers may be on the same card."),
        promise=_(
            "Your tenths of the memory and of the compute units, limited by CUDA MPS, in equal"
            " tiles for everybody on the card."
        ),
        limits=_(
            "Not separated by hardware: a fault in somebody else's program can end yours. Not for"
            " secret data, and not for work that must not be interrupted."
        ),
    ),
)
BY_NAME: Final = {level.name.value: level for level in LEVELS}
