"""The checklist is derived: each line opens and closes with the rows behind it."""

from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from rental.operate.setup import look_at_setup
from rental.records.clock import database_now
from rental.records.models import PeriodicRun
from rental.tenants.models import AuditEvent
from scheduler.models import EnrolmentToken, Gpu, Zone
from scheduler.services.enrolment import enrol
from scheduler.services.liveness import record_pulses
from tests.factories.rental import make_image, make_node, make_offer, make_place, make_rich_tenant
from tests.factories.tenants import make_user
from tests.operate.conftest import staff_with

pytestmark = pytest.mark.django_db


def states(user=None) -> dict[str, str]:
    found = look_at_setup(user=user or make_user(is_staff=True), now=database_now())
    return {step.key: str(step.state) for step in found.steps}


def test_an_empty_house_needs_everything_that_sells(settings):
    settings.SECRETS_KEY, settings.SECRET_KEY_IS_SET = None, True
    found = states()
    assert {key for key, state in found.items() if state == "needed"} == {
        "gateway", "node", "gpus", "prices", "image", "secrets",
    }  # fmt: skip


def test_a_house_that_can_sell_needs_nothing(settings):
    settings.SECRETS_KEY, settings.SECRET_KEY_IS_SET = b"x" * 32, True
    now = database_now()
    make_node(now=now)
    make_offer(now=now)
    make_image()
    make_rich_tenant(now=now)
    record_pulses([], "gateway-1", now)

    found = states()

    assert "needed" not in found.values()
    assert {
        found[key] for key in ("gateway", "node", "gpus", "prices", "offers", "image", "credit")
    } == {"done"}


def test_it_says_that_real_gpus_cannot_be_rented_out_yet(staff):
    page = staff.get(reverse("operate:setup")).content.decode()

    assert "Real GPUs cannot be rented out with this version" in page


def test_a_lost_node_and_a_sick_card_open_their_lines_again():
    node = make_node(now=database_now())
    assert (states()["node"], states()["gpus"]) == ("done", "done")
    Gpu.objects.update(health="unhealthy")
    type(node.liveness).objects.update(status="lost")
    assert (states()["node"], states()["gpus"]) == ("needed", "advised")


def test_work_in_the_background_is_done_once_seen_and_missed_only_when_it_should_be_there():
    user = make_user(is_staff=True)
    now = database_now()
    type(user).objects.update(created_at=now)
    assert states(user)["worker"] == "soon"
    type(user).objects.update(created_at=now - timedelta(minutes=76))
    assert states(user)["worker"] == "advised"
    run = PeriodicRun.objects.create(name="billing.settle", slot=now, taken_at=now)
    assert states(user)["worker"] == "done"
    PeriodicRun.objects.filter(pk=run.pk).update(taken_at=now - timedelta(minutes=76))
    assert states(user)["worker"] == "advised"


def test_a_reported_model_that_no_offer_sells_is_named():
    now = database_now()
    make_node(now=now, model="H100")
    make_offer(now=now)
    found = look_at_setup(user=make_user(is_staff=True), now=now)
    (line,) = (step for step in found.steps if step.key == "offers")
    assert line.state == "advised"
    assert "H100 80 GiB" in str(line.says)


def test_prices_made_up_for_the_demo_are_said():
    offer = make_offer(now=database_now())
    assert states()["prices"] == "done"
    type(offer).objects.update(is_demo_price=True)
    assert states()["prices"] == "advised"


@pytest.mark.parametrize(
    ("setting", "value", "key", "state"),
    [
        ("HTTPS", True, "https", "done"),
        ("HTTPS", False, "https", "advised"),
        ("DEBUG", True, "debug", "needed"),
        ("SIGNUP_ENABLED", True, "signup", "choice"),
        ("SIGNUP_TERMS_URL", "https://example.com/terms", "legal", "done"),
        ("SIGNUP_TERMS_URL", "", "legal", "advised"),
        ("SECRET_KEY_IS_SET", False, "key", "needed"),
    ],
)
def test_settings_decide_their_lines(settings, setting, value, key, state):
    setattr(settings, setting, value)
    assert states()[key] == state


def test_the_second_factor_is_that_of_whoever_looks():
    user = make_user(is_staff=True)
    assert states(user)["mfa"] == "advised"
    Authenticator.objects.create(user=user, type="totp", data={"secret": "x"})
    assert states(user)["mfa"] == "done"
    assert states()["mfa"] == "advised"


def test_what_is_not_built_says_so():
    found = states()
    assert [key for key, state in found.items() if state == "later"] == [
        "runtime", "messages", "payment",
    ]  # fmt: skip


def test_the_command_shows_a_token_once_that_enrols_one_agent(staff, settings):
    settings.GATEWAY_URL = "https://gateway.example.com"
    zone = make_place()

    response = staff.post(reverse("operate:enrol"), {"zone": zone.pk})

    command = response.context["command"]
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    assert "--url https://gateway.example.com " in command
    assert '\nurl = "wss://gateway.example.com/agent/v1"\n' in command
    token = command.split("'")[1]
    enrol(token=token, agent_name="a", nodes=["n"], now=database_now())
    assert EnrolmentToken.objects.get().uses_left == 0
    assert AuditEvent.objects.get(verb="enrolment_token.issue").actor_kind == "staff"
    assert token not in staff.get(reverse("operate:setup")).content.decode()


def test_without_a_zone_no_token_is_made(staff):
    response = staff.post(reverse("operate:enrol"), {"zone": "nowhere"})
    assert response.status_code == 422
    assert not EnrolmentToken.objects.exists()


def test_who_may_only_read_the_fleet_makes_no_token():
    zone = make_place()
    client = staff_with("rental:read", "scheduler:read")
    assert client.post(reverse("operate:enrol"), {"zone": zone.pk}).status_code == 403
    assert reverse("operate:enrol") not in client.get(reverse("operate:setup")).content.decode()
    assert not EnrolmentToken.objects.exists()


def test_the_pages_ask_no_more_for_a_larger_house(staff):
    def queries(name):
        with CaptureQueriesContext(connection) as asked:
            assert staff.get(reverse(f"operate:{name}"), {"stay": ""}).status_code == 200
        return len(asked)

    first = [queries("setup"), queries("overview")]
    now = database_now()
    for number in range(3):
        make_node(now=now, gpus=3)
        make_offer(f"o{number}", now=now)
        make_rich_tenant(now=now)
    assert Zone.objects.count() == 1
    later = [queries("setup"), queries("overview")]
    assert later == first
    assert max(later) <= 32
