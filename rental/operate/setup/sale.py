"""What is on sale: prices, an offer for every card, images."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from billing.models import PriceVersion
from rental.catalog.models import Image, Offer
from rental.operate.setup.steps import State, Step, when
from rental.operate.words import sentences
from scheduler.models import Gpu, GpuHealth


def check_sale(*, now: datetime) -> Iterator[Step]:
    offers = Offer.objects.filter(active=True)
    standing = PriceVersion.objects.filter(during__contains=now).values_list("price_key", flat=True)
    priced = {key.split("/")[2] for key in standing if key.startswith("compute/")}
    codes = set(offers.values_list("code", flat=True))
    made_up = offers.filter(is_demo_price=True).count()
    yield Step(
        key="prices",
        title=_("A price list is published"),
        state=State.NEEDED if not codes & priced else when(not made_up, State.ADVISED),
        says=_prices_in_words(len(codes), len(codes & priced), made_up),
        why=_(
            "Customers see these prices without signing in, and pay them. A rise "
            "is announced 24 hours ahead."
        ),
        url=reverse("operate:prices"),
        label=_("Prices"),
        command="" if codes else "manage.py seed_catalog",
    )
    yield _offers_for_cards()
    images = Image.objects.filter(active=True).count()
    yield Step(
        key="image",
        title=_("Images are offered"),
        state=when(images),
        says=ngettext("%(n)s image is offered.", "%(n)s images are offered.", images)
        % {"n": images},
        why=_("An instance starts from an image: Ubuntu, CUDA, a framework."),
        url=reverse("admin:rental_image_changelist"),
        label=_("Images"),
        command="" if images else "manage.py seed_catalog",
    )


def _prices_in_words(offers: int, priced: int, made_up: int) -> str:
    text = gettext("%(priced)s of %(offers)s offers have a price.") % {
        "priced": priced,
        "offers": offers,
    }
    words = gettext("%(n)s prices are made up for the demo: set your own.") % {"n": made_up}
    return sentences(text, words if made_up else "")


def _offers_for_cards() -> Step:
    """Cards that a node has reported and that no offer sells earn nothing, and nobody notices."""
    sold = Offer.objects.filter(
        active=True,
        gpu_model_name=OuterRef("model__name"),
        gpu_memory_mib=OuterRef("model__memory_mib"),
    )
    idle = sorted(
        {
            f"{name} {memory // 1024} GiB"
            for name, memory in Gpu.objects.exclude(health=GpuHealth.MISSING)
            .filter(~Exists(sold))
            .values_list("model__name", "model__memory_mib")
            .distinct()
        }
    )
    return Step(
        key="offers",
        title=_("Every GPU model has an offer"),
        state=when(not idle, State.ADVISED),
        says=gettext("Reported, and sold by no offer: %(models)s.") % {"models": ", ".join(idle)}
        if idle
        else _("Every reported model is on sale."),
        why=_("A card that no offer names is never placed on."),
        url=reverse("admin:rental_offer_changelist"),
        label=_("Offers"),
    )
