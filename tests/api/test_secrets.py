"""Secrets over the API: values come in, and nothing that answers has one."""

import pytest

from rental.instances.models import Instance, Secret
from tests.api.conftest import Api, order
from tests.api.test_operations_of_the_api import problem, read
from tests.factories.tenants import make_api_key

pytestmark = pytest.mark.django_db

VALUE = "hf_a-plain-value"
BODY = {"name": "HF_TOKEN", "value": VALUE}


def test_a_secret_is_put_replaced_listed_and_removed_and_never_shown(api):
    made = read(api.post("/v1/secrets", BODY), 201)
    assert set(made) == {"id", "name", "created_at", "updated_at"}
    replaced = read(api.post("/v1/secrets", {**BODY, "value": f"{VALUE}-2"}), 201)
    assert (replaced["id"], replaced["created_at"]) == (made["id"], made["created_at"])
    path = f"/v1/secrets/{made['id']}"
    assert read(api.get(path)) == replaced
    assert read(api.get("/v1/secrets"))["data"] == [replaced]

    events = api.get("/v1/events").content.decode()
    assert "secret.put" in events
    assert "secret.replaced" in events
    assert VALUE not in events

    assert api.delete(path).status_code == 204
    problem(api.delete(path), 404, "not_found")
    problem(api.get(path), 404, "not_found")


def test_an_idempotency_key_stores_nothing_of_a_secret(api):
    from rental.records.models import IdempotencyKey

    read(api.post("/v1/secrets", BODY, idempotency_key="k"), 201)
    again = api.post("/v1/secrets", {**BODY, "value": "other"}, idempotency_key="k")

    read(again, 201)
    assert "Idempotent-Replayed" not in again
    assert not IdempotencyKey.objects.exists()


def test_an_order_names_secrets_and_shows_names_only(api):
    read(api.post("/v1/secrets", BODY), 201)

    response = api.post("/v1/instances", order(secrets=["HF_TOKEN"]))

    (made,) = read(response, 201)["data"]
    assert (made["secrets"], made["env"]) == (["HF_TOKEN"], {})
    assert VALUE not in response.content.decode()
    secret_id = read(api.get("/v1/secrets"))["data"][0]["id"]
    problem(api.delete(f"/v1/secrets/{secret_id}"), 409, "in_use")
    assert Secret.objects.exists()


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"secrets": ["NOTHING"]}, "unknown_secret", "secrets"),
        ({"secrets": ["HF_TOKEN", "HF_TOKEN"]}, "invalid_request", "secrets"),
        ({"secrets": ["HF_TOKEN"], "env": {"HF_TOKEN": "x"}}, "invalid_request", "secrets"),
        ({"secrets": [f"S{n}" for n in range(17)]}, "invalid_request", "secrets"),
        ({"secrets": [7]}, "invalid_request", "secrets.0"),
    ],
)
def test_names_that_cannot_be_are_a_422_at_their_field(api, changes, code, field):
    read(api.post("/v1/secrets", BODY), 201)

    body = problem(api.post("/v1/instances", order(**changes)), 422, code)

    assert [error["field"] for error in body["errors"]] == [field]
    assert not Instance.objects.exists()


def test_a_strangers_secret_is_unknown(api, stranger):
    read(stranger.post("/v1/secrets", BODY), 201)

    problem(api.post("/v1/instances", order(secrets=["HF_TOKEN"])), 422, "unknown_secret")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "1A"}, "name"),
        ({"name": "LD_PRELOAD"}, "name"),
        ({"value": VALUE * 1000}, "value"),
        ({"value": 7}, "value"),
        ({"values": VALUE}, "values"),
    ],
)
def test_what_cannot_be_kept_is_a_422_that_tells_no_value(api, changes, field):
    response = api.post("/v1/secrets", {**BODY, **changes})

    body = problem(response, 422, "invalid_request")
    assert [error["field"] for error in body["errors"]] == [field]
    assert VALUE not in response.content.decode()


def test_without_a_key_of_the_deployment_it_is_a_503_in_words(api, settings):
    settings.SECRETS_KEY = None

    body = problem(api.post("/v1/secrets", BODY), 503, "unavailable")

    assert "SECRETS_KEY" in body["detail"]


def test_who_may_not_read_secrets_starts_nothing_with_them(world, api):
    read(api.post("/v1/secrets", BODY), 201)
    narrow = Api(make_api_key(world.tenant, scopes=["instances:write"])[1])

    body = problem(narrow.post("/v1/instances", order(secrets=["HF_TOKEN"])), 403, "forbidden")

    assert [error["field"] for error in body["errors"]] == ["secrets"]
    read(narrow.post("/v1/instances", order()), 201)
