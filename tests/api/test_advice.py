"""The API's advice: what the findings say, and nobody else's."""

import json
import time
from datetime import timedelta

import pytest

from rental.instances.models import Instance
from rental.instances.samples.minutes import Minute, store_minutes
from rental.instances.samples.points import Point
from rental.instances.states import InstanceState
from rental.records.clock import database_now
from rental.records.ids import from_text
from tests.api.conftest import order

pytestmark = pytest.mark.django_db


@pytest.fixture
def idle(world, api) -> str:
    """An instance that has run for three hours and did nothing in the last two."""
    name = json.loads(api.post("/v1/instances", order()).content)["data"][0]["id"]
    instance_id, now = from_text("ins", name), database_now()
    Instance.objects.filter(pk=instance_id).update(
        state=InstanceState.RUNNING, session_ready_at=now - timedelta(hours=3)
    )
    first = int(time.time()) // 60 * 60 - 7140
    minutes = [Minute(instance_id, world.tenant.id, first + 60 * at) for at in range(115)]
    for minute in minutes:
        minute.add(Point(minute.start, 2, 512, 60, 40))
    store_minutes(minutes)
    return name


def test_an_idle_instance_is_told(api, idle):
    answer = api.get("/v1/advice")

    assert answer.status_code == 200
    (said,) = json.loads(answer.content)["data"]
    assert said.pop("since") < json.loads(api.get(f"/v1/instances/{idle}").content)["state_at"]
    assert said == {
        "instance_id": idle,
        "name": said["name"],
        "kind": "idle",
        "busy_percent": 2,
        "vram_peak_mib": 512,
        "tenths": 1,
        "needed_tenths": 1,
        "offer": None,
        "price_per_hour": None,
    }


def test_a_stranger_hears_nothing_of_ours(stranger, idle):
    assert json.loads(stranger.get("/v1/advice").content) == {"data": []}
