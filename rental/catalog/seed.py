"""
Put the rows of the data files into an empty catalogue. Rows that exist are left as they are:
after the first run they are the operator's.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from typing import Any

from django.conf import settings
from django.db import transaction

from billing.core.money import parse_micro, round_half_up
from billing.services import prices
from rental.catalog.models import TENTHS, Image, Isolation, Offer, SliceKind
from rental.catalog.services import price_key
from rental.records.audit import Actor
from scheduler.models import GpuModel, Region, Zone

SEED = Actor(kind="system", id="seed_catalog")
LETTER = {Isolation.TENANT: "t", Isolation.SHARED: "s"}


@dataclass(frozen=True)
class Seeded:
    """How many rows of each kind were made by this run."""

    made: Counter[str]

    def __str__(self) -> str:
        return ", ".join(f"{n} {kind}" for kind, n in sorted(self.made.items())) or "nothing to do"


@transaction.atomic
def seed_catalog(*, now: datetime) -> Seeded:
    """Make the regions, zones, GPU models, images, offers and first prices that are missing."""
    made: Counter[str] = Counter()
    for region in read("regions")["region"]:
        place, is_new = Region.objects.get_or_create(code=region["code"])
        made["regions"] += is_new
        for zone in region["zones"]:
            made["zones"] += Zone.objects.get_or_create(code=zone, defaults={"region": place})[1]
    for model in read("gpu_models")["gpu_model"]:
        key = {"name": model.pop("name"), "memory_mib": model.pop("memory_mib")}
        model["fp16_tflops"] = Decimal(str(model["fp16_tflops"]))
        model["fp64_tflops"] = Decimal(str(model["fp64_tflops"]))
        made["GPU models"] += GpuModel.objects.get_or_create(**key, defaults=model)[1]
    for image in read("images")["image"]:
        image["min_capability"] = int(image["min_capability"].replace(".", ""))
        code = image.pop("code")
        made["images"] += Image.objects.get_or_create(code=code, defaults=image)[1]
    for offer, price in offers():
        sold, is_new = Offer.objects.get_or_create(code=offer.pop("code"), defaults=offer)
        made["offers"] += is_new
        for market in sold.markets:
            made["prices"] += _publish_once(key=price_key(sold, market), price=price, now=now)
    return Seeded(+made)


def read(name: str) -> dict[str, Any]:
    """Return the content of one data file."""
    path = resources.files("rental.catalog") / "data" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def offers() -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every offer of the data files as fields, with its price in micro-units per hour."""
    cards = {(card["gpu"], card["memory_mib"]): card for card in read("prices")["card"]}
    catalogue = read("offers")
    for family in catalogue["family"]:
        card = cards[family["gpu"], family["memory_mib"]]
        price = parse_micro(card["price"])
        common = {
            "region": catalogue["region"],
            "markets": catalogue["markets"],
            "gpu_model_name": family["gpu"],
            "gpu_memory_mib": family["memory_mib"],
            "is_demo_price": card["source"] != "brief",
        }
        for count in family["whole"]:
            yield common | _whole(family, count), price * count
        for isolation in (Isolation.TENANT, Isolation.SHARED):
            for tenths in family[isolation.value]:
                yield common | _share(family, isolation, tenths), part_of(price, tenths)


def part_of(price: int, tenths: int) -> int:
    """Return the part of a card's price that a share costs: round half up, in micro-units."""
    return round_half_up(Fraction(price * tenths, TENTHS))


def _whole(family: dict[str, Any], count: int) -> dict[str, Any]:
    several = count > 1
    return {
        "code": f"{family['code']}-x{count}" if several else family["code"],
        "name": f"{count} x {family['name']}" if several else family["name"],
        "slice": SliceKind.WHOLE,
        "isolation": Isolation.WHOLE,
        "count": count,
        "tenths": TENTHS,
        "vram_mib": family["memory_mib"] * count,
        "cpu_milli": family["cpu_milli"] * count,
        "ram_mib": family["ram_mib"] * count,
        "disk_mib": family["disk_mib"],
    }


def _share(family: dict[str, Any], isolation: Isolation, tenths: int) -> dict[str, Any]:
    return {
        "code": f"{family['code']}-{tenths}{LETTER[isolation]}",
        "name": f"0.{tenths} {family['name']}",
        "slice": SliceKind.SHARE,
        "isolation": isolation,
        "count": 1,
        "tenths": tenths,
        "vram_mib": family["memory_mib"] * tenths // TENTHS,
        "cpu_milli": family["cpu_milli"] * tenths // TENTHS,
        "ram_mib": family["ram_mib"] * tenths // TENTHS,
        "disk_mib": family["disk_mib"] * tenths // TENTHS,
    }


def _publish_once(*, key: str, price: int, now: datetime) -> bool:
    try:
        prices.price_at(price_key=key, at=now)
    except prices.UnknownPrice:
        prices.publish_price(
            price_key=key,
            currency=settings.BILLING_CURRENCY,
            price=price,
            unit="hour",
            effective_at=now,
            actor=SEED,
            now=now,
        )
        return True
    return False
