"""Each endpoint once: what it takes, what it answers, and what it refuses."""

import json
import re
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Transfer, Wallet
from rental.api.contract import contracts_of
from rental.instances.models import Instance, Operation
from rental.records.clock import database_now
from rental.records.ids import from_text, to_text
from rental.tenants.models import ApiKey, SshKey
from tests.api.conftest import Api, give_money, order
from tests.api.test_frame import problem
from tests.factories.tenants import (
    ED25519,
    ED25519_FINGERPRINT,
    default_project,
    make_api_key,
    make_tenant,
)

pytestmark = pytest.mark.django_db


def read(response, status=200) -> dict:
    assert response.status_code == status, response.content
    return json.loads(response.content)


def create(api, status=201, **changes) -> dict:
    return read(api.post("/v1/instances", order(**changes)), status)["data"][0]


# --- what is on sale


def test_offers_have_their_price_and_can_be_filtered(api, world):
    (offer,) = read(api.get("/v1/offers?region=east&market=on_demand&slice=share"))["data"]
    assert offer["code"] == world.offer.code
    assert offer["prices"] == [
        {"market": "on_demand", "unit": "hour", "price": "4.90", "currency": "CNY"}
    ]
    # No node has been enrolled: no card here could ever hold it.
    assert (offer["stock"], offer["available"], offer["waiting"]) == ("absent", 0, 0)
    assert read(api.get("/v1/offers?region=west")) == {
        "data": [],
        "has_more": False,
        "next_cursor": None,
    }


def test_images_models_and_regions_are_listed(api):
    assert read(api.get("/v1/images"))["data"][0]["frameworks"] == {"pytorch": "2.4.0"}
    (model,) = read(api.get("/v1/gpu-models"))["data"]
    assert (model["fp16_tflops"], model["fp64_tflops"]) == (165.2, None)
    assert read(api.get("/v1/regions"))["data"] == [
        {"code": "east", "name": "East", "zones": ["east-1"]}
    ]


def test_a_quote_shows_the_total_and_how_long_the_money_lasts(api):
    response = api.post("/v1/quotes", {"offer": "rtx4090-share1", "count": 2})
    quote = read(response, 201)
    assert (quote["price_per_hour"], quote["total_per_hour"]) == ("4.90", "9.80")
    assert quote["lines"][0]["amount"] == "9.80"
    assert [line["amount"] for line in quote["lines"][1:]] == [None, None]
    assert quote["balance_lasts_seconds"] == 1_000_000_000 * 3600 // 9_800_000
    assert read(api.get(f"/v1/quotes/{quote['id']}")) == quote


def test_an_order_takes_a_quote_and_refuses_another_tenants(api, stranger):
    quote = read(api.post("/v1/quotes", {"offer": "rtx4090-share1"}), 201)
    assert create(api, quote_id=quote["id"])["state"] == "queued"
    response = stranger.post("/v1/instances", order(quote_id=quote["id"]))
    problem(response, 422, "unknown_quote")
    problem(api.post("/v1/instances", order(quote_id=quote["id"], count=2)), 422, "quote_mismatch")


@pytest.mark.parametrize(
    ("changes", "status", "code", "field"),
    [
        ({"offer": "nothing"}, 422, "unknown_offer", "offer"),
        ({"image": "nothing"}, 422, "unknown_image", "image"),
        ({"market": "spot"}, 422, "market_not_offered", "market"),
        (
            {"project_id": to_text("prj", __import__("uuid").UUID(int=7))},
            422,
            "unknown_project",
            "project_id",
        ),
        (
            {"ssh_key_ids": [to_text("ssh", __import__("uuid").UUID(int=7))]},
            422,
            "unknown_ssh_key",
            "ssh_key_ids",
        ),
        ({"max_hourly_price": "4.899999"}, 409, "price_exceeded", "max_hourly_price"),
    ],
)
def test_an_order_that_cannot_be_is_refused_and_leaves_no_trace(api, changes, status, code, field):
    body = problem(api.post("/v1/instances", order(**changes)), status, code)
    assert [error["field"] for error in body["errors"]] == [field]
    assert not Instance.objects.exists()


def test_an_order_beyond_the_balance_is_a_402_with_amounts(world):
    poor = make_tenant()
    give_money(poor, 2_449_999)  # half an hour is 2.45
    body = problem(
        Api(make_api_key(poor)[1]).post("/v1/instances", order()), 402, "insufficient_balance"
    )
    assert (body["needed"], body["available"]) == ("2.45", "2.449999")
    assert not Instance.objects.exists()


# --- instances


