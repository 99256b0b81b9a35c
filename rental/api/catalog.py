"""What is on sale: offers, images, GPU models, regions."""

import uuid
from datetime import datetime
from typing import Any

from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.fields import Money, Output, PageQuery, Text
from rental.catalog.models import Image, Market, Offer
from rental.catalog.queries import rates_of, stocks_of
from rental.records.paging import Page
from scheduler.models import GpuModel, Region


class OfferPriceOutput(Output):
    """The price of the offer as sold, now."""

    market = serializers.CharField()
    unit = serializers.CharField()
    price = Money()
    currency = serializers.CharField()


class OfferOutput(Output):
    """Something on sale. Memory and disk in MiB, CPU in thousandths of a core."""

    code = serializers.CharField()
    name = serializers.CharField()
    region = serializers.CharField()
    gpu_model = serializers.CharField(source="gpu_model_name")
    gpu_memory_mib = serializers.IntegerField()
    slice = serializers.CharField(help_text="whole, mig or share")
    isolation = serializers.CharField(help_text="whole, hardware, tenant or shared")
    count = serializers.IntegerField(help_text="Cards.")
    tenths = serializers.IntegerField(help_text="Tenths of a card; 10 is a whole card.")
    mig_profile = serializers.CharField()
    vram_mib = serializers.IntegerField()
    cpu_milli = serializers.IntegerField()
    ram_mib = serializers.IntegerField()
    disk_mib = serializers.IntegerField()
    markets = serializers.ListField(child=serializers.CharField())
    prices = OfferPriceOutput(many=True)
    stock = serializers.CharField(
        help_text="ok, low, none (all are taken: a request waits) or absent (no card here ever)"
    )
    available = serializers.IntegerField(
        help_text="How many could be placed now; counting stops at 10."
    )
    waiting = serializers.IntegerField(help_text="Requests for the same that wait for a place.")


class OfferQuery(PageQuery):
    region = Text(required=False, max_length=40)
    gpu_model = Text(required=False, max_length=60)
    slice = Text(required=False, max_length=8)
    market = serializers.ChoiceField(choices=Market.values, required=False)


class ImageOutput(Output):
    """What runs inside an instance."""

    code = serializers.CharField()
    name = serializers.CharField()
    vendor = serializers.CharField()
    cuda = serializers.CharField()
    frameworks = serializers.DictField(child=serializers.CharField())
    min_capability = serializers.IntegerField(help_text="CUDA compute capability times ten.")


class GpuModelOutput(Output):
    """A GPU model, known by name and memory. Unknown figures are null."""

    name = serializers.CharField()
    memory_mib = serializers.IntegerField()
    vendor = serializers.CharField()
    fp16_tflops = serializers.FloatField(allow_null=True)
    fp64_tflops = serializers.FloatField(allow_null=True)
    bandwidth_gbs = serializers.IntegerField(allow_null=True, help_text="GB/s")
    power_watts = serializers.IntegerField(allow_null=True)
    compute_capability = serializers.CharField()
    active = serializers.BooleanField(help_text="A node has reported one.")


class RegionOutput(Output):
    code = serializers.CharField()
    name = serializers.CharField()
    zones = serializers.SerializerMethodField()

    def get_zones(self, region: Region) -> list[str]:
        return sorted(zone.code for zone in region.zones.all())


def with_prices_and_stock(offers: list[Offer], *, tenant_id: uuid.UUID, now: datetime) -> None:
    """Put the prices that are valid at ``now``, and the stock, on each offer."""
    rates = rates_of(offers, now=now)
    stocks = stocks_of(offers, tenant_id=tenant_id, now=now)
    for offer in offers:
        stock = stocks[offer.code]
        offer.__dict__.update(
            prices=rates.get(offer.code, []),
            stock=stock.word,
            available=stock.available,
            waiting=stock.waiting,
        )


class OfferList(TenantView):
    @operation(
        Contract(
            name="list_offers",
            summary="List what is on sale, with prices and stock",
            verb="catalog:read",
            output=OfferOutput,
            shape="page",
            query=OfferQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Offer]:
        offers = Offer.objects.filter(active=True)
        for name, column in (
            ("region", "region"),
            ("gpu_model", "gpu_model_name"),
            ("slice", "slice"),
        ):
            if name in query:
                offers = offers.filter(**{column: query[name]})
        if "market" in query:
            offers = offers.filter(markets__contains=[query["market"]])
        page = self.page(offers, query, key=("code",), descending=False)
        with_prices_and_stock(page.rows, tenant_id=self.tenant_id, now=self.now)
        return page


class ImageList(TenantView):
    @operation(
        Contract(
            name="list_images",
            summary="List images",
            verb="catalog:read",
            output=ImageOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Image]:
        images = Image.objects.filter(active=True)
        return self.page(images, query, key=("code",), descending=False)


class GpuModelList(TenantView):
    @operation(
        Contract(
            name="list_gpu_models",
            summary="List GPU models",
            verb="catalog:read",
            output=GpuModelOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[GpuModel]:
        models = GpuModel.objects.all()
        return self.page(models, query, key=("id",), descending=False)


class RegionList(TenantView):
    @operation(
        Contract(
            name="list_regions",
            summary="List regions and their zones",
            verb="catalog:read",
            output=RegionOutput,
            shape="page",
            query=PageQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Region]:
        regions = Region.objects.prefetch_related("zones")
        return self.page(regions, query, key=("code",), descending=False)
