"""Staff who need a second factor: set up, out, in again by code and by recovery code."""

import re
import time

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core.cache import cache
from playwright.sync_api import expect

from tests.factories.tenants import make_user

PASSWORD = "correct horse battery"


@pytest.fixture
def boss(web, settings):
    settings.STAFF_MFA_REQUIRED = True
    cache.clear()
    return make_user(
        email="boss@example.com", password=PASSWORD, is_staff=True, is_superuser=True, language="en"
    )


def code_of(secret, steps=0):
    """What an app shows ``steps`` half minutes from now: a code is taken once only."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps))


def sign_in(page, user):
    page.fill("[name=login]", user.email)
    page.fill("[name=password]", PASSWORD)
    page.locator("main form button[type=submit]").click()


def sign_out(page):
    page.locator("#logout-form button").dispatch_event("click")
    expect(page).to_have_url(re.compile(r"/$"))


def answer(page, code):
    page.fill("[name=code]", code)
    page.locator("main form button[type=submit]").first.click()


def test_an_operator_sets_up_a_second_factor_and_signs_in_with_it(open_page, boss):
    page = open_page("light")
    page.goto("/admin/prices/")
    sign_in(page, boss)

    # The password was typed a moment ago, and is not asked for again.
    expect(page.get_by_role("heading", name="Set up the second factor")).to_be_visible()
    expect(page.get_by_text("opens with a second factor")).to_be_visible()
    secret = page.input_value("#authenticator_secret")
    answer(page, code_of(secret))

    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    recovery = page.input_value("#recovery_codes").split()
    page.get_by_role("link", name="to the administration").click()
    expect(page).to_have_url(re.compile("/admin/setup/$"))

    sign_out(page)
    page.goto("/admin/prices/")
    sign_in(page, boss)
    expect(page.get_by_text("one of your recovery codes")).to_be_visible()
    answer(page, "000000")
    expect(page.locator(".field-error")).to_be_visible()
    answer(page, code_of(secret, steps=1))
    expect(page).to_have_url(re.compile("/admin/prices/$"))

    sign_out(page)
    page.goto("/admin/prices/")
    sign_in(page, boss)
    answer(page, recovery[0])
    expect(page).to_have_url(re.compile("/admin/prices/$"))
