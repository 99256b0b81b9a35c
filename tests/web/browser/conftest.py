"""
Chromium, pages, and what every page is watched for.

    def test_it_opens(page, web): page.goto(web.url + "/")

A page that writes an error to its console, throws, breaks the content security policy or loses a
request fails the test. ``page``, ``dark_page``, ``phone_page`` and ``zh_page`` are ready made;
``open_page(kind, user=…)`` makes more. ``axe(path, kind, user=…)`` returns what axe finds.
"""

import gc
import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connections
from playwright.sync_api import expect, sync_playwright

from tests.realtime.conftest import Web, sign_in

ROOT = Path(__file__).resolve().parents[3]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP = {"width": 1280, "height": 800}
PATIENCE = 20_000  # ms; two cores may have much else to do
expect.set_options(timeout=PATIENCE)
KINDS = {
    "light": {"color_scheme": "light", "locale": "en-US", "viewport": DESKTOP},
    "dark": {"color_scheme": "dark", "locale": "en-US", "viewport": DESKTOP},
    "phone": {
        "color_scheme": "light",
        "locale": "en-US",
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
    },
    "zh": {"color_scheme": "light", "locale": "zh-CN", "viewport": DESKTOP},
}
# A page that is left takes its requests and its half-open socket along.
LEFT = ("net::ERR_ABORTED", "WebSocket is closed before the connection is established")
# The browser says these on the console too; we want the directive and the place.
TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => console.error(
  `CSP ${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


def pytest_collection_modifyitems(items):
    """A worker has all of a group: one Chromium, and nobody else's event loop beside it."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            has_a_house = item.path.stem == "test_every_page"
            item.add_marker(pytest.mark.xdist_group("pages" if has_a_house else "browser"))


def missing(what):
    """Skip on a developer's machine; CI has to have it."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and this is CI", pytrace=False)
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="package")
def chromium():
    """
    The browser of all tests here. While it runs, the main thread counts as one with an event loop,
    in which Django would refuse its database; the tests' own code is the only one there.
    """
    path = shutil.which("chromium")
    if path is None:
        missing("chromium (apt-get install chromium fonts-noto-cjk)")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


class Console(Web):
    """The web process, for browsers."""

    @property
    def url(self):
        return f"http://{self.address}"

    def stop(self):
        super().stop()
        for thread in self.http._idle:
            thread.submit(connections.close_all).result(10)
            thread.shutdown()
        gc.collect()  # threads that ended on their own left their connections to it


@pytest.fixture
def web(chromium, transactional_db):
    server = Console().start()
    yield server
    server.stop()


class Watch:
    """What went wrong on a page. ``allow(text)``: a fault that has it is the test's purpose."""

    def __init__(self, page, origin):
        self.faults, self._allowed, self._origin = [], [], origin
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.faults.append(f"threw: {error}"))
        page.on("requestfailed", self._on_failed)
        page.on("response", self._on_response)

    def allow(self, *texts):
        self._allowed.extend(texts)

    def check(self):
        left = [f for f in self.faults if not any(text in f for text in self._allowed)]
        assert left == []

    def _on_console(self, message):
        if message.type in {"error", "warning"} and not message.text.endswith(LEFT[1] + "."):
            self.faults.append(f"console {message.type}: {message.text}")

    def _on_failed(self, request):
        if self._is_ours(request.url) and request.failure != LEFT[0]:
            self.faults.append(f"failed: {request.method} {request.url} {request.failure}")

    def _on_response(self, response):
        if self._is_ours(response.url) and response.status >= 500:
            self.faults.append(f"answered {response.status}: {response.url}")

    def _is_ours(self, url):
        return urlsplit(url).netloc == self._origin


@pytest.fixture
def open_page(chromium, web):
    """Open pages: ``open_page("dark", user=…, bypass_csp=…)``; ``page.watch`` is its Watch."""
    contexts, watches = [], []

    def open_it(kind="light", *, user=None, **options):
        context = chromium.new_context(base_url=web.url, **KINDS[kind], **options)
        context.add_init_script(TELL_VIOLATIONS)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.watch = Watch(page, web.address)
        watches.append(page.watch)
        if user is not None:
            enter(page, user, web.url)
        return page

    yield open_it
    for context in contexts:
        context.close()
    for watch in watches:
        watch.check()


def enter(page, user, url):
    """Sign ``user`` in on this page, without the form."""
    page.context.add_cookies(
        [{"name": settings.SESSION_COOKIE_NAME, "value": sign_in(user), "url": url}]
    )


@pytest.fixture
def page(open_page):
    return open_page("light")
