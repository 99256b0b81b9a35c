"""The person's own page, the way to a tenant, the language, the first steps."""

import re

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.cache import cache
from django.test import Client

from billing.services.wallets import credit
from rental.records.clock import database_now
from rental.tenants import queries
from rental.tenants.models import ContactCode, Membership, Role, Tenant, User
from rental.web.onboarding import checklist_of
from rental.web.visit import Visit
from tests.factories.tenants import (
    OPERATOR,
    make_member,
    make_ssh_key,
    make_tenant,
    make_user,
    owner_of,
)

PASSWORD = "correct horse battery"
LOGIN = "/accounts/login/"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh(settings):
    cache.clear()
    settings.SIGNUP_VERIFICATION = "none"


def browser(user):
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


# --- log-in


@pytest.mark.parametrize("typed", ["13800000000", "+86 138 0000 0000"])
def test_log_in_by_phone(client, typed):
    user = make_user(phone="+8613800000000", password=PASSWORD)

    answer = client.post(LOGIN, {"login": typed, "password": PASSWORD})

    assert answer["Location"] == "/console"
    assert client.session["_auth_user_id"] == str(user.pk)


def test_wrong_words_for_one_number_lock_out_no_other(client):
    make_user(phone="+8613800000000", password=PASSWORD)
    make_user(phone="+8613900000000", password=PASSWORD)
    for typed in (
        "13800000000",
        "138 0000 0000",
        "+8613800000000",
        "008613800000000",
        "13800000000",
    ):
        client.post(LOGIN, {"login": typed, "password": "wrong"})

    locked = client.post(LOGIN, {"login": "13800000000", "password": PASSWORD})
    other = Client().post(LOGIN, {"login": "13900000000", "password": PASSWORD})

    assert locked.status_code == 200
    assert other.status_code == 302


def test_after_a_wrong_password_the_password_is_typed_again(client):
    make_user(email="ann@example.com", password=PASSWORD)

    html = client.post(LOGIN, {"login": "ann@example.com", "password": "wrong"}).content.decode()

    (focused,) = re.findall(r"<input[^>]* autofocus[^>]*>", html)
    assert 'name="password"' in focused
    assert 'value="ann@example.com"' in html


# --- to a tenant


def test_the_console_goes_to_the_tenant_that_was_looked_at_last():
    user = make_user()
    make_tenant(slug="first", owner=user)
    make_tenant(slug="second", owner=user)
    client = browser(user)
    assert client.get("/console")["Location"] == "/t/first/"

    client.get("/t/second/team")

    assert client.get("/console")["Location"] == "/t/second/"


def test_staff_without_a_tenant_go_to_their_own_pages():
    client = browser(make_user(is_staff=True))

    assert client.get("/console")["Location"] == "/admin/"


def test_without_a_tenant_one_opens_one_where_that_is_allowed(settings):
    settings.SIGNUP_ENABLED = True
    client = browser(make_user())
    assert client.get("/console")["Location"] == "/console/new"

    answer = client.post("/console/new", {"name": "Acme"})

    assert answer["Location"] == "/t/acme/"
    assert Membership.objects.get().role == Role.OWNER


def test_without_a_tenant_one_waits_where_it_is_not(settings):
    settings.SIGNUP_ENABLED = False
    client = browser(make_user())

    answer = client.post("/console/new", {"name": "Acme"})

    assert answer.status_code == 422
    assert not Tenant.objects.exists()


def test_the_switcher_is_one_query(django_assert_num_queries):
    user = make_user()
    for n in range(3):
        make_tenant(slug=f"acme-{n}", owner=user)

    with django_assert_num_queries(1):
        places = queries.tenants_of(user)

    assert [place.slug for place in places] == ["acme-0", "acme-1", "acme-2"]


# --- language


def test_pages_follow_the_language_of_who_is_signed_in():
    user = make_user(language="en")
    client = browser(user)

    client.post("/language", {"language": "zh-hans", "next": "/me"})

    user.refresh_from_db()
    assert user.language == "zh-hans"
    # Another browser, which never saw the switch.
    assert browser(user).get("/me")["Content-Language"] == "zh-hans"


@pytest.mark.parametrize(
    ("came_from", "goes_to"),
    [
        ("http://testserver/prices?gpu=a100", "/prices?gpu=a100"),
        ("http://testserver/me", "/prices"),
        ("http://elsewhere.example/prices?gpu=a100", "/prices"),
        (None, "/prices"),
    ],
)
def test_another_language_keeps_what_was_filtered(client, came_from, goes_to):
    headers = {"Referer": came_from} if came_from else {}

    answer = client.post("/language", {"language": "en", "next": "/prices"}, headers=headers)

    assert answer["Location"] == goes_to


def test_a_strangers_choice_is_nobodys(client):
    user = make_user(language="en")

    client.post("/language", {"language": "zh-hans", "next": "/"})

    user.refresh_from_db()
    assert user.language == "en"
    assert browser(user).get("/me")["Content-Language"] == "en"


def test_an_unknown_language_changes_nothing():
    user = make_user(language="en")

    browser(user).post("/language", {"language": "xx", "next": "/"})

    user.refresh_from_db()
    assert user.language == "en"


# --- me


def test_name_and_language_are_kept():
    user = make_user(language="en")
    client = browser(user)

    client.post("/me", {"name": "Ann", "language": "zh-hans"})

    user.refresh_from_db()
    assert (user.name, user.language) == ("Ann", "zh-hans")


def test_the_form_begins_with_what_is_kept():
    user = make_user(name="Ann", language="zh-hans")

    form = browser(user).get("/me").context["name_form"]

    assert (form["name"].value(), form["language"].value()) == ("Ann", "zh-hans")


