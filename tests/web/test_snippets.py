"""An order as text: what stands there is executed."""

import json
import shlex
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rental.instances.models import Instance
from rental.records.ids import to_text
from rental.tenants.permissions import verbs_of
from rental.web.forms.launch import Order
from rental.web.snippets import (
    COMING,
    body_of,
    cli,
    curl,
    first_call,
    snippets_of,
    terraform,
)
from tests.api.conftest import Api
from tests.factories.rental import IMAGE, PRICE
from tests.factories.tenants import default_project, make_api_key, make_ssh_key
from tests.web.rented import Rented

ROOT = "https://gpu.example.com"


def full_order(tenant) -> Order:
    return Order(
        offer="a100-80g-1t",
        image=IMAGE,
        count=2,
        name="it's me",
        project_id=default_project(tenant).id,
        ssh_key_ids=(make_ssh_key(tenant).id,),
        password_login=True,
        auto_stop_at=datetime(2027, 1, 1, 8, tzinfo=UTC),
        max_duration_s=9000,
        command=("python", "train.py", "--name", "two words"),
        env={"GREETING": "it's ${HOME}"},
    )


@pytest.mark.django_db
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("scopes", "path"),
    [
        (["*"], "instances"),
        (["catalog:read", "billing:read"], "offers"),
        (["tenant:read"], "tenant"),
    ],
)
def test_a_new_key_is_tried_on_what_it_may_read(scopes, path):
    rented = Rented()
    _key, text = make_api_key(rented.tenant, scopes=scopes)

    words = shlex.split(first_call(text, verbs_of(scopes), root=ROOT))

    assert words == ["curl", "-H", f"Authorization: Bearer {text}", f"{ROOT}/v1/{path}"]
    assert Api(text).get(f"/v1/{path}").status_code == 200


def test_a_key_that_may_read_none_of_it_is_not_tried():
    assert first_call("tsr_x", {"secrets:read"}, root=ROOT) == ""


@pytest.mark.django_db
def test_the_curl_command_is_taken_by_the_api_as_it_stands():
    rented = Rented()
    _key, text = make_api_key(rented.tenant)
    order = full_order(rented.tenant)

    words = shlex.split(curl(body_of(order, limit=2 * PRICE), root=ROOT).replace("\\\n", ""))

    assert words[:2] == ["curl", f"{ROOT}/v1/instances"]
    body = json.loads(words[words.index("-d") + 1])
    headers = [words[i + 1] for i, word in enumerate(words) if word == "-H"]
    assert [header.partition(":")[0] for header in headers] == [
        "Authorization",
        "Idempotency-Key",
        "Content-Type",
    ]
    answer = Api(text).post("/v1/instances", body, idempotency_key="launch-1")
    assert answer.status_code == 201, answer.content
    instances = Instance.objects.of(rented.tenant.id).order_by("name")
    assert [instance.name for instance in instances] == ["it's me-1", "it's me-2"]
    made = instances[0]
    assert made.command == list(order.command)
    assert made.env == dict(order.env)
    assert (made.ssh_key_ids, made.project_id) == (list(order.ssh_key_ids), order.project_id)
    assert (made.password_login, made.max_duration_s) == (True, 9000)
    assert made.auto_stop_at == order.auto_stop_at


@pytest.mark.django_db
def test_a_program_never_pays_more_than_the_price_that_was_shown():
    rented = Rented()
    _key, text = make_api_key(rented.tenant)
    body = body_of(Order(offer="a100-80g-1t", image=IMAGE), limit=PRICE - 1)

    answer = Api(text).post("/v1/instances", body, idempotency_key="launch-1")

    assert (answer.status_code, answer.json()["code"]) == (409, "price_exceeded")
    assert not Instance.objects.of(rented.tenant.id).exists()


def test_says_nothing_that_was_not_chosen():
    order = Order(offer="a100-80g", image="ubuntu-24.04")

    assert body_of(order, limit=4_900_000) == {
        "offer": "a100-80g",
        "image": "ubuntu-24.04",
        "max_hourly_price": "4.90",
    }


@pytest.mark.django_db
def test_the_command_of_the_program_and_the_block_of_terraform():
    rented = Rented()
    order = full_order(rented.tenant)
    body = body_of(order, limit=980_000)

    assert shlex.split(cli(body).replace("\\\n", "")) == [
        "tessera", "instances", "create",
        "--offer", "a100-80g-1t",
        "--image", IMAGE,
        "--count", "2",
        "--name", "it's me",
        "--project", to_text("prj", order.project_id),
        "--ssh-key", to_text("ssh", order.ssh_key_ids[0]),
        "--password-login",
        "--stop-at", "2027-01-01T08:00:00.000000Z",
        "--stop-after", "9000s",
        "--env", "GREETING=it's ${HOME}",
        "--max-price", "0.98",
        "--", "python", "train.py", "--name", "two words",
    ]  # fmt: skip
    block = terraform(body)
    assert block.startswith('resource "tessera_instance" "this" {\n  offer            = "a100-')
    assert 'env              = { GREETING = "it\'s $${HOME}" }' in block
    assert "password_login   = true" in block
    assert block.endswith("\n}")


def test_what_does_not_exist_yet_is_marked_as_coming():
    """Whoever builds the command or the provider takes its mark away; this test reminds him."""
    root = Path(__file__).resolve().parents[2]
    client = tomllib.loads((root / "client" / "pyproject.toml").read_text(encoding="utf-8"))
    has_command = "tessera" in client["project"].get("scripts", {})

    marks = {
        one.name: one.is_coming
        for one in snippets_of(Order(offer="a", image="b"), root=ROOT, limit=1)
    }

    assert marks == {"curl": False, "cli": not has_command, "terraform": True}
    assert ("cli" in COMING) == (not has_command)