def test_an_order_answers_a_list_with_operations(api):
    data = read(api.post("/v1/instances", order(count=3, name="job", env={"A": "1"})), 201)["data"]
    assert len(data) == 3
    assert {one["state"] for one in data} == {"queued"}
    assert data[0]["env"] == {"A": "1"}
    assert data[0]["operation"]["kind"] == "create"
    assert [step["name"] for step in data[0]["operation"]["steps"]] == [
        "reserved",
        "node_accepted",
        "image",
        "started",
        "ssh_ready",
    ]
    assert data[0]["waiting"]["reasons"] == {}


def test_instances_are_listed_newest_first_page_by_page(api):
    made = read(api.post("/v1/instances", order(count=5)), 201)["data"]
    first = read(api.get("/v1/instances?limit=3"))
    second = read(api.get(f"/v1/instances?limit=3&cursor={first['next_cursor']}"))
    assert (first["has_more"], second["has_more"], second["next_cursor"]) == (True, False, None)
    seen = [one["id"] for one in first["data"] + second["data"]]
    assert seen == sorted((one["id"] for one in made), reverse=True)
    oldest = read(api.get("/v1/instances?sort=created_at"))["data"]
    assert [one["id"] for one in oldest] == seen[::-1]
    problem(  # a cursor is good for its own list only
        api.get(f"/v1/instances?limit=3&state=queued&cursor={first['next_cursor']}"),
        422,
        "invalid_request",
    )


def test_instances_are_filtered(api, world):
    one = create(api)
    project = to_text("prj", default_project(world.tenant).id)
    for query, count in (
        ("state=queued", 1),
        ("state=running,queued", 1),
        ("state=stopped", 0),
        (f"project_id={project}", 1),
        (f"created_after={one['created_at']}", 1),
        (f"created_before={one['created_at']}", 0),
    ):
        assert len(read(api.get(f"/v1/instances?{query}"))["data"]) == count, query


def test_a_list_takes_the_same_number_of_queries_for_one_and_for_ten(api):
    create(api)
    with CaptureQueriesContext(
        connection,
    ) as one:
        read(api.get("/v1/instances"))
    read(api.post("/v1/instances", order(count=9)), 201)
    with CaptureQueriesContext(connection) as ten:
        assert len(read(api.get("/v1/instances"))["data"]) == 10
    assert len(one) == len(ten)
    assert len(ten) <= 7  # clock, key, instances, and four for what stands beside them


def test_rename_needs_the_generation_that_was_read(api):
    made = create(api)
    path = f"/v1/instances/{made['id']}"
    tag = api.get(path)["ETag"]
    problem(api.patch(path, {"name": "b"}), 428, "precondition_required")
    renamed = api.patch(path, {"name": "b"}, if_match=tag)
    assert read(renamed)["name"] == "b"
    assert renamed["ETag"] != tag
    body = problem(api.patch(path, {"name": "c"}, if_match=tag), 412, "precondition_failed")
    assert body["expected"] == int(tag.strip('"'))
    problem(api.patch(path, {"name": "c"}, if_match="other"), 412, "precondition_failed")
    assert read(api.patch(path, {"name": "c"}, if_match="*"))["name"] == "c"


@pytest.mark.parametrize("how", ["delete", "post"])
def test_release_is_accepted_and_answers_its_operation(api, how):
    path = f"/v1/instances/{create(api)['id']}"
    response = api.delete(path) if how == "delete" else api.post(f"{path}/release")
    operation = read(response, 202)
    assert operation["kind"] == "release"
    assert read(api.get(f"/v1/operations/{operation['id']}")) == operation


def test_stop_of_a_waiting_instance_cancels_it_and_start_asks_again(api):
    path = f"/v1/instances/{create(api)['id']}"
    assert read(api.post(f"{path}/stop"), 202)["kind"] == "stop"
    assert read(api.get(path))["state"] == "stopped"
    problem(api.post(f"{path}/restart"), 409, "illegal_transition")
    assert read(api.post(f"{path}/start"), 202)["kind"] == "start"
    assert read(api.get(path))["state"] == "queued"


def test_a_command_compares_the_generation_if_it_is_given(api):
    path = f"/v1/instances/{create(api)['id']}"
    problem(api.post(f"{path}/stop", if_match='"99"'), 412, "precondition_failed")
    assert read(api.get(path))["state"] == "queued"


def test_a_command_takes_no_body(api):
    path = f"/v1/instances/{create(api)['id']}"
    problem(api.post(f"{path}/stop", {"force": True}), 422, "invalid_request")


# --- idempotency


