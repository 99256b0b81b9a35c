"""Timers, settings, actions, search and passwords by the API."""

from datetime import timedelta

import pytest

from rental.instances.models import Instance
from rental.records.clock import database_now
from rental.records.texts import instant_text
from scheduler.models import Node
from tests.api.conftest import Api, order
from tests.api.test_operations_of_the_api import create, problem, read
from tests.factories.rental import make_node
from tests.factories.tenants import make_api_key, make_ssh_key

pytestmark = pytest.mark.django_db


def patch(api, instance, body, *, if_match="*"):
    return api.patch(f"/v1/instances/{instance['id']}", body, if_match=if_match)


def later(**much):
    return instant_text(database_now() + timedelta(**much))


def test_an_order_takes_timers_and_password_login_and_shows_them(api):
    at = later(hours=2)

    made = create(api, auto_stop_at=at, max_duration_s=3600, password_login=True)

    assert (made["auto_stop_at"], made["max_duration_s"], made["password_login"]) == (
        at,
        3600,
        True,
    )
    plain = create(api)
    assert (plain["auto_stop_at"], plain["max_duration_s"], plain["password_login"]) == (
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"auto_stop_at": "2020-01-01T00:00:00Z"}, "auto_stop_at"),
        ({"auto_stop_at": "tomorrow"}, "auto_stop_at"),
        ({"max_duration_s": 59}, "max_duration_s"),
        ({"max_duration_s": "3600"}, "max_duration_s"),
        ({"password_login": "true"}, "password_login"),
    ],
)
def test_an_order_with_a_bad_setting_is_refused(api, changes, field):
    body = problem(api.post("/v1/instances", order(**changes)), 422, "invalid_request")

    assert [error["field"] for error in body["errors"]] == [field]
    assert not Instance.objects.exists()


def test_settings_are_changed_all_at_once(api, world):
    made = create(api)
    key = make_ssh_key(world.tenant)
    listed = read(api.get("/v1/ssh-keys"))["data"][0]["id"]

    changed = read(
        patch(
            api,
            made,
            {"name": "other", "protected": True, "ssh_key_ids": [listed], "max_duration_s": 600},
        )
    )

    assert (changed["name"], changed["protected"], changed["max_duration_s"]) == (
        "other",
        True,
        600,
    )
    assert changed["ssh_key_ids"] == [listed]
    assert changed["generation"] == made["generation"] + 1
    assert Instance.objects.get().ssh_key_ids == [key.id]
    problem(patch(api, made, {"protected": False}, if_match='"1"'), 412, "precondition_failed")
    problem(api.post(f"/v1/instances/{made['id']}/release"), 409, "protected")
    assert read(patch(api, made, {"max_duration_s": None}))["max_duration_s"] is None


def test_actions_say_what_the_key_may_ask_now(api, world):
    made = create(api)
    assert {"stop", "release", "set_timers"} <= set(made["actions"])
    assert not {"start", "restart", "reveal_password"} & set(made["actions"])

    read(patch(api, made, {"protected": True}))
    shown = read(api.get(f"/v1/instances/{made['id']}"))
    assert "release" not in shown["actions"]
    reader = Api(make_api_key(world.tenant, scopes=["*:read"])[1])
    assert read(reader.get(f"/v1/instances/{made['id']}"))["actions"] == []


def test_instances_are_found_by_a_part_of_the_name_or_by_the_id(api):
    first, second = create(api, name="train-7b"), create(api, name="notebook")

    def found(text):
        return [one["id"] for one in read(api.get(f"/v1/instances?search={text}"))["data"]]

    assert found("RAIN") == [first["id"]]
    assert found(second["id"]) == [second["id"]]
    assert found("nothing") == []


def test_a_password_is_shown_and_changed_and_stored_in_no_answer(api):
    made = create(api, password_login=True)
    where = f"/v1/instances/{made['id']}/password"

    shown = read(api.post(where))

    assert (shown["instance_id"], len(shown["password"])) == (made["id"], 20)
    assert read(api.post(where, {}))["password"] == shown["password"]
    rotated = read(api.post(where, {"rotate": True}))
    assert rotated["password"] != shown["password"]
    assert shown["password"] not in read_text(api, made)
    read(patch(api, made, {"password_login": False}))
    problem(api.post(where), 409, "password_login_off")


def read_text(api, made):
    pages = ("/v1/events", f"/v1/instances/{made['id']}", "/v1/operations")
    return "".join(api.get(page).content.decode() for page in pages)


def test_a_key_that_may_only_look_sees_no_password(api, world):
    made = create(api, password_login=True)
    reader = Api(make_api_key(world.tenant, scopes=["*:read"])[1])

    problem(reader.post(f"/v1/instances/{made['id']}/password"), 403, "forbidden")


def test_without_a_key_for_secrets_no_password_can_be_had(api, settings):
    settings.SECRETS_KEY = None

    problem(api.post("/v1/instances", order(password_login=True)), 503, "unavailable")
    assert not Instance.objects.exists()


# --- when its node fails


def test_replace_is_refused_where_a_node_has_no_guard(api, world):
    make_node()
    Node.objects.update(facts={"runtime": "null"}, zone="east-1")
    make_node()
    Node.objects.update(zone="east-1")  # one of the two has none

    body = problem(
        api.post("/v1/instances", order(on_node_loss="replace")), 422, "replace_not_offered"
    )

    assert [error["field"] for error in body["errors"]] == ["on_node_loss"]
    assert "guard" in body["detail"]
    assert not Instance.objects.exists()
    made = create(api)
    assert (made["on_node_loss"], made["migrate_ok"]) == ("keep", True)
    problem(patch(api, made, {"on_node_loss": "replace"}), 422, "replace_not_offered")
    problem(patch(api, made, {"on_node_loss": "hope"}), 422, "invalid_request")
    assert Instance.objects.get().on_node_loss == "keep"


def test_replace_is_taken_where_every_node_is_guarded(api, world):
    make_node()
    Node.objects.update(facts={"runtime": "null"}, zone="east-1")

    made = create(api, on_node_loss="replace", migrate_ok=False)

    assert (made["on_node_loss"], made["migrate_ok"]) == ("replace", False)
    changed = read(patch(api, made, {"on_node_loss": "keep", "migrate_ok": True}))
    assert (changed["on_node_loss"], changed["migrate_ok"]) == ("keep", True)
    assert "set_failover" in changed["actions"]