def test_without_a_choice_the_language_of_the_page_is_offered():
    client = browser(make_user(language=""))

    form = client.get("/me", headers={"Accept-Language": "zh-CN"}).context["name_form"]

    assert form["language"].value() == "zh-hans"


def test_the_page_opens_for_who_has_a_tenant_and_for_who_has_none():
    for user in (owner_of(make_tenant()), make_user()):
        answer = browser(user).get("/me")
        assert answer.status_code == 200
        assert user.email in answer.content.decode()


def test_another_contact_takes_the_password():
    user = make_user(email="ann@example.com", password=PASSWORD)
    client = browser(user)

    refused = client.post("/me/contact", {"contact": "13800000000", "password": "wrong"})
    user.refresh_from_db()
    assert (refused.status_code, user.phone) == (422, None)
    client.post("/me/contact", {"contact": "13800000000", "password": PASSWORD})

    user.refresh_from_db()
    assert (user.email, user.phone) == ("ann@example.com", "+8613800000000")
    assert user.phone_verified_at is None


def test_anothers_contact_is_not_taken():
    make_user(email="bob@example.com")
    user = make_user(email="ann@example.com", password=PASSWORD)

    answer = browser(user).post("/me/contact", {"contact": "bob@example.com", "password": PASSWORD})

    user.refresh_from_db()
    assert answer.status_code == 422
    assert user.email == "ann@example.com"


def test_where_codes_are_asked_for_the_new_contact_is_proved(settings):
    settings.SIGNUP_VERIFICATION = "code"
    user = make_user(email="ann@example.com", password=PASSWORD)
    client = browser(user)

    answer = client.post("/me/contact", {"contact": "ann@new.example", "password": PASSWORD})
    user.refresh_from_db()
    assert user.email == "ann@example.com"
    client.post(answer["Location"], {"code": ContactCode.objects.get().code})

    user.refresh_from_db()
    assert user.email == "ann@new.example"
    assert user.email_verified_at is not None


def test_one_signs_out_everywhere_else():
    make_user(email="ann@example.com", password=PASSWORD)
    here, there = Client(), Client()
    for client in (here, there):
        client.post(LOGIN, {"login": "ann@example.com", "password": PASSWORD})
    assert len(here.get("/me").context["sessions"]) == 2

    here.post("/me/sessions/end")

    assert here.get("/me").status_code == 200
    assert there.get("/me").status_code == 302
    assert len(here.get("/me").context["sessions"]) == 1


def test_a_changed_password_ends_the_other_sessions():
    make_user(email="ann@example.com", password=PASSWORD)
    here, there = Client(), Client()
    for client in (here, there):
        client.post(LOGIN, {"login": "ann@example.com", "password": PASSWORD})

    new = "another horse battery"
    here.post(
        "/accounts/password/change/",
        {"oldpassword": PASSWORD, "password1": new, "password2": new},
    )

    assert User.objects.get().check_password(new)
    assert here.get("/me").status_code == 200
    assert there.get("/me").status_code == 302


def test_who_has_just_signed_in_sets_up_a_second_factor_at_once():
    make_user(email="ann@example.com", password=PASSWORD)
    client = Client()
    client.post(LOGIN, {"login": "ann@example.com", "password": PASSWORD})

    page = client.get("/accounts/2fa/totp/activate/")

    assert page.status_code == 200
    assert page.context["totp_svg"]


def test_in_an_older_session_a_second_factor_asks_for_the_password():
    user = make_user(email="ann@example.com", password=PASSWORD)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")

    asked = client.get("/accounts/2fa/totp/activate/")
    assert asked["Location"].startswith("/accounts/reauthenticate/")
    answer = client.post(asked["Location"], {"password": PASSWORD})

    page = client.get(answer["Location"])
    assert page.status_code == 200
    assert page.context["totp_svg"]


# --- first steps


def visit_of(tenant, user):
    member = Membership.objects.select_related("tenant", "user").get(tenant=tenant, user=user)
    return Visit(None, member, database_now())


def open_steps(tenant, user):
    checklist = checklist_of(visit_of(tenant, user))
    return None if checklist is None else [s.code for s in checklist.steps if not s.is_done]


def test_steps_are_read_from_rows(settings):
    settings.SIGNUP_VERIFICATION = "code"
    tenant = make_tenant()
    user = owner_of(tenant)
    assert open_steps(tenant, user) == ["contact", "credit", "access", "launch", "factor"]

    make_ssh_key(tenant)
    TOTP.activate(user, generate_totp_secret())
    credit(tenant_id=tenant.id, amount=1, reason="x", actor=OPERATOR, key="x", now=database_now())
    User.objects.filter(pk=user.pk).update(email_verified_at=database_now())

    assert open_steps(tenant, user) == ["launch"]


def test_where_nobody_verifies_the_step_is_left_out():
    tenant = make_tenant()

    assert "contact" not in open_steps(tenant, owner_of(tenant))


def test_a_viewer_is_asked_for_nothing_that_he_may_not_do():
    tenant = make_tenant()

    assert open_steps(tenant, make_member(tenant, Role.VIEWER)) == ["credit", "factor"]


def test_put_away_they_cost_nothing(django_assert_num_queries):
    tenant = make_tenant(slug="acme")
    user = owner_of(tenant)
    visit = visit_of(tenant, user)
    with django_assert_num_queries(1):
        checklist_of(visit)

    browser(user).post("/t/acme/first-steps/dismiss")

    visit = visit_of(tenant, user)
    with django_assert_num_queries(0):
        assert checklist_of(visit) is None
