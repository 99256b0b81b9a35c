"""Sign-up, codes, forgotten passwords: what is made, and what is refused."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.messages import get_messages
from django.core.cache import cache
from django.db import connection
from django.test import Client

from billing.models import Transfer, Wallet
from rental.records.clock import database_now
from rental.tenants import services
from rental.tenants.contacts import Contact
from rental.tenants.errors import EmailOrPhoneTaken
from rental.tenants.models import (
    Consent,
    ContactCode,
    Membership,
    Project,
    Role,
    Tenant,
    User,
)
from rental.web.signup import Wanted, give_trial_credit, sign_up
from tests.factories.tenants import make_tenant, make_user

PASSWORD = "correct horse battery"
SIGN_UP, RESET = "/accounts/signup/", "/accounts/password/reset/"
TRIAL = 20_000_000  # 20.00 in micro-units

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _open(settings):
    cache.clear()
    settings.SIGNUP_ENABLED = True
    settings.SIGNUP_VERIFICATION = "none"
    settings.SIGNUP_TRIAL_CREDIT = TRIAL


@pytest.fixture
def with_codes(settings):
    settings.SIGNUP_VERIFICATION = "code"


def post(client, contact="ann@example.com", **fields):
    return client.post(SIGN_UP, {"contact": contact, "password": PASSWORD, **fields})


def signed_in(client):
    return client.session.get("_auth_user_id")


def nothing_made():
    return not (User.objects.exists() or Tenant.objects.exists() or Transfer.objects.exists())


def code_for(contact, purpose="sign_up"):
    """What a member of staff reads in the admin."""
    rows = ContactCode.objects.filter(contact=contact, purpose=purpose)
    return rows.latest("created_at").code


# --- where one goes then


def test_who_came_from_a_price_goes_on_to_launch_it(client):
    back = f"{SIGN_UP}?next=%2Flaunch%3Foffer%3Da100-80g-1t"
    answer = client.post(back, {"contact": "ann@example.com", "password": PASSWORD})
    assert answer["Location"] == "/launch?offer=a100-80g-1t"


def test_who_proves_a_contact_goes_on_too(client, with_codes):
    back = f"{SIGN_UP}?next=%2Flaunch%3Foffer%3Da100-80g-1t"
    client.post(back, {"contact": "ann@example.com", "password": PASSWORD})
    answer = client.post("/accounts/signup/code/", {"code": code_for("ann@example.com")})
    assert answer["Location"] == "/launch?offer=a100-80g-1t"


def test_nobody_is_sent_to_another_site(client):
    answer = client.post(
        f"{SIGN_UP}?next=%2F%2Fevil.example%2F", {"contact": "a@example.com", "password": PASSWORD}
    )
    assert answer["Location"] == f"/t/{Tenant.objects.get().slug}/"


# --- without proof


def test_by_e_mail_one_gets_a_tenant_a_project_and_credit(client):
    answer = post(client, "Ann@Example.com", organization="Acme Labs")

    user = User.objects.get()
    member = Membership.objects.get()
    assert (user.email, user.phone, user.email_verified_at) == ("ann@example.com", None, None)
    assert (member.user, member.role) == (user, Role.OWNER)
    assert (member.tenant.slug, member.tenant.name) == ("acme-labs", "Acme Labs")
    assert member.tenant.verification_level == Tenant.Verification.NONE
    assert Project.objects.get().is_default
    assert Wallet.objects.get(tenant_id=member.tenant_id).posted == TRIAL
    assert answer["Location"] == "/t/acme-labs/"
    assert signed_in(client) == str(user.pk)


@pytest.mark.parametrize(
    "typed",
    [
        "13800000000",
        "138 0000 0000",
        "+86 138-0000-0000",
        "0086 13800000000",
        "１３８００００００００",
    ],
)
def test_by_phone_in_any_spelling(client, typed):
    answer = post(client, typed)

    user, tenant = User.objects.get(), Tenant.objects.get()
    assert (user.email, user.phone) == (None, "+8613800000000")
    assert tenant.slug.startswith("t-")
    assert answer["Location"] == f"/t/{tenant.slug}/"


def test_the_language_of_the_page_stays_with_the_person(client):
    client.post("/language", {"language": "zh-hans", "next": "/"})

    post(client)

    assert User.objects.get().language == "zh-hans"


@pytest.mark.parametrize("typed", ["", "ann", "ann@", "12345", "+86 010 1234 5678", "+0123456789"])
def test_what_is_no_contact_makes_nothing(client, typed):
    answer = post(client, typed)

    assert answer.status_code == 422
    assert nothing_made()


@pytest.mark.parametrize("password", ["", "short", "password123", "ann@example.com"])
def test_a_weak_password_makes_nothing(client, password):
    answer = client.post(SIGN_UP, {"contact": "ann@example.com", "password": password})

    assert answer.status_code == 422
    assert nothing_made()


def test_a_taken_contact_makes_nothing_and_signs_nobody_in(client):
    make_user(email="ann@example.com")

    answer = post(client)

    assert answer.status_code == 422
    assert User.objects.count() == 1
    assert not Tenant.objects.exists()
    assert signed_in(client) is None


def test_closed_there_is_no_form(client, settings):
    settings.SIGNUP_ENABLED = False

    assert client.get(SIGN_UP).status_code == 404
    assert post(client).status_code == 404
    assert nothing_made()


def test_one_address_opens_a_few_an_hour(client, settings):
    settings.ACCOUNT_RATE_LIMITS = {"signup": "2/h/ip"}

    answers = [post(Client(), f"person{n}@example.com").status_code for n in range(3)]

    assert answers == [302, 302, 429]
    assert User.objects.count() == 2


def test_where_there_are_terms_one_agrees_first(client, settings):
    settings.SIGNUP_TERMS_URL, settings.SIGNUP_TERMS_VERSION = "https://example.com/terms", "2"

    refused = post(client)
    assert refused.status_code == 422
    assert nothing_made()
    post(client, agrees="on")

    consent = Consent.objects.get()
    assert (consent.user.email, consent.document, consent.version) == (
        "ann@example.com",
        "terms",
        "2",
    )


def test_a_second_tenant_of_a_name_gets_a_tail(client):
    make_tenant(slug="acme")

    answer = post(client, organization="Acme")

    assert answer["Location"].startswith("/t/acme-")


# --- trial credit


def test_credit_is_given_once_a_contact_though_it_changes_hands(client):
    post(client, "ann@example.com")
    first = User.objects.get()
    other = Contact("email", "ann2@example.com")
    services.set_contact(user=first, contact=other, is_verified=False, now=database_now())

    post(Client(), "ann@example.com")

    assert User.objects.count() == 2
    assert [row.amount for row in Transfer.objects.filter(code="credit")] == [TRIAL]


def test_the_first_page_leads_to_sign_up_and_names_the_credit(client):
    page = client.get("/").content.decode()

    assert ">Sign up</a>" in page
    assert "You start with ¥20.00 of credit" in page


def test_the_first_page_promises_nothing_where_nobody_may_sign_up(client, settings):
    settings.SIGNUP_ENABLED = False

    page = client.get("/").content.decode()

    assert SIGN_UP not in page
    assert "of credit" not in page


def test_without_a_setting_there_is_none(client, settings):
    settings.SIGNUP_TRIAL_CREDIT = 0
    assert "of credit" not in client.get("/").content.decode()

    post(client)

    assert Tenant.objects.count() == 1
    assert not Transfer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_at_once_one_account_and_one_credit_are_made():
    barrier = threading.Barrier(4)
    wanted = Wanted(Contact("phone", "+8613800000000"), password_hash="!", language="en")

    def run():
        try:
            barrier.wait()
            sign_up(wanted, is_verified=False, now=database_now())
            return "made"
        except EmailOrPhoneTaken:
            return "taken"
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        results = sorted(future.result() for future in [pool.submit(run) for _ in range(4)])

    assert results == ["made", "taken", "taken", "taken"]
    assert (User.objects.count(), Tenant.objects.count()) == (1, 1)
    assert [row.amount for row in Transfer.objects.filter(code="credit")] == [TRIAL]


@pytest.mark.django_db(transaction=True)
def test_credit_asked_for_at_once_is_given_once():
    tenant = make_tenant()
    barrier = threading.Barrier(4)

    def run():
        try:
            barrier.wait()
            contact = Contact("email", "ann@example.com")
            give_trial_credit(tenant_id=tenant.id, contact=contact, now=database_now())
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(run) for _ in range(4)]:
            future.result()

    assert Wallet.objects.get(tenant_id=tenant.id).posted == TRIAL


# --- with codes that the operator passes on


def test_nothing_is_made_before_the_code_came_back(client, with_codes):
    answer = post(client, "13800000000", organization="Acme")

    assert answer["Location"] == "/accounts/signup/code/"
    assert nothing_made()
    finished = client.post(answer["Location"], {"code": code_for("+8613800000000")})

    user, tenant = User.objects.get(), Tenant.objects.get()
    assert finished["Location"] == "/t/acme/"
    assert user.phone_verified_at is not None
    assert user.check_password(PASSWORD)
    assert tenant.verification_level == Tenant.Verification.CONTACT
    assert Wallet.objects.get(tenant_id=tenant.id).posted == TRIAL


def test_a_wrong_code_makes_nothing_and_five_end_it(client, with_codes):
    post(client)
    right = code_for("ann@example.com")
    wrong = "000000" if right != "000000" else "111111"

    for _ in range(5):
        assert client.post("/accounts/signup/code/", {"code": wrong}).status_code == 422
    answer = client.post("/accounts/signup/code/", {"code": right})

    assert answer.status_code == 422
    assert nothing_made()


def test_an_old_code_makes_nothing(client, with_codes):
    post(client)
    now = database_now()
    ContactCode.objects.update(expires_at=now, created_at=now - timedelta(minutes=15))

    answer = client.post("/accounts/signup/code/", {"code": code_for("ann@example.com")})

    assert answer.status_code == 422
    assert nothing_made()


def test_a_new_code_ends_the_old_one(client, with_codes):
    post(client)
    ContactCode.objects.update(code="123456")

    client.post("/accounts/signup/code/", {"again": "1"})
    ContactCode.objects.filter(expires_at__gt=database_now()).update(code="654321")

    assert client.post("/accounts/signup/code/", {"code": "123456"}).status_code == 422
    assert client.post("/accounts/signup/code/", {"code": "654321"}).status_code == 302


def test_five_codes_an_hour_are_the_most(client, with_codes):
    answers = [post(client).status_code for _ in range(6)]

    assert answers == [302] * 5 + [429]
    assert ContactCode.objects.count() == 5


def test_nobody_learns_from_the_form_whether_a_contact_has_an_account(client, with_codes):
    make_user(email="bob@example.com")

    for contact in ("ann@example.com", "bob@example.com"):
        browser = Client()
        first = post(browser, contact)
        page = browser.get(first["Location"])
        wrong = browser.post(first["Location"], {"code": "12345"})
        assert (first.status_code, page.status_code, wrong.status_code) == (302, 200, 422)
        assert "account" not in str(wrong.context["form"].errors)


def test_who_proves_a_contact_that_has_an_account_is_told(client, with_codes):
    make_user(email="ann@example.com")
    post(client)

    answer = client.post("/accounts/signup/code/", {"code": code_for("ann@example.com")})

    assert answer.context["form"].errors["code"] == [
        "You have an account already: sign in with it."
    ]
    assert signed_in(client) is None


# --- a forgotten password


def reset(client, contact, code=None, password="another horse battery"):
    first = client.post(RESET, {"contact": contact})
    assert first["Location"] == "/accounts/password/reset/code/"
    return client.post(first["Location"], {"code": code or "0", "password": password})


def test_a_code_and_a_new_password_sign_in_by_phone(client):
    user = make_user(phone="+8613800000000", password=PASSWORD)
    first = client.post(RESET, {"contact": "138 0000 0000"})

    answer = client.post(
        first["Location"],
        {"code": code_for("+8613800000000", "password"), "password": "another horse battery"},
    )

    user.refresh_from_db()
    assert answer["Location"] == "/console"
    assert user.check_password("another horse battery")
    assert user.phone_verified_at is not None
    assert signed_in(client) == str(user.pk)
    assert [str(said) for said in get_messages(answer.wsgi_request)] == ["The new password is set."]


def test_a_new_password_ends_sessions_elsewhere(client):
    make_user(email="ann@example.com", password=PASSWORD)
    elsewhere = Client()
    elsewhere.post("/accounts/login/", {"login": "ann@example.com", "password": PASSWORD})
    first = client.post(RESET, {"contact": "ann@example.com"})

    code = code_for("ann@example.com", "password")
    client.post(first["Location"], {"code": code, "password": "another horse battery"})

    assert elsewhere.get("/me").status_code == 302
    assert client.get("/console").status_code == 302


def test_without_the_code_the_password_stays(client):
    user = make_user(email="ann@example.com", password=PASSWORD)

    answer = reset(client, "ann@example.com", code="1")

    user.refresh_from_db()
    assert answer.status_code == 422
    assert user.check_password(PASSWORD)
    assert signed_in(client) is None


def test_a_contact_without_an_account_gets_the_same_page(client):
    answer = reset(client, "nobody@example.com", code="1")

    assert answer.status_code == 422
    assert not User.objects.exists()


def test_a_code_for_one_thing_opens_no_other(client, with_codes):
    make_user(email="ann@example.com", password=PASSWORD)
    post(Client(), "ann@example.com")
    client.post(RESET, {"contact": "ann@example.com"})
    ContactCode.objects.filter(purpose="password").update(code="111111")
    ContactCode.objects.filter(purpose="sign_up").update(code="222222")

    answer = client.post(
        "/accounts/password/reset/code/", {"code": "222222", "password": "another horse battery"}
    )

    assert answer.status_code == 422
