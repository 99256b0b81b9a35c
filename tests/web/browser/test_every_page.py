"""
Each page of the list: axe in light and dark, policy, console, one h1, no wider than a phone.

One house, one server and one page for each person serve all of them: a look costs about a second.
"""

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from django.urls import get_resolver

from tests.api.walk import routes
from tests.web.browser.conftest import (
    AXE,
    KINDS,
    PATIENCE,
    TELL_VIOLATIONS,
    Console,
    Watch,
    enter,
    missing,
)
from tests.web.browser.house import House
from tests.web.browser.pages import LOOKS, NO_PAGES, open_look, words_of

pytestmark = pytest.mark.slow

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
UNFOLD = "document.querySelectorAll('main details').forEach((one) => { one.open = true })"
# Nothing else that axe looks at depends on the theme.
OF_COLOURS = ["color-contrast", "link-in-text-block"]
RUN_AXE = """({rules, exclude, without}) => axe.run({exclude}, {
  resultTypes: ["violations"], ...(rules && {runOnly: {type: "rule", values: rules}}),
  rules: Object.fromEntries(without.map((rule) => [rule, {enabled: false}])),
})"""
# Faults of django-unfold that we cannot mend: its header is a <div>, in which the h1 stands outside
# of every landmark; its own lists have no <main>, and two scrolling regions of one name.
UNFOLDS_HEADER = ["#header-inner"]
UNFOLDS_RULES = ["region", "landmark-one-main", "landmark-unique"]


@pytest.fixture(scope="module")
def house(django_db_setup, django_db_blocker):
    """Committed, as the server's threads read it; emptied afterwards like after any other test."""
    own = override_settings(SIGNUP_ENABLED=True, RATE_LIMITS_ENABLED=False, HINTS_ENABLED=False)
    with django_db_blocker.unblock(), own:
        assert connection.settings_dict["NAME"].startswith("test_")
        cache.clear()
        empty()  # of what a run that was ended left behind
        yield House()
        empty()


def empty():
    call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)


@pytest.fixture
def transactional_db(house):
    """pytest-django counts these tests as such, but the house stands until the last of them."""


class Visitors:
    """One page for each person, signed in once."""

    def __init__(self, chromium, house):
        self.chromium, self.house, self.contexts = chromium, house, {}
        self.server = Console().start()

    def page_of(self, who):
        if who not in self.contexts:
            context = self.chromium.new_context(
                base_url=self.server.url, reduced_motion="reduce", **KINDS["light"]
            )
            context.add_init_script(TELL_VIOLATIONS)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.watch = Watch(page, self.server.address)
            if who != "nobody":
                enter(page, getattr(self.house, who), self.server.url)
            self.contexts[who] = page
        return self.contexts[who]

    def close(self):
        for page in self.contexts.values():
            page.context.close()
        self.server.stop()


@pytest.fixture(scope="module")
def visitors(chromium, house):
    if not AXE.exists():
        missing("axe-core (make assets)")
    them = Visitors(chromium, house)
    yield them
    them.close()


def violations(page, look, *, theme, rules=None):
    exclude = [[one] for one in UNFOLDS_HEADER] if look.is_admins else []
    without = UNFOLDS_RULES if look.is_unfolds and not rules else []
    found = page.evaluate(RUN_AXE, {"rules": rules, "exclude": exclude, "without": without})
    return [
        f"axe {theme} {rule['id']}: {node['html'][:160]} | {node['failureSummary'][:240]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def darken(page, look):
    """What a choice of the theme does, without another request; colours are there a frame later."""
    page.evaluate(
        "document.documentElement.classList.add('dark')"
        if look.is_admins
        else "document.documentElement.dataset.theme = 'tessera-dark'"
    )
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_a_page_is_right(transactional_db, visitors, house, look):
    page = visitors.page_of(look.who)
    page.watch.faults.clear()
    page.set_viewport_size(KINDS["light"]["viewport"])

    faults = []
    if (status := open_look(page, look, words_of(house))) != look.status:
        faults.append(f"answered {status}")
    if not page.title().strip():
        faults.append("no title")
    if (count := page.locator("h1").count()) != 1:
        faults.append(f"{count} h1")
    page.evaluate(UNFOLD)
    page.evaluate(AXE.read_text())
    faults += violations(page, look, theme="light")
    darken(page, look)
    faults += violations(page, look, theme="dark", rules=OF_COLOURS)
    page.set_viewport_size(KINDS["phone"]["viewport"])
    if wider := page.evaluate(WIDER):
        faults.append(f"wider than a phone by {wider} px")
    noted = f"status of {max(look.status, look.says)}"
    faults += [one for one in page.watch.faults if noted not in one]
    assert faults == []


def test_no_page_is_forgotten():
    """Whatever answers GET to people stands in the list, or is said to be no page, and why."""
    known = {look.route for look in LOOKS} | set(NO_PAGES)
    found = set()
    for route, callback in routes(get_resolver("config.urls").url_patterns):
        methods = [*getattr(callback, "verbs", ()), *getattr(callback, "personal", ())]
        ours = callback.__module__.startswith(("rental.web.", "rental.operate."))
        if "GET" in methods or (ours and not methods):
            found.add(route)
    assert found - known == set()
    # Toolkits' pages are listed by hand; ours have to exist.
    everything = {route for route, _ in routes(get_resolver("config.urls").url_patterns)}
    assert known - everything == set()
