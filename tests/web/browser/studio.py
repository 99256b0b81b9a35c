"""Browsers and a web process with the filled house, for taking pictures."""

import contextlib
import shutil

from playwright.sync_api import sync_playwright

from tests.web.browser.conftest import FLAGS, KINDS, PATIENCE, Console, enter
from tests.web.browser.house import House
from tests.web.browser.pages import open_look, words_of

KINDS = KINDS | {"zh-dark": KINDS["zh"] | {"color_scheme": "dark"}}


class Studio:
    def __enter__(self):
        self._open = contextlib.ExitStack()
        self.house = House()
        self.server = Console().start()
        self._open.callback(self.server.stop)
        playwright = self._open.enter_context(sync_playwright())
        self.browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        self._open.callback(self.browser.close)
        return self

    def __exit__(self, *failure):
        self._open.close()

    def page(self, kind, who):
        """A page of ``who`` in ``kind``; people read the language of their browser here."""
        context = self.browser.new_context(
            base_url=self.server.url, reduced_motion="reduce", **KINDS[kind]
        )
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        if who != "nobody":
            person = getattr(self.house, who)
            language = "zh-hans" if kind.startswith("zh") else "en"
            type(person).objects.filter(pk=person.pk).update(language=language)
            enter(page, person, self.server.url)
        return page

    def take(self, look, kind, *, whole=True):
        """Return the picture as PNG; ``whole``: as far as the page scrolls."""
        page = self.page(kind, look.who)
        try:
            open_look(page, look, words_of(self.house))
            if look.is_admins and "dark" in kind:
                page.evaluate("document.documentElement.classList.add('dark')")
            page.wait_for_load_state("networkidle")
            page.evaluate("document.fonts.ready")
            return page.screenshot(full_page=whole)
        finally:
            page.context.close()
