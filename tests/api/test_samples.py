"""The API's samples: what charts of the console show, and nobody else's."""

import json
import time

import pytest

from rental.instances.samples.points import Point
from rental.instances.samples.recent import recent
from rental.records.ids import from_text
from tests.api.conftest import order

pytestmark = pytest.mark.django_db


@pytest.fixture
def instance_id(world, api) -> str:
    return json.loads(api.post("/v1/instances", order()).content)["data"][0]["id"]


def test_the_last_hour_is_told_point_by_point(api, instance_id):
    at = int(time.time()) - 60
    recent().write([(from_text("ins", instance_id), Point(at, 40, 2048, 120, 61))])

    answer = json.loads(api.get(f"/v1/instances/{instance_id}/samples?minutes=15").content)

    assert (answer["source"], answer["step_s"]) == ("points", 0)
    (sample,) = answer["samples"]
    assert sample["util_percent"] == sample["util_percent_max"] == 40
    assert (sample["vram_mib"], sample["watts"], sample["celsius"]) == (2048, 120, 61)


def test_a_day_without_samples_is_empty(api, instance_id):
    answer = json.loads(api.get(f"/v1/instances/{instance_id}/samples?minutes=1440").content)

    assert (answer["source"], answer["step_s"], answer["samples"]) == ("minutes", 60, [])


@pytest.mark.parametrize("minutes", ["0", "20161", "-1", "x", "1.5"])
def test_more_than_two_weeks_and_nonsense_are_refused(api, instance_id, minutes):
    answer = api.get(f"/v1/instances/{instance_id}/samples?minutes={minutes}")

    assert answer.status_code == 422


def test_a_stranger_finds_no_samples_of_ours(stranger, instance_id):
    recent().write([(from_text("ins", instance_id), Point(int(time.time()), 40, 1, 1, 1))])

    assert stranger.get(f"/v1/instances/{instance_id}/samples").status_code == 404