def test_a_repeated_order_is_answered_with_the_first_answer(api):
    first = api.post("/v1/instances", order(), idempotency_key="k")
    again = api.post("/v1/instances", order(), idempotency_key="k")
    assert read(first, 201) == read(again, 201)
    assert "Idempotent-Replayed" not in first
    assert again["Idempotent-Replayed"] == "true"
    assert Instance.objects.count() == 1


def test_a_key_is_not_for_another_request_and_not_for_another_tenant(api, stranger):
    read(api.post("/v1/instances", order(), idempotency_key="k"), 201)
    problem(
        api.post("/v1/instances", order(count=2), idempotency_key="k"),
        422,
        "idempotency_key_reused",
    )
    problem(
        api.post("/v1/quotes", {"offer": "rtx4090-share1"}, idempotency_key="k"),
        422,
        "idempotency_key_reused",
    )
    read(stranger.post("/v1/instances", order(), idempotency_key="k"), 201)
    assert Instance.objects.count() == 2


def test_a_refusal_is_not_stored(api, world):
    problem(api.post("/v1/instances", order(offer="x"), idempotency_key="k"), 422, "unknown_offer")
    read(api.post("/v1/instances", order(), idempotency_key="k"), 201)


@pytest.mark.django_db(transaction=True)
def test_64_copies_of_one_order_are_one_instance_and_equal_answers(api):
    answers = []
    copies = iter(range(64))

    def send():
        for _ in copies:
            answers.append(Api(api.key).post("/v1/instances", order(), idempotency_key="only one"))
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bodies = [read(answer, 201) for answer in answers]
    assert len(bodies) == 64
    assert all(body == bodies[0] for body in bodies)
    assert sum("Idempotent-Replayed" not in answer for answer in answers) == 1
    assert Instance.objects.count() == 1


# --- operations


def test_operations_are_listed_and_filtered(api):
    made = create(api)
    assert len(read(api.get("/v1/operations?state=running"))["data"]) == 1
    (found,) = read(api.get(f"/v1/operations?instance_id={made['id']}"))["data"]
    assert found["instance_id"] == made["id"]
    assert read(api.get("/v1/operations?state=failed"))["data"] == []


@pytest.mark.django_db(transaction=True)
def test_waiting_ends_with_the_operation_and_holds_no_connection(api, monkeypatch):
    from rental.api import operations

    made = create(api)["operation"]["id"]
    looked = threading.Event()
    seen = []

    def pause(_seconds):
        seen.append(connection.connection)  # of the thread that waits
        looked.set()
        threading.Event().wait(0.02)

    monkeypatch.setattr(operations.time, "sleep", pause)
    answers = []

    def wait():
        answers.append(Api(api.key).get(f"/v1/operations/{made}?wait=20"))
        connection.close()

    waiting = threading.Thread(target=wait)
    began = time.monotonic()
    waiting.start()
    assert looked.wait(10)
    Operation.objects.update(state="succeeded", finished_at=database_now())
    waiting.join(10)
    assert read(answers[0])["state"] == "succeeded"
    assert time.monotonic() - began < 10
    assert seen
    assert not any(seen)


def test_waiting_has_an_end(api):
    made = create(api)["operation"]["id"]
    assert read(api.get(f"/v1/operations/{made}?wait=1"))["state"] == "running"
    problem(api.get(f"/v1/operations/{made}?wait=31"), 422, "invalid_request")


# --- money


def test_the_balance_is_decimal_text(api, world):
    balance = read(api.get("/v1/balance"))
    assert balance["posted"] == "1000.00"
    assert balance["currency"] == "CNY"
    create(api)
    assert read(api.get("/v1/balance"))["held"] == "4.90"
    assert Wallet.objects.of(world.tenant.id).get().held == 4_900_000


def test_transfers_tell_what_they_did_to_the_wallet(api, world):
    (transfer,) = read(api.get("/v1/transfers"))["data"]
    assert (transfer["amount"], transfer["change"], transfer["credit"]) == (
        "1000.00",
        "1000.00",
        "cash",
    )
    assert Transfer.objects.of(world.tenant.id).count() == 1


def test_charges_and_segments_of_an_instance_begin_empty(api):
    made = create(api)["id"]
    for path in (f"/v1/instances/{made}/segments", f"/v1/instances/{made}/charges", "/v1/charges"):
        assert read(api.get(path))["data"] == []


# --- keys, projects, events


