"""Log-in through allauth: by e-mail address, and nobody signs up by himself."""

import time
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
)
from django.core.cache import cache
from django.utils import timezone

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


# --- the password once more


def test_who_has_just_signed_in_sets_up_a_factor_without_the_password(client):
    make_user(email="ann@example.com", password=PASSWORD)
    log_in(client, "ann@example.com", PASSWORD)

    assert client.get("/accounts/2fa/totp/activate/").status_code == 200


def test_a_sign_in_of_six_minutes_ago_is_too_old_for_it(client):
    make_user(email="ann@example.com", password=PASSWORD)
    log_in(client, "ann@example.com", PASSWORD)
    session = client.session
    for record in session["account_authentication_methods"]:
        record["at"] -= 360
    session.save()

    answer = client.get("/accounts/2fa/totp/activate/")

    assert answer["Location"].startswith("/accounts/reauthenticate/")


@pytest.mark.parametrize(
    "page", ["totp/deactivate/", "recovery-codes/", "recovery-codes/generate/"]
)
def test_a_factor_that_was_there_before_asks_for_the_password_once_more(client, page):
    user = make_user(email="ann@example.com", password=PASSWORD)
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    RecoveryCodes.activate(user)
    Authenticator.objects.update(created_at=timezone.now() - timedelta(minutes=6))
    log_in(client, "ann@example.com", PASSWORD)
    code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    client.post("/accounts/2fa/authenticate/", {"code": code})
    assert client.session["_auth_user_id"] == str(user.pk)

    answer = client.get(f"/accounts/2fa/{page}")

    assert answer.status_code == 302
    assert "reauthenticate" in answer["Location"]
