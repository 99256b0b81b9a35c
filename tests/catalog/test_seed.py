"""The demo catalogue: complete, priced by the owner's figures, and seeded once."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command

from billing.models import PriceVersion
from billing.services.prices import price_at
from rental.catalog import seed
from rental.catalog.models import Image, Offer
from rental.catalog.services import price_key
from rental.records.clock import database_now
from scheduler.models import GpuModel, Region, Zone
from tests.factories.rental import NOON

BRIEF = Path(__file__).resolve().parents[3] / "shared" / "data" / "brief_facts.md"


def price_of(code):
    offer = Offer.objects.get(code=code)
    return price_at(price_key=price_key(offer, "on_demand"), at=NOON).price


@pytest.mark.django_db
def test_a_second_run_changes_nothing():
    first = seed.seed_catalog(now=NOON)
    before = {
        model: list(model.objects.order_by("pk").values())
        for model in (Offer, Image, GpuModel, Region, Zone, PriceVersion)
    }

    second = seed.seed_catalog(now=NOON + timedelta(days=1))

    assert first.made["offers"] >= 30
    assert not second.made
    for model, rows in before.items():
        assert list(model.objects.order_by("pk").values()) == rows


@pytest.mark.django_db
def test_what_the_operator_changed_is_left_as_it_is():
    seed.seed_catalog(now=NOON)
    Offer.objects.filter(code="a100-80g").update(active=False, name="Mine")

    seed.seed_catalog(now=NOON)

    offer = Offer.objects.get(code="a100-80g")
    assert (offer.active, offer.name) == (False, "Mine")


@pytest.mark.django_db
def test_the_command_reads_the_database_clock(capsys):
    before = database_now()
    call_command("seed_catalog")

    assert "offers" in capsys.readouterr().out
    assert PriceVersion.objects.first().during.lower >= before


@pytest.mark.django_db
def test_prices_are_those_of_the_brief_and_a_share_costs_its_part():
    seed.seed_catalog(now=NOON)

    assert price_of("a100-80g") == 4_900_000
    assert price_of("a100-80g-1t") == price_of("a100-80g-1s") == 490_000
    assert price_of("a100-80g-2t") == 980_000
    assert price_of("a100-80g-5s") == 2_450_000
    assert price_of("a100-80g-x8") == 39_200_000
    assert price_of("rtx4090-24g") == 1_500_000
    assert price_of("rtx4090-24g-1t") == 150_000
    assert price_of("v100-32g") == 1_150_000
    assert not Offer.objects.get(code="a100-80g").is_demo_price
    assert Offer.objects.get(code="h100-80g").is_demo_price


def test_three_weeks_of_eight_cards_cost_what_the_brief_says():
    price = dict((fields["code"], price) for fields, price in seed.offers())["a100-80g-x8"]

    assert price * 24 * 21 == 19_756_800_000  # 19,756.80 CNY


@pytest.mark.skipif(not BRIEF.exists(), reason="the owner's brief is not part of the repository")
def test_the_brief_names_our_prices():
    text = BRIEF.read_text()
    cards = {
        f"{card['gpu']} {card['memory_mib'] // 1024}G": card["price"]
        for card in seed.read("prices")["card"]
        if card["source"] == "brief"
    }

    assert len(cards) == 3
    for name, price in cards.items():
        (line,) = [
            line
            for line in text.splitlines()
            if line.startswith(f"| {name.split(' (')[0]}")
            or (line.startswith("| RTX 4090") and name == "RTX 4090 24G")
        ]
        assert price in line


def test_every_model_of_the_design_is_there_keyed_by_name_and_memory():
    models = {(m["name"], m["memory_mib"] // 1024) for m in seed.read("gpu_models")["gpu_model"]}

    assert models >= {
        ("P40", 24), ("P100", 16), ("V100", 16), ("V100", 32), ("T4", 16), ("RTX 3090", 24),
        ("RTX 4090", 24), ("RTX 4090", 48), ("A10G", 24), ("A100", 40), ("A100", 80),
        ("H100", 80), ("H20", 96), ("H200", 141), ("Ascend 910B", 64),
    }  # fmt: skip


@pytest.mark.django_db
def test_models_stay_inactive_until_a_node_reports_one():
    seed.seed_catalog(now=NOON)

    assert not GpuModel.objects.filter(active=True).exists()


def test_there_are_more_than_twenty_images_and_none_names_a_registry():
    images = seed.read("images")["image"]

    assert len(images) > 20
    frameworks = {name for image in images for name in image["frameworks"]}
    assert frameworks >= {"pytorch", "tensorflow", "jax", "vllm"}
    for image in images:
        first = image["ref"].partition("/")[0]
        assert "." not in first
        assert ":" not in first
        assert image["cuda"] or image["vendor"] != "nvidia"


def test_a_share_has_its_part_of_everything():
    offers = {fields["code"]: fields for fields, _price in seed.offers()}
    whole, share = offers["a100-80g"], offers["a100-80g-2s"]

    for name in ("vram_mib", "cpu_milli", "ram_mib", "disk_mib"):
        assert share[name] == whole[name] // 5
    assert share["isolation"] == "shared"
    assert {f["isolation"] for f in offers.values()} == {"whole", "tenant", "shared"}


@pytest.mark.parametrize(
    ("price", "tenths", "part"),
    [(4_900_000, 1, 490_000), (5, 1, 1), (4, 1, 0), (15, 3, 5), (1, 5, 1), (1_150_001, 5, 575_001)],
)
def test_the_part_of_a_price_is_rounded_half_up(price, tenths, part):
    assert seed.part_of(price, tenths) == part
