"""The pattern library and the first page: looks, policy, and each behaviour once."""

import pytest
from django.utils import translation
from playwright.sync_api import expect

from rental.web.amounts import distance
from tests.factories.tenants import make_tenant, make_user, owner_of


@pytest.fixture
def staff(db):
    return make_user(is_staff=True, is_superuser=True, language="en")


@pytest.fixture
def library(open_page, staff):
    page = open_page("light", user=staff)
    page.goto("/dev/components")
    return page


def theme_of(page):
    return page.evaluate("document.documentElement.dataset.theme")


def test_the_theme_is_the_systems_until_somebody_chooses_and_the_choice_stays(open_page):
    page = open_page("dark")
    page.goto("/")
    assert theme_of(page) == "tessera-dark"

    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Light").click()
    assert theme_of(page) == "tessera"
    page.reload()
    assert theme_of(page) == "tessera"

    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="As the system").click()
    assert theme_of(page) == "tessera-dark"


def test_a_copy_button_copies_and_says_so(library):
    library.context.grant_permissions(["clipboard-read", "clipboard-write"])

    library.get_by_role("button", name="Copy the command").click()

    expect(library.locator("#said")).to_have_text("Copied")
    assert library.evaluate("navigator.clipboard.readText()") == "ssh -p 22001 root@127.0.0.1"


def test_the_dialog_takes_the_focus_and_gives_it_back(library):
    opener = library.locator("#open-dialog")
    dialog = library.get_by_role("dialog", name="Stop train-01?")

    opener.click()
    expect(dialog).to_be_visible()
    library.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()

    opener.click()
    dialog.get_by_role("button", name="Keep it running").click()
    expect(dialog).to_be_hidden()


def test_a_toast_says_what_happened_and_an_error_names_its_request(library):
    toasts = library.locator("#toasts")
    library.watch.allow("409")

    library.click("#try-toast")
    expect(toasts.get_by_text("The instance stops.")).to_be_visible()
    library.click("#try-error")

    expect(toasts.locator("[data-level=bad]")).to_contain_text("Request req_")
    toasts.locator("[data-level=bad]").get_by_role("button", name="Close").click()
    expect(toasts.locator("[data-level=bad]")).to_have_count(0)


def test_a_toast_goes_by_itself_even_under_a_pointer_that_lies_still(library):
    library.clock.install()
    library.goto("/dev/components")
    toast = library.locator("#toasts").get_by_text("The instance stops.")

    library.click("#try-toast")
    toast.hover()
    library.clock.run_for(10_000)
    expect(toast).to_be_visible()
    library.clock.run_for(6_000)

    expect(toast).to_have_count(0)


@pytest.mark.parametrize(("language", "kind"), [("en", "light"), ("zh-hans", "zh")])
def test_the_browser_says_how_long_ago_in_the_servers_words(open_page, language, kind):
    page = open_page(kind)
    page.goto("/")
    spans = [way * n for n in (1, 2, 75, 4_000, 90_000, 8e6, 9e7) for way in (-1, 1)]

    said = page.evaluate(
        """async (spans) => {
          const now = Date.now();
          const marks = spans.map((span) => {
            const mark = document.createElement("time");
            mark.dataset.ago = "";
            mark.dateTime = new Date(now + span * 1000).toISOString();
            return mark;
          });
          document.querySelector("main").append(...marks);
          document.dispatchEvent(new Event("visibilitychange"));
          return marks.map((mark) => mark.textContent);
        }""",
        spans,
    )

    with translation.override(language):
        assert said == [distance(int(span)) for span in spans]


def test_a_server_that_cannot_be_reached_is_said_in_words(library):
    library.watch.allow("ERR_FAILED", "htmx:error")
    library.route("**/dev/components", lambda route: route.abort())

    library.click("#open-dialog")

    expect(library.locator("#toasts")).to_contain_text("The server cannot be reached.")
    expect(library.locator("#open-dialog")).to_be_enabled()


def test_a_server_that_fails_is_said_in_words_and_leaves_the_page(library):
    library.watch.allow("500")
    library.route(
        "**/dev/components",
        lambda route: route.fulfill(
            status=500, body="<h1>no</h1>", headers={"X-Request-Id": "req_7"}
        ),
    )

    library.click("#open-dialog")

    expect(library.locator("#toasts")).to_contain_text("The server failed.")
    expect(library.locator("#toasts")).to_contain_text("Request req_7")
    expect(library.locator("#dialog")).to_be_hidden()


@pytest.fixture
def console(open_page):
    """Any page of a tenant, as its owner."""
    tenant = make_tenant(slug="acme")
    user = owner_of(tenant)
    user.language = "en"
    user.save()
    page = open_page("light", user=user)
    page.goto("/t/acme/team")
    return page


def test_the_palette_finds_a_page_and_goes_there(console):
    console.keyboard.press("Control+k")
    palette = console.get_by_role("dialog", name="Command palette")
    expect(palette).to_be_visible()

    console.keyboard.type("inst")
    expect(palette.get_by_role("option", name="Instances")).to_be_visible()
    expect(palette.get_by_role("option", name="Billing")).to_be_hidden()
    console.keyboard.press("Enter")

    console.wait_for_url("**/t/acme/instances")


def test_keys_jump_to_pages_and_list_themselves(console):
    console.keyboard.press("?")
    expect(console.get_by_role("dialog", name="Keys")).to_be_visible()
    console.keyboard.press("Escape")

    console.keyboard.press("g")
    console.keyboard.press("i")

    console.wait_for_url("**/t/acme/instances")


def test_the_phone_has_the_pages_at_its_foot_and_the_rest_in_a_drawer(console, open_page):
    page = open_page("phone")
    page.context.add_cookies(console.context.cookies())
    page.goto("/t/acme/team")

    page.get_by_role("button", name="More").click()
    drawer = page.get_by_role("dialog", name="Menu")
    expect(drawer.get_by_role("link", name="Audit")).to_be_visible()
    drawer.get_by_role("button", name="Close").click()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Instances").click()

    page.wait_for_url("**/t/acme/instances")


def test_the_language_changes_and_stays(page):
    page.goto("/")
    page.get_by_role("button", name="中文").click()

    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    page.goto("/accounts/login/")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")


def test_an_address_that_is_not_there_is_answered_in_our_frame(page):
    page.watch.allow("404")
    page.goto("/nowhere")

    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing at this address")
