"""Two tenants, things on sale, and a client that speaks as an API key."""

import json
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.test import Client

from billing.services.prices import publish_price
from billing.services.wallets import credit
from rental.catalog.models import Image, Offer
from rental.catalog.services import price_key
from rental.records.clock import database_now
from rental.records.ids import to_text
from rental.tenants.models import ApiKey, Role
from scheduler.models import GpuModel, Region, Zone
from tests.factories.tenants import (
    OPERATOR,
    default_project,
    make_api_key,
    make_invitation,
    make_member,
    make_ssh_key,
    make_tenant,
)


class Api:
    """Sends JSON as one key and returns Django's responses."""

    def __init__(self, key: str | None) -> None:
        self.client = Client(raise_request_exception=False)
        self.key = key

    def send(self, method: str, path: str, body=None, **headers):
        names = {f"HTTP_{name.upper().replace('-', '_')}": v for name, v in headers.items()}
        if self.key is not None:
            names.setdefault("HTTP_AUTHORIZATION", f"Bearer {self.key}")
        raw = body if isinstance(body, bytes) else json.dumps(body) if body is not None else b""
        kind = names.pop("HTTP_CONTENT_TYPE", "application/json")
        return self.client.generic(method, path, raw, content_type=kind, **names)

    def get(self, path: str, **headers):
        return self.send("GET", path, **headers)

    def post(self, path: str, body=None, **headers):
        return self.send("POST", path, body, **headers)

    def patch(self, path: str, body=None, **headers):
        return self.send("PATCH", path, body, **headers)

    def delete(self, path: str, **headers):
        return self.send("DELETE", path, **headers)


@dataclass
class World:
    tenant: object
    stranger: object
    offer: Offer
    image: Image
    price: int  # micro-units an hour


@pytest.fixture(autouse=True)
def _no_limits(settings):
    settings.RATE_LIMITS_ENABLED = False
    settings.HINTS_ENABLED = False


def put_on_sale() -> tuple[Offer, Image, int]:
    """One share of a card at 4.90 CNY an hour, and an image for it."""
    region = Region.objects.create(code="east", name="East")
    Zone.objects.create(code="east-1", region=region)
    GpuModel.objects.create(
        name="RTX 4090",
        memory_mib=24576,
        vendor="nvidia",
        fp16_tflops="165.20",
        compute_capability="8.9",
        active=True,
    )
    offer = Offer.objects.create(
        code="rtx4090-share1",
        name="A tenth of an RTX 4090",
        region="east",
        gpu_model_name="RTX 4090",
        gpu_memory_mib=24576,
        slice="share",
        isolation="shared",
        count=1,
        tenths=1,
        vram_mib=2400,
        cpu_milli=1000,
        ram_mib=4096,
        disk_mib=20480,
        markets=["on_demand"],
    )
    image = Image.objects.create(
        code="pytorch-2.4",
        name="PyTorch 2.4",
        ref="pytorch:2.4",
        cuda="12.4",
        frameworks={"pytorch": "2.4.0"},
        min_capability=70,
    )
    now = database_now()
    price = 4_900_000
    publish_price(
        price_key=price_key(offer, "on_demand"),
        currency="CNY",
        price=price,
        unit="hour",
        effective_at=now,
        actor=OPERATOR,
        now=now,
    )
    return offer, image, price


def give_money(tenant, amount: int, key: str = "gift") -> None:
    credit(
        tenant_id=tenant.id,
        amount=amount,
        reason="test",
        actor=OPERATOR,
        key=f"{key}-{tenant.id}",
        now=database_now(),
    )


@pytest.fixture
def world(db) -> World:
    """Ours has 1,000 CNY; the stranger too."""
    offer, image, price = put_on_sale()
    tenant, stranger = make_tenant(), make_tenant()
    give_money(tenant, 1_000_000_000)
    give_money(stranger, 1_000_000_000)
    return World(tenant, stranger, offer, image, price)


@pytest.fixture
def api(world) -> Api:
    """Speaks as a key of the owner that may do everything."""
    return Api(make_api_key(world.tenant)[1])


@pytest.fixture
def stranger(world) -> Api:
    """Speaks as the owner of another tenant."""
    return Api(make_api_key(world.stranger)[1])


def order(**changes) -> dict:
    """A valid order for one instance."""
    return {"offer": "rtx4090-share1", "image": "pytorch-2.4", **changes}


SOON = timedelta(hours=1)


@pytest.fixture
def ours(world, api) -> dict[str, str]:
    """One of everything that has an id, by the name of its path parameter."""
    made = json.loads(api.post("/v1/instances", order()).content)["data"][0]
    quote = json.loads(api.post("/v1/quotes", {"offer": "rtx4090-share1"}).content)
    secret = json.loads(api.post("/v1/secrets", {"name": "HF_TOKEN", "value": "hf_1"}).content)
    key = ApiKey.objects.of(world.tenant.id).first()
    return {
        "instance_id": made["id"],
        "operation_id": made["operation"]["id"],
        "quote_id": quote["id"],
        "ssh_key_id": to_text("ssh", make_ssh_key(world.tenant).id),
        "secret_id": secret["id"],
        "api_key_id": to_text("key", key.id),
        "project_id": to_text("prj", default_project(world.tenant).id),
        "user_id": to_text("usr", make_member(world.tenant, Role.DEVELOPER).pk),
        "invitation_id": to_text("inv", make_invitation(world.tenant)[0].id),
    }
