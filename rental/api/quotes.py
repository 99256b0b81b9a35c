"""Quotes: a price shown, and kept for ten minutes."""

import uuid
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem
from rental.api.fields import Input, Instant, Money, Output, Prefixed, Text, Whole
from rental.catalog.models import Market, Quote
from rental.catalog.services import MOST_INSTANCES, make_quote


class QuoteInput(Input):
    offer = Text(max_length=60)
    market = serializers.ChoiceField(choices=Market.values, default=Market.ON_DEMAND.value)
    image = Text(max_length=80, required=False, allow_null=True, default=None)
    count = Whole(min_value=1, max_value=MOST_INSTANCES, default=1)


class QuoteLineOutput(Output):
    """One component. An amount of null is metered, has no price yet and costs nothing now."""

    component = serializers.CharField()
    description = serializers.CharField()
    unit = serializers.CharField()
    quantity = serializers.IntegerField(allow_null=True)
    unit_price = Money(allow_null=True)
    amount = Money(allow_null=True)


class QuoteOutput(Output):
    """What an order would cost for an hour; ``id`` is accepted by create until it expires."""

    id = Prefixed("quo")
    offer = serializers.CharField(source="offer_id")
    image = serializers.CharField(source="image_id", allow_null=True)
    market = serializers.CharField()
    count = serializers.IntegerField()
    lines = QuoteLineOutput(many=True)
    price_per_hour = Money(source="price", help_text="Of one instance.")
    total_per_hour = Money()
    currency = serializers.CharField()
    balance_lasts_seconds = serializers.IntegerField(
        source="balance_lasts_s",
        allow_null=True,
        help_text="How long the balance lasts with this order; null if nothing is spent.",
    )
    created_at = Instant()
    expires_at = Instant()


class QuoteCreate(TenantView):
    @operation(
        Contract(
            name="create_quote",
            summary="Ask what an order would cost",
            verb="instances:write",
            output=QuoteOutput,
            status=201,
            body=QuoteInput,
            once=True,
            errors=(404, 409),
        )
    )
    def post(self, asked: dict[str, Any]) -> Quote:
        return make_quote(
            tenant_id=self.tenant_id,
            offer_code=asked["offer"],
            market=asked["market"],
            image_code=asked["image"],
            count=asked["count"],
            now=self.now,
        )


class QuoteDetail(TenantView):
    @operation(
        Contract(
            name="get_quote",
            summary="Get a quote",
            verb="instances:read",
            output=QuoteOutput,
        )
    )
    def get(self, quote_id: uuid.UUID) -> Quote:
        quote = Quote.objects.of(self.tenant_id).filter(pk=quote_id).first()
        if quote is None:
            raise Problem(404, "not_found")
        return quote
