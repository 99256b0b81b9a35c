"""The pattern library is for whoever builds pages, and for nobody else."""

import pytest
from django.test import Client

from tests.factories.tenants import make_user

pytestmark = pytest.mark.django_db


def answer_to(user=None) -> int:
    client = Client()
    if user is not None:
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.get("/dev/components").status_code


def test_staff_sees_it_and_nobody_else_learns_that_it_is_there(settings):
    settings.DEBUG = False
    assert answer_to(make_user(is_staff=True, is_superuser=True)) == 200
    assert (answer_to(), answer_to(make_user())) == (404, 404)
