"""
From the first page to a prompt, on a real stack as the demo starts it: sign-up, launch, log-in,
stop. In both languages, by password and by key, with nobody's help, in under three minutes.
"""

import re
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from billing.core.rating import price_of_ticks
from rental.records.ids import from_text
from tests.journeys.newcomer import newcomer
from tests.journeys.stack import MICRO, SshKey, Stack, running_stack, state_dir, wait_for
from tests.web.browser.conftest import FLAGS, missing

pytestmark = [pytest.mark.xdist_group("first-visit"), pytest.mark.slow]

OFFER = "rtx4090-24g-1t"
LONGEST = 180  # s from the first page to the prompt
SPEAKERS = {"en": "nova-{way}@example.com", "zh-Hans": "1380000{way}"}
WAYS = {"password": "0001", "key": "0002"}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(state_dir("visit"), demo=True) as stack:
        yield stack


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        missing("chromium (apt-get install chromium fonts-noto-cjk)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.mark.parametrize("speaks", SPEAKERS)
@pytest.mark.parametrize("way", WAYS)
def test_from_the_first_page_to_a_prompt(
    stack: Stack, chromium: Browser, tmp_path: Path, capsys: Any, speaks: str, way: str
):
    key = SshKey.make(tmp_path, "laptop") if way == "key" else None
    with newcomer(chromium, stack.web) as somebody:
        # given somebody who has never been here
        somebody.arrive(speaks=speaks)
        somebody.sign_up(SPEAKERS[speaks].format(way=WAYS[way]))

        # when he launches what he can afford
        assert somebody.choose(OFFER, key=key) > 0
        command = somebody.launch()
        if key:
            said = somebody.log_in_by_key(command, key)
        else:
            said = somebody.log_in_by_password(command, somebody.reveal_password(), tmp_path)

        # then he is in, soon, and every page spoke his language
        assert said == "tessera-42"
        with capsys.disabled():
            steps = ", ".join(f"{step} {at:.1f} s" for step, at in somebody.times.items())
            print(f"\n  {speaks} by {way}: {steps}")
        assert somebody.times["prompt"] < LONGEST
        expect(somebody.page.locator("html")).to_have_attribute("lang", speaks)
        somebody.stop()


def micro(text: str) -> int:
    """The amount in a text of a page, in micro-units."""
    found = re.search(r"\d[\d,]*(\.\d+)?", text)
    assert found, text
    return int(Decimal(found[0].replace(",", "")) * MICRO)


def settled(stack: Stack, instance: str) -> dict[str, Any] | None:
    """The bill of the only run of the instance, once nothing more can come."""
    rows = stack.sql(
        """
        SELECT r.settled, r.closed_at_tick, max(p.price),
               sum(upper(c.units) - lower(c.units))::bigint, sum(c.amount)::bigint
        FROM billing_run r JOIN billing_charge c ON c.run_id = r.id
        JOIN billing_priceversion p ON p.id = c.price_version_id
        WHERE r.instance_id = %s GROUP BY r.id
        """,
        from_text("ins", instance),
    )
    names = ("settled", "closed_at_tick", "price", "ticks", "amount")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return found[0] if len(found) == 1 and found[0]["settled"] else None


def charged_on(page: Page) -> int:
    """What the cost tab says was charged, exactly."""
    return micro(page.locator("#tab dl dd").first.inner_text())


def test_the_price_is_one_number_everywhere(stack: Stack, chromium: Browser):
    # given somebody who looks at the price of a share
    with newcomer(chromium, stack.web) as somebody:
        page = somebody.page
        somebody.arrive(speaks="en")
        somebody.sign_up("price@example.com")
        shown = somebody.choose(OFFER)
        assert micro(page.locator("[data-price]").inner_text()) == shown
        quote = page.locator("[name=quote_id]").get_attribute("value")
        ((quoted,),) = stack.sql(
            "SELECT total_per_hour FROM rental_quote WHERE id = %s", from_text("quo", str(quote))
        )

        # when he launches and stops it
        somebody.launch()
        instance = page.url.split("/")[-1].split("?")[0]
        on_instance = micro(page.locator("#header .stat-value").first.inner_text())
        somebody.stop()
        bill = wait_for(
            "the run to be settled", lambda: settled(stack, instance), seconds=120, every=0.5
        )

        # then each place says the same, and the charges are made of it
        assert shown == quoted == on_instance == bill["price"] > 0
        assert bill["ticks"] == bill["closed_at_tick"] > 0
        assert bill["amount"] == price_of_ticks(bill["ticks"], price=shown, share=1)
        page.goto(f"{page.url.split('?')[0]}?tab=cost")
        assert charged_on(page) == bill["amount"]
        page.goto(re.sub(r"/instances/.*", "/billing/charges", page.url))
        expect(page.locator("main table").first).to_contain_text(
            str(Decimal(bill["amount"]) / MICRO)
        )