def test_an_ssh_key_is_added_once_and_removed(api):
    body = {"name": "laptop", "public_key": f"{ED25519} me@here"}
    made = read(api.post("/v1/ssh-keys", body), 201)
    assert made["fingerprint"] == ED25519_FINGERPRINT
    problem(api.post("/v1/ssh-keys", body), 409, "uniqueness_error")
    path = f"/v1/ssh-keys/{made['id']}"
    assert read(api.get(path)) == made
    assert api.delete(path).status_code == 204
    problem(api.delete(path), 404, "not_found")
    problem(api.get(path), 404, "not_found")
    assert SshKey.objects.get().deleted_at is not None


@pytest.mark.parametrize("text", ["x", "ssh-ed25519 AAAA", "-----BEGIN PRIVATE KEY-----"])
def test_what_is_no_public_key_is_a_422(api, text):
    body = problem(
        api.post("/v1/ssh-keys", {"name": "k", "public_key": text}), 422, "invalid_request"
    )
    assert body["errors"][0]["field"] == "public_key"


def test_an_api_key_is_shown_once_and_works(api):
    body = {"name": "ci", "scopes": ["instances:read"]}
    response = api.post("/v1/api-keys", body, idempotency_key="k")
    made = read(response, 201)
    assert Api(made["secret"]).get("/v1/instances").status_code == 200
    problem(Api(made["secret"]).get("/v1/balance"), 403, "forbidden")

    again = read(api.post("/v1/api-keys", body, idempotency_key="k"), 201)
    assert again == {**made, "secret": None}
    assert made["secret"] not in api.get("/v1/api-keys").content.decode()
    assert "secret" not in read(api.get(f"/v1/api-keys/{made['id']}"))

    assert api.delete(f"/v1/api-keys/{made['id']}").status_code == 204
    problem(Api(made["secret"]).get("/v1/instances"), 401, "unauthenticated")


def test_a_key_makes_none_that_may_do_more_than_itself(world):
    narrow = Api(make_api_key(world.tenant, scopes=["keys:write", "instances:read"])[1])
    problem(
        narrow.post("/v1/api-keys", {"name": "k", "scopes": ["instances:write"]}), 403, "forbidden"
    )
    read(narrow.post("/v1/api-keys", {"name": "k", "scopes": ["instances:read"]}), 201)


@pytest.mark.parametrize(
    "changes",
    [
        {"scopes": ["moon:read"]},
        {"scopes": []},
        {"kind": "agent"},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"expires_at": "9999-12-31T23:59:59-23:59"},
    ],
)
def test_a_key_that_makes_no_sense_is_a_422(api, changes):
    body = {"name": "k", "scopes": ["*"], **changes}
    problem(api.post("/v1/api-keys", body), 422, "invalid_request")


def test_an_agents_key_expires(api):
    until = (database_now() + timedelta(days=1)).isoformat()
    body = {"name": "bot", "scopes": ["*:read"], "kind": "agent", "expires_at": until}
    made = read(api.post("/v1/api-keys", body), 201)
    assert ApiKey.objects.get(pk=from_text("key", made["id"])).expires_at.isoformat() == until


def test_projects_are_listed(api):
    (project,) = read(api.get("/v1/projects"))["data"]
    assert project["is_default"] is True
    assert read(api.get(f"/v1/projects/{project['id']}")) == project


def test_events_name_the_key_and_the_request(api, world):
    response = api.post("/v1/instances", order(), x_request_id="job-1")
    made = read(response, 201)["data"][0]["id"]
    (event, *_) = read(api.get(f"/v1/events?subject={made}"))["data"]
    key = ApiKey.objects.of(world.tenant.id).get()
    assert (event["actor_kind"], event["actor_id"]) == ("api_key", to_text("key", key.id))
    assert event["request_id"] == "job-1"


# --- pages


def test_the_landing_page_and_the_docs_need_no_key_and_no_outside_assets(client):
    for path, word in (("/", "Tessera"), ("/v1/docs", "/v1/instances/{instance_id}/stop")):
        response = client.get(path)
        assert response.status_code == 200
        text = response.content.decode()
        assert word in text
        scripts = re.findall(r"<script[^>]*>", text)
        assert all(' src="/static/' in script for script in scripts), scripts
        assert "https://" not in text
    assert json.loads(client.get("/v1/openapi.json").content)["openapi"].startswith("3.1")


def test_the_landing_page_speaks_chinese(client):
    assert "按卡" in client.get("/", headers={"accept-language": "zh-hans"}).content.decode()


def test_every_view_with_a_contract_is_tried_by_the_matrix():
    from tests.api.test_matrix import api_routes

    names = [contract.name for _route, _method, contract in api_routes()]
    assert len(names) == len(set(names))
    assert contracts_of(object) == {}
