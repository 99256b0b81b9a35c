"""The contract that every operation shares: problems, ids, pages, parsing, limits."""

import json

import pytest

from rental.api.errors import Problem
from rental.records.texts import money_text
from rental.refusals import CODES
from tests.api.conftest import Api, order

pytestmark = pytest.mark.django_db

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "request_id", "errors"}


def problem(response, status: int, code: str) -> dict:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body = json.loads(response.content)
    assert body.keys() >= MEMBERS
    assert (body["status"], body["code"]) == (status, code)
    assert body["request_id"] == response["X-Request-Id"]
    assert body["type"] == f"/v1/docs#{code}"
    assert code in CODES
    return body


@pytest.mark.parametrize(
    ("micro", "text"),
    [
        (0, "0.00"),
        (1, "0.000001"),
        (1_250_000, "1.25"),
        (-4_900_000, "-4.90"),
        (9_223_372_036_854_775_807, "9223372036854.775807"),
        (100_000, "0.10"),
    ],
)
def test_money_is_an_exact_decimal_string(micro, text):
    assert money_text(micro) == text


def test_no_key_is_401_with_a_challenge(world):
    response = Api(None).get("/v1/instances")
    problem(response, 401, "unauthenticated")
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "text", ["", "x", "tsr_aaaaaaaa_" + "a" * 43, "Basic", "tsr_" + "é" * 20, "a" * 5000]
)
def test_a_wrong_key_is_401(world, text):
    problem(Api(text).get("/v1/instances"), 401, "unauthenticated")


