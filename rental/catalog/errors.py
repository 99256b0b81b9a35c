"""The failures that the catalogue expects. Data for the edge to word; amounts in micro-units."""

import uuid
from datetime import datetime


class CatalogError(Exception):
    """Base of the failures that the catalogue expects. Anything else is a bug."""


class UnknownOffer(CatalogError):
    """Nothing is on sale under this code."""

    def __init__(self, code: str) -> None:
        super().__init__(f"nothing is on sale under {code!r}")
        self.code = code


class UnknownImage(CatalogError):
    """No image is offered under this code."""

    def __init__(self, code: str) -> None:
        super().__init__(f"no image is offered under {code!r}")
        self.code = code


class MarketNotOffered(CatalogError):
    """The offer is not sold on this market."""

    def __init__(self, offer: str, market: str, markets: list[str]) -> None:
        super().__init__(f"{offer} is not sold on {market!r}; it is on {', '.join(markets)}")
        self.offer, self.market, self.markets = offer, market, markets


class ImageDoesNotFit(CatalogError):
    """The image cannot run on the offer's GPU. Capabilities are times ten (80 = 8.0)."""

    def __init__(self, image: str, offer: str, needs: str, has: str) -> None:
        super().__init__(f"image {image} needs {needs}; {offer} has {has}")
        self.image, self.offer, self.needs, self.has = image, offer, needs, has


class OfferHasNoPrice(CatalogError):
    """The offer has no price on this market now, so it cannot be ordered."""

    def __init__(self, price_key: str) -> None:
        super().__init__(f"there is no price for {price_key} now")
        self.price_key = price_key


class BadCount(CatalogError):
    """An order is for 1 to 20 instances."""

    def __init__(self, count: int, most: int) -> None:
        super().__init__(f"an order is for 1 to {most} instances, not {count}")
        self.count, self.most = count, most


class UnknownQuote(CatalogError):
    """The tenant has no such quote."""

    def __init__(self, quote_id: uuid.UUID) -> None:
        super().__init__("there is no such quote")
        self.quote_id = quote_id


class QuoteExpired(CatalogError):
    """The quote was good for ten minutes; ask for a new one."""

    def __init__(self, quote_id: uuid.UUID, expired_at: datetime) -> None:
        super().__init__(f"the quote expired at {expired_at:%Y-%m-%dT%H:%M:%SZ}")
        self.quote_id, self.expired_at = quote_id, expired_at


class QuoteMismatch(CatalogError):
    """The order is not what was quoted."""

    def __init__(self, quote_id: uuid.UUID, field: str, quoted: str, ordered: str) -> None:
        super().__init__(f"the quote is for {field} {quoted}, the order for {ordered}")
        self.quote_id, self.field = quote_id, field
        self.quoted, self.ordered = quoted, ordered


class PriceAboveLimit(CatalogError):
    """The price is above what the customer is willing to pay (all instances, per hour)."""

    def __init__(self, price: int, limit: int) -> None:
        super().__init__(f"the order costs {price} micro-units an hour, above the limit {limit}")
        self.price, self.limit = price, limit
