"""allauth's pages and the other public ones in our look: axe finds nothing, nothing breaks."""

import pytest

from tests.factories.tenants import make_user

PUBLIC = ["/prices", "/v1/docs", "/accounts/password/reset/"]
MINE = ["/accounts/password/change/", "/accounts/logout/", "/accounts/2fa/"]


@pytest.fixture
def user(db):
    return make_user(language="en")


@pytest.mark.parametrize("kind", ["light", "dark"])
@pytest.mark.parametrize("path", PUBLIC)
def test_axe_finds_nothing_on_public_pages(axe, path, kind):
    assert axe(path, kind) == []


@pytest.mark.parametrize("kind", ["light", "dark"])
@pytest.mark.parametrize("path", MINE)
def test_axe_finds_nothing_on_pages_of_the_account(axe, user, path, kind):
    assert axe(path, kind, user=user) == []


@pytest.mark.parametrize("kind", ["light", "dark"])
def test_axe_finds_nothing_on_the_way_to_a_second_factor(axe, user, kind):
    user.set_password("correct horse battery")
    user.save()

    def confirm(page):
        page.fill("input[type=password]", "correct horse battery")
        page.get_by_role("button", name="Confirm").click()
        page.wait_for_selector("#authenticator_secret")

    assert axe("/accounts/2fa/totp/activate/", kind, user=user) == []
    assert axe("/accounts/2fa/totp/activate/", kind, user=user, act=confirm) == []
