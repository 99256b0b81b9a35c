"""What the price page is asked: filters, all in its address. What is none is ignored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from billing.core.money import parse_micro
from rental.catalog.queries import Card, OnSale
from rental.web.isolation import BY_NAME

MOST_GIB = 1024


@dataclass(frozen=True, kw_only=True)
class PriceFilters:
    """
    ``memory_gib``: GPU memory that comes with the offer, at least. ``most``: micro-units an hour,
    at most; ``most_text`` as it was typed.
    """

    model: str = ""
    isolation: str = ""
    region: str = ""
    memory_gib: int | None = None
    most: int | None = None
    most_text: str = ""
    only_free: bool = False

    @property
    def is_set(self) -> bool:
        return self != PriceFilters()

    def lets_through(self, card: Card, one: OnSale) -> bool:
        offer = one.offer
        return all(
            (
                not self.model or card.slug == self.model,
                not self.isolation or offer.isolation == self.isolation,
                not self.region or offer.region == self.region,
                self.memory_gib is None or offer.vram_mib >= self.memory_gib * 1024,
                self.most is None or one.rate.price <= self.most,
                not self.only_free or one.stock.available > 0,
            )
        )

    def cut(self, cards: Sequence[Card]) -> list[Card]:
        """Return the cards with the offers that pass, without cards that have none left."""
        cut = []
        for card in cards:
            if sold := tuple(one for one in card.sold if self.lets_through(card, one)):
                cut.append(replace(card, sold=sold))
        return cut


def read_filters(query: Mapping[str, str]) -> PriceFilters:
    memory = query.get("memory", "")
    most = query.get("most", "").strip()[:20]
    return PriceFilters(
        model=query.get("model", "")[:80],
        isolation=query.get("isolation", "") if query.get("isolation", "") in BY_NAME else "",
        region=query.get("region", "")[:40],
        memory_gib=int(memory) if memory.isdecimal() and 0 < int(memory[:5]) <= MOST_GIB else None,
        most=_amount(most),
        most_text=most,
        only_free=query.get("free") == "1",
    )


def _amount(text: str) -> int | None:
    try:
        amount = parse_micro(text)
    except ValueError:
        return None
    return amount if amount >= 0 else None