def test_a_key_in_the_query_is_not_looked_at(world, api):
    problem(Api(None).get(f"/v1/instances?key={api.key}"), 401, "unauthenticated")


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/instances/",
        "/v1/instances/x/y/z",
        "/v1/a%0Ab",
        "/v1/instances/%00",
        "/v1/%ff%fe",
        "/v1/instances/ins_ü",
        "/v1/instances/1",
        "/v1/instances/ins_00000000000000000000000000",
        "/v1/operations/ins_00000000000000000000000000",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_is_not_there_is_a_json_404(api, path, method):
    response = api.send(method, path)
    if response.status_code != 405:  # operations have no DELETE
        problem(response, 404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_another_method_is_a_json_405(api, method):
    response = api.send(method, "/v1/balance")
    problem(response, 405, "method_not_allowed")
    assert "GET" in response["Allow"]


def test_another_media_type_is_415(api):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"):
        response = api.send("POST", "/v1/instances", b"a=1", content_type=kind)
        problem(response, 415, "unsupported_media_type")


def test_json_is_answered_whatever_accept_says(api):
    response = api.get("/v1/balance", accept="text/html")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"


MALFORMED = {
    "nothing": b"",
    "half": b'{"offer": ',
    "latin": b'{"offer": "\xff"}',
    "nul": b'{"offer": "a\\u0000b"}',
    "lone surrogate": b'{"offer": "\\ud800"}',
    "surrogate in a name": b'{"\\udfff": 1}',
    "not a number": b'{"count": NaN}',
    "infinity": b'{"count": -Infinity}',
    "huge number": b'{"count": ' + b"9" * 5000 + b"}",
    "twice": b'{"count": 1, "count": 2}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep enough": b'{"env": ' + b'{"a":' * 40 + b"1" + b"}" * 41,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_body_is_a_400(api, name):
    response = api.send("POST", "/v1/instances", MALFORMED[name])
    if name == "nothing":
        problem(response, 422, "invalid_request")
    else:
        problem(response, 400, "malformed_request")


def test_a_large_body_is_413(api):
    body = b'{"name": "' + b"a" * (1 << 20) + b'"}'
    problem(api.send("POST", "/v1/instances", body), 413, "content_too_large")


@pytest.mark.parametrize("body", [[], "text", 1, None, True, [order()]])
def test_a_body_that_is_no_object_is_refused(api, body):
    response = api.send("POST", "/v1/instances", json.dumps(body).encode())
    problem(response, 422, "invalid_request")


def test_unknown_and_wrong_fields_are_listed_together(api):
    body = order(count=0, colour="red", ssh_key_ids=["ssh_x"], env={"a": 1})
    found = problem(api.post("/v1/instances", body), 422, "invalid_request")["errors"]
    assert {(error["field"], error["code"]) for error in found} == {
        ("colour", "unknown_field"),
        ("count", "min_value"),
        ("ssh_key_ids.0", "invalid_id"),
        ("env.a", "invalid"),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"count": "1"},
        {"count": 1.0},
        {"count": True},
        {"count": None},
        {"count": 10**19},
        {"name": 5},
        {"name": ""},
        {"name": "a" * 65},
        {"offer": None},
        {"market": "moon"},
        {"market": ["on_demand"]},
        {"max_hourly_price": 5},
        {"max_hourly_price": "1.2345678"},
        {"max_hourly_price": "-1"},
        {"max_hourly_price": "1e5"},
        {"max_hourly_price": "٣"},
        {"max_hourly_price": "9" * 13},
        {"command": "ls"},
        {"command": [1]},
        {"env": []},
        {"env": {"A B": "x"}},
        {"env": {f"A{n}": "" for n in range(65)}},
        {"quote_id": "quo_"},
        {"project_id": 7},
        {"ssh_key_ids": None},
        {"ssh_key_ids": "ssh_x"},
    ],
)
def test_a_wrong_value_is_a_422_for_its_field(api, changes):
    found = problem(api.post("/v1/instances", order(**changes)), 422, "invalid_request")["errors"]
    (name,) = changes
    assert all(error["field"].split(".")[0] == name for error in found)


@pytest.mark.parametrize(
    "query",
    [
        "colour=red",
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=" + "9" * 400,
        "cursor=",
        "cursor=x",
        "state=moon",
        "state=",
        "state=running,moon",
        "project_id=1",
        "created_after=yesterday",
        "created_after=2026-01-01",
        "created_after=0001-01-01T00:00:00%2B23:59",
        "sort=name",
        "cursor=%00",
        "cursor=%ff",
        "state=%00",
    ],
)
def test_a_wrong_parameter_is_a_422(api, query):
    problem(api.get(f"/v1/instances?{query}"), 422, "invalid_request")


def test_a_sane_request_id_comes_back_and_another_does_not(api):
    assert api.get("/v1/balance", x_request_id="job-7.2")["X-Request-Id"] == "job-7.2"
    for bad in ("a b", "x" * 65, "a\u00e9", "<script>"):
        given = api.get("/v1/balance", x_request_id=bad)["X-Request-Id"]
        assert given.startswith("req_")


def test_a_bad_host_is_a_json_400(api):
    problem(api.get("/v1/balance", host="evil.example"), 400, "malformed_request")


def test_a_bug_is_a_json_500_that_tells_nothing(api, monkeypatch):
    def explode(**_given):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("rental.api.money.read_balance", explode)
    response = api.get("/v1/balance")
    problem(response, 500, "internal_error")
    assert b"secret" not in response.content


def test_a_database_that_is_away_is_a_503(api, monkeypatch):
    from django.db import OperationalError

    def fail(**_given):
        raise OperationalError("gone")

    monkeypatch.setattr("rental.api.money.read_balance", fail)
    response = api.get("/v1/balance")
    problem(response, 503, "unavailable")
    assert response["Retry-After"] == "2"


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "schlüssel", "a\tb"])
def test_a_bad_idempotency_key_is_a_422(api, key):
    response = api.post("/v1/instances", order(), idempotency_key=key)
    if key.strip() or not key:
        problem(response, 422, "invalid_request")


def test_a_suspended_tenant_may_only_read(world, api):
    type(world.tenant).objects.filter(pk=world.tenant.pk).update(status="suspended")
    assert api.get("/v1/instances").status_code == 200
    problem(api.post("/v1/instances", order()), 403, "forbidden")


def test_limits_are_told_and_kept_and_fail_open(api, settings, caplog):
    from rental.api import throttling

    settings.RATE_LIMITS_ENABLED = True
    settings.RATE_LIMIT_REQUESTS = 3
    answers = [api.get("/v1/balance") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[0]["RateLimit-Policy"] == '"key";q=3;w=60'
    assert answers[0]["RateLimit"].startswith('"key";r=2;')
    problem(answers[3], 429, "rate_limit_exceeded")
    assert 1 <= int(answers[3]["Retry-After"]) <= 20

    settings.REDIS_URL = "redis://127.0.0.1:1/0"  # nobody listens there
    throttling._bucket.cache_clear()
    assert [api.get("/v1/balance").status_code for _ in range(5)] == [200] * 5
    throttling._bucket.cache_clear()


def test_every_problem_of_the_frame_has_a_title():
    for code in CODES:
        assert Problem(400, code).body(path="/", request_id="")["title"]
