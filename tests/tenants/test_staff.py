"""Staff need a second factor before any page of the admin opens."""

import re

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.cache import cache
from django.test import Client
from django.urls import get_resolver

from rental.records.clock import database_now
from rental.tenants import services
from rental.tenants.contacts import Contact
from rental.tenants.models import AuditEvent, ContactCode, StaffRole
from tests.api.walk import routes
from tests.factories.tenants import make_user

pytestmark = pytest.mark.django_db

OPEN = {"admin/login/", "admin/logout/"}


@pytest.fixture(autouse=True)
def _required(settings):
    settings.STAFF_MFA_REQUIRED = True
    cache.clear()


def browser(user):
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def superuser():
    return make_user(is_staff=True, is_superuser=True, password="correct horse battery")


def test_without_a_factor_no_page_of_the_admin_opens():
    client = browser(superuser())

    for route, _callback in routes(get_resolver("config.urls").url_patterns):
        if not route.startswith("admin/") or route in OPEN:
            continue
        url = "/" + re.sub(r"<[^>]+>|\(\?P<[^)]*\)|[\^$]", "x", route)
        answer = client.get(url)
        assert answer.status_code in {302, 404}, url
        if answer.status_code == 302:
            assert answer["Location"].startswith("/admin/login/"), url


def test_without_a_factor_one_is_led_to_set_one_up():
    client = browser(superuser())

    answer = client.get("/admin/", follow=True)

    # Past the admin's door to the set-up, which asks for the password once more.
    assert [url.partition("?")[0] for url, _ in answer.redirect_chain] == [
        "/admin/login/",
        "/accounts/2fa/totp/activate/",
        "/accounts/reauthenticate/",
    ]
    assert "set one up first" in answer.content.decode()


def test_with_a_factor_it_opens():
    user = superuser()
    TOTP.activate(user, generate_totp_secret())

    assert browser(user).get("/admin/tenants/user/").status_code == 200


def test_recovery_codes_alone_are_no_factor():
    user = superuser()
    RecoveryCodes.activate(user)

    assert browser(user).get("/admin/tenants/user/").status_code == 302


def test_where_it_is_not_required_it_opens(settings):
    settings.STAFF_MFA_REQUIRED = False

    assert browser(superuser()).get("/admin/tenants/user/").status_code == 200


def test_a_factor_makes_nobody_staff():
    user = make_user(password="correct horse battery")
    TOTP.activate(user, generate_totp_secret())

    assert browser(user).get("/admin/", follow=True).status_code == 403


# --- codes to pass on


CODES = "/admin/tenants/contactcode/"


@pytest.fixture
def supporter(settings):
    settings.STAFF_MFA_REQUIRED = False
    user = make_user(is_staff=True)
    role = StaffRole.objects.create(code="desk", name="Desk", verbs=["tenants:write"])
    user.staff_roles.add(role)
    return user


def code_for(contact):
    return services.make_code(
        contact=contact, purpose=ContactCode.Purpose.PASSWORD, now=database_now()
    )


def test_a_member_of_staff_reads_a_code_and_it_is_audited(supporter):
    code = code_for(Contact("email", "ann@example.com"))
    client = browser(supporter)

    listed = client.get(CODES).content.decode()
    page = client.get(f"{CODES}{code.pk}/change/").content.decode()

    assert "ann@example.com" in listed
    assert code.code not in listed
    assert code.code in page
    event = AuditEvent.objects.get(verb="code.shown")
    assert event.after == {"contact": "a…@example.com", "purpose": "password"}


def test_codes_of_staff_are_for_superusers_alone(supporter):
    boss = superuser()
    code = code_for(Contact("email", boss.email))

    answer = browser(supporter).get(f"{CODES}{code.pk}/change/")

    assert answer.status_code == 302  # there is none such
    assert boss.email not in browser(supporter).get(CODES).content.decode()
    assert not AuditEvent.objects.filter(verb="code.shown").exists()
    assert code.code in browser(boss).get(f"{CODES}{code.pk}/change/").content.decode()


def test_a_used_code_is_shown_to_nobody(supporter):
    code = code_for(Contact("email", "ann@example.com"))
    services.use_code(
        contact=Contact("email", "ann@example.com"),
        purpose=ContactCode.Purpose.PASSWORD,
        code=code.code,
        now=database_now(),
    )

    assert browser(supporter).get(f"{CODES}{code.pk}/change/").status_code == 302


def test_who_may_only_read_sees_no_codes():
    reader = make_user(is_staff=True)
    role = StaffRole.objects.create(code="look", name="Look", verbs=["tenants:read"])
    reader.staff_roles.add(role)

    assert browser(reader).get(CODES).status_code in {302, 403}


# --- who may not is told what is missing


@pytest.fixture
def newcomer(settings):
    settings.STAFF_MFA_REQUIRED = False
    return make_user(is_staff=True)


def role(name, *verbs):
    return StaffRole.objects.create(code=name.lower(), name=name, verbs=list(verbs))


def test_staff_without_a_role_is_told_who_gives_one(newcomer):
    boss = superuser()

    for path, status in (("/admin/", 200), ("/admin/prices/", 403), ("/admin/tenants/user/", 403)):
        answer = browser(newcomer).get(path)
        assert answer.status_code == status
        page = answer.content.decode()
        assert "no role yet" in page
        assert boss.email in page


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("/admin/prices/", "billing:read"),
        ("/admin/billing/wallet/", "billing:read"),
        ("/admin/scheduler/zone/add/", "scheduler:write"),
        ("/admin/credit/", "billing:credit"),
    ],
)
def test_a_refusal_names_the_verb_and_the_roles_that_have_it(newcomer, path, verb):
    newcomer.staff_roles.add(role("Desk", "scheduler:read"))
    role("Money", verb), role("All", "*"), role("Other", "tenants:read")

    answer = browser(newcomer).get(path)

    assert answer.status_code == 403
    assert answer.context["verb"] == verb
    names = {one.name for one in answer.context["holders"]}
    assert {"All", "Money"} <= names
    assert "Other" not in names
    assert [one.name for one in answer.context["roles"]] == ["Desk"]


def test_what_is_a_superusers_alone_names_no_verb(newcomer):
    newcomer.staff_roles.add(role("All", "*"))

    answer = browser(newcomer).get("/admin/tenants/staffrole/add/")

    assert answer.status_code == 403
    assert answer.context["verb"] == ""
    assert "Only a superuser" in answer.content.decode()


def test_the_menu_leads_to_the_second_factor(newcomer):
    page = browser(newcomer).get("/admin/").content.decode()

    assert 'href="/accounts/2fa/"' in page
    assert 'href="/accounts/password/change/"' in page
