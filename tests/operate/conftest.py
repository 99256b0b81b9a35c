"""Staff in every role, and a small house to look at."""

import pytest
from django.test import Client

from rental.tenants.models import StaffRole
from tests.factories.tenants import make_user

ALL = (
    "rental:read", "rental:write", "scheduler:read", "scheduler:write",
    "billing:read", "billing:write", "billing:credit", "tenants:read",
)  # fmt: skip


def signed_in(user) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def staff_with(*verbs) -> Client:
    user = make_user(is_staff=True)
    if verbs:
        name = "-".join(verb.replace(":", "-") for verb in verbs)[:32]
        role = StaffRole.objects.create(code=name, name=name, verbs=list(verbs))
        user.staff_roles.add(role)
    return signed_in(user)


@pytest.fixture(autouse=True)
def _without_second_factor(settings):
    """Whether staff need one is tested where it is built; here a session is enough."""
    settings.STAFF_MFA_REQUIRED = False


@pytest.fixture
def staff():
    """A member of staff who may everything that these pages offer, and is no superuser."""
    return staff_with(*ALL)
