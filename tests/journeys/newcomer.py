"""Somebody who has never been here: a browser, a terminal, and nothing but what pages say."""

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect

from tests.journeys.stack import SshKey, wait_for
from tests.web.browser.conftest import KINDS, PATIENCE, TELL_VIOLATIONS, Watch

PASSWORD = "correct horse battery"
RUNNING = 90_000  # ms to wait for a running instance
# Asked at the first log-in and not about us; everything else is as the page says it.
FIRST_TIME = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
FIRST_TIME += ["-o", "LogLevel=ERROR", "-o", "NumberOfPasswordPrompts=1"]


@dataclass
class Newcomer:
    page: Page
    began: float = field(default_factory=time.monotonic)
    times: dict[str, float] = field(default_factory=dict)

    def mark(self, step: str) -> None:
        self.times[step] = time.monotonic() - self.began

    # --- in

    def arrive(self, *, speaks: str) -> None:
        self.page.goto("/")
        if speaks == "zh-Hans":
            self.page.get_by_role("button", name="中文").click()
        expect(self.page.locator("html")).to_have_attribute("lang", speaks)
        self.mark("first page")

    def sign_up(self, contact: str) -> None:
        self.page.locator("main a[href='/accounts/signup/']").first.click()
        self.page.fill("[name=contact]", contact)
        self.page.fill("[name=password]", PASSWORD)
        self.page.locator("main form button[type=submit]").click()
        self.page.wait_for_url("**/t/*/")
        self.mark("account")

    # --- an instance

    def choose(self, offer: str, *, key: SshKey | None = None) -> int:
        """Fill the launch page; return the price an hour that it shows, in micro-units."""
        page = self.page
        page.locator("main a[href$='/launch']").first.click()
        page.wait_for_url("**/launch")
        page.locator(f"label:has([name=offer][value='{offer}'])").click()
        page.locator("label:has([name=image][value='ubuntu-22.04'])").click()
        if key is None:
            page.locator("[name=password_login]").check()
        else:
            page.locator("details:has([name=new_key]) summary").click()
            page.fill("[name=new_key]", key.public)
        expect(page.locator("[data-launch-button]")).to_be_enabled()
        return int(page.locator("[data-price]").get_attribute("data-price") or 0)

    def launch(self) -> str:
        """Press the button; return the SSH command once the page says by itself that it runs."""
        page = self.page
        page.locator("[data-launch-button]").click()
        page.wait_for_url("**/instances/ins_*")
        self.mark("ordered")
        page.evaluate("window.sameDocument = true")
        expect(page.locator("#header [data-state]")).to_have_attribute(
            "data-state", "running", timeout=RUNNING
        )
        command = page.locator("#tab [data-copy^='ssh ']").first.get_attribute("data-copy")
        assert page.evaluate("window.sameDocument")  # nobody reloaded it
        self.mark("running")
        return str(command)

    def reveal_password(self) -> str:
        self.page.locator("#password form button").click()
        shown = self.page.locator("#password [data-copy]").first
        return str(shown.get_attribute("data-copy"))

    def stop(self) -> None:
        page = self.page
        page.locator("#header [hx-get$='/stop']").click()
        dialog = page.locator("#dialog")
        dialog.locator("[data-effect]").wait_for()
        dialog.locator("button[type=submit]").click()
        expect(page.locator("#header [data-state]")).to_have_attribute(
            "data-state", "stopped", timeout=RUNNING
        )

    # --- a terminal

    def log_in(self, command: str, *options: str, env: dict[str, str] | None = None) -> str:
        """Run the page's own command with a word to say; return what the instance said."""
        words = [*shlex.split(command), *FIRST_TIME, *options, "echo tessera-$((40 + 2))"]

        def run() -> str | None:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=30, check=False,
                stdin=subprocess.DEVNULL, env=os.environ | (env or {}),
            )  # fmt: skip
            return done.stdout.strip() or None

        said = wait_for("ssh to answer", run, seconds=20)
        self.mark("prompt")
        return said

    def log_in_by_password(self, command: str, password: str, folder: Path) -> str:
        """As a person types it: ssh asks a program instead of a terminal."""
        asked = folder / "askpass"
        asked.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(password)}\n")
        asked.chmod(0o700)
        return self.log_in(
            command, "-o", "PreferredAuthentications=password", "-o", "PubkeyAuthentication=no",
            env={"SSH_ASKPASS": str(asked), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"},
        )  # fmt: skip

    def log_in_by_key(self, command: str, key: SshKey) -> str:
        return self.log_in(
            command, "-i", str(key.path), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"
        )


@contextlib.contextmanager
def newcomer(browser: Browser, web: str) -> Iterator[Newcomer]:
    """A browser with no past; its page must have complained of nothing in the end."""
    options: dict[str, Any] = KINDS["light"]
    context = browser.new_context(base_url=web, **options)
    context.add_init_script(TELL_VIOLATIONS)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    watch = Watch(page, urlsplit(web).netloc)
    try:
        yield Newcomer(page)
    finally:
        context.close()
    watch.check()
