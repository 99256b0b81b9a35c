"""Log-in through allauth: by e-mail address, and nobody signs up by himself."""

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.cache import cache

from rental.tenants.models import User
from tests.factories.tenants import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _nobody_has_failed_yet():
    cache.clear()


def log_in(client, login, password):
    return client.post("/accounts/login/", {"login": login, "password": password})


@pytest.mark.parametrize("login", ["ann@example.com", "ANN@Example.com"])
def test_log_in_by_address_in_any_case(client, login):
    user = make_user(email="ann@example.com", password=PASSWORD)

    answer = log_in(client, login, PASSWORD)

    assert answer.status_code == 302
    assert client.session["_auth_user_id"] == str(user.pk)


@pytest.mark.parametrize(
    ("login", "password"), [("ann@example.com", "wrong"), ("bob@example.com", PASSWORD)]
)
def test_a_wrong_word_opens_nothing(client, login, password):
    make_user(email="ann@example.com", password=PASSWORD)

    answer = log_in(client, login, password)

    assert answer.status_code == 200
    assert "_auth_user_id" not in client.session


def test_who_is_locked_out_stays_out(client):
    make_user(email="ann@example.com", password=PASSWORD)
    User.objects.update(is_active=False)

    log_in(client, "ann@example.com", PASSWORD)

    assert "_auth_user_id" not in client.session


def test_nobody_signs_up(client):
    client.post(
        "/accounts/signup/",
        {"email": "eve@example.com", "password1": PASSWORD, "password2": PASSWORD},
    )

    assert not User.objects.exists()
    assert "_auth_user_id" not in client.session


def test_staff_log_in_where_everybody_does(client):
    """The admin's own form would ask for no second factor and count no failures."""
    make_user(email="ann@example.com", password=PASSWORD, is_staff=True, is_superuser=True)

    page = client.get("/admin/login/?next=/admin/")
    posted = client.post("/admin/login/", {"username": "ann@example.com", "password": PASSWORD})

    assert page.status_code == posted.status_code == 302
    assert page["Location"] == "/accounts/login/?next=%2Fadmin%2F"
    assert "_auth_user_id" not in client.session


def test_staff_with_a_second_factor_need_it_for_the_admin(client):
    user = make_user(email="ann@example.com", password=PASSWORD, is_staff=True, is_superuser=True)
    TOTP.activate(user, generate_totp_secret())

    answer = client.post(
        "/accounts/login/?next=/admin/", {"login": "ann@example.com", "password": PASSWORD}
    )

    assert answer["Location"].startswith("/accounts/2fa/authenticate/")
    assert client.get("/admin/").status_code == 302


def test_guessing_ends_after_five_wrong_words(client):
    make_user(email="ann@example.com", password=PASSWORD)

    for _ in range(5):
        log_in(client, "ann@example.com", "wrong")
    log_in(client, "ann@example.com", PASSWORD)

    assert "_auth_user_id" not in client.session
