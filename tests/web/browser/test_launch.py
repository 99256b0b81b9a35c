"""Launch page and price list: no price of other fields is ever shown as the present one."""

import pytest
from playwright.sync_api import expect

from rental.instances.models import Instance
from tests.factories.rental import make_gpu_model, make_image, make_node, make_offer
from tests.web.rented import Rented


@pytest.fixture
def rented(transactional_db):
    """A100 whole and in tenths, and a T4 on which the newest image does not run."""
    rented = Rented()
    make_offer("a100-80g", tenths=10, price=4_900_000, now=rented.now)
    make_gpu_model("T4", 16384, "7.5")
    make_offer(
        "t4-16g", tenths=10, price=600_000, gpu_model_name="T4", gpu_memory_mib=16384,
        vram_mib=16384, now=rented.now,
    )  # fmt: skip
    make_node(model="T4", memory_mib=16384, now=rented.now)
    make_image("newest", name="PyTorch 9.0", min_capability=80)
    type(rented.owner).objects.filter(pk=rented.owner.pk).update(language="en")
    rented.owner.refresh_from_db()
    return rented


@pytest.fixture
def launch(open_page, rented):
    page = open_page("light", user=rented.owner)
    page.goto(f"/t/{rented.tenant.slug}/launch")
    return page


def price(page):
    return page.locator("[data-price]")


def button(page):
    return page.locator("[data-launch-button]")


def choose(page, code):
    page.locator(f"label:has([name=offer][value='{code}'])").click()


def choose_card(page, slug):
    page.locator(f"label:has([data-card][value='{slug}'])").click()


def test_a_phone_unfolds_the_offers_of_a_card_and_a_desk_has_them_all(open_page, rented):
    for kind in ("phone", "light"):
        page = open_page(kind)
        page.goto("/prices")
        offers = page.locator("#t4-16g code", has_text="t4-16g")
        if kind == "phone":
            expect(offers).to_be_hidden()
            expect(page.locator("#t4-16g").get_by_text("from ¥0.60/h")).to_be_visible()
            page.locator("#t4-16g summary").click()
        expect(offers).to_be_visible()


def test_the_price_follows_the_fields(launch):
    expect(price(launch)).to_have_text("¥0.49/h")

    choose(launch, "a100-80g")
    expect(price(launch)).to_have_text("¥4.90/h")
    launch.fill("#id_count", "2")
    expect(price(launch)).to_have_text("¥9.80/h")
    launch.fill("#id_stop_after", "2")
    expect(launch.get_by_text("At most, until it stops by itself")).to_be_visible()
    expect(launch.locator("[name=stop][value=after]")).to_be_checked()
    expect(button(launch)).to_be_enabled()


def test_a_late_answer_never_shows_a_price_of_other_fields(launch):
    held = []
    launch.route("**/launch/estimate", lambda route: held.append(route))
    box = launch.locator("[data-estimate]")

    choose(launch, "a100-80g")
    expect(button(launch)).to_be_disabled()
    expect(box).to_have_class("estimate-box is-stale")
    expect(launch.get_by_text("Working out the price")).to_be_visible()
    launch.fill("#id_count", "2")
    launch.wait_for_timeout(600)  # both are under way
    assert len(held) == 2
    held[1].continue_()
    expect(price(launch)).to_have_text("¥9.80/h")
    expect(button(launch)).to_be_enabled()
    held[0].continue_()  # the answer for one card comes last

    launch.wait_for_timeout(400)
    expect(price(launch)).to_have_text("¥9.80/h")
    expect(button(launch)).to_be_enabled()


def test_back_at_the_first_fields_their_price_counts_again(launch):
    held = []
    launch.route("**/launch/estimate", lambda route: held.append(route))

    launch.fill("#id_count", "3")
    expect(button(launch)).to_be_disabled()
    launch.fill("#id_count", "1")

    expect(button(launch)).to_be_enabled()
    expect(price(launch)).to_have_text("¥0.49/h")


def test_enter_sends_nothing_before_the_price_is_there(launch, rented):
    sent = []
    launch.on("request", lambda request: sent.append(request.url))
    launch.route("**/launch/estimate", lambda route: None)
    choose(launch, "a100-80g")

    launch.focus("#id_name")
    launch.keyboard.press("Enter")
    launch.wait_for_timeout(300)

    assert [url for url in sent if url.endswith("/order")] == []
    assert not Instance.objects.of(rented.tenant.id).exists()


def test_a_card_brings_its_offers_and_only_images_that_run_on_it(launch):
    choose_card(launch, "t4-16g")

    expect(launch.locator("[name=offer][value='t4-16g']")).to_be_checked()
    expect(price(launch)).to_have_text("¥0.60/h")
    expect(launch.locator("label:has([value='newest'])")).to_be_hidden()
    expect(launch.locator("label:has([value='pytorch-2.6.0-cuda12.4'])")).to_be_visible()


def test_an_image_that_does_not_run_on_the_new_card_is_asked_for_again(launch):
    launch.locator("label:has([value='newest'])").click()
    choose_card(launch, "t4-16g")

    expect(
        launch.get_by_text("The image that was chosen does not run on this card.")
    ).to_be_visible()
    expect(button(launch)).to_be_disabled()
    launch.locator("label:has([value='pytorch-2.6.0-cuda12.4'])").click()
    expect(button(launch)).to_be_enabled()


def test_images_are_found_by_words(launch):
    launch.fill("[data-image-search]", "pytorch 9")

    expect(launch.locator("label:has([value='newest'])")).to_be_visible()
    # What is chosen stays in sight.
    expect(launch.locator("[name=image]:checked")).to_be_visible()


def test_launching_leads_to_the_instance_and_twice_is_once(launch, rented):
    launch.fill("#id_name", "brave")
    expect(button(launch)).to_be_enabled()

    button(launch).dblclick()
    launch.wait_for_url("**/instances/ins_*")

    assert Instance.objects.of(rented.tenant.id).count() == 1
    expect(launch.get_by_role("heading", name="brave")).to_be_visible()


def test_a_refused_order_loses_nothing_that_was_typed(launch, rented):
    launch.watch.allow("422")  # the browser says so on its console
    launch.fill("#id_name", "brave")
    launch.locator("summary", has_text="Command, environment").click()
    launch.fill("#id_env", "LD_PRELOAD=x")
    choose(launch, "a100-80g")
    expect(price(launch)).to_have_text("¥4.90/h")

    button(launch).click()

    expect(launch.get_by_text("which the node sets itself")).to_be_visible()
    assert launch.input_value("#id_name") == "brave"
    assert launch.input_value("#id_env") == "LD_PRELOAD=x"
    expect(launch.locator("[name=offer][value='a100-80g']")).to_be_checked()
    launch.fill("#id_env", "A=1")
    button(launch).click()
    launch.wait_for_url("**/instances/ins_*")
    assert Instance.objects.of(rented.tenant.id).get().env == {"A": "1"}


def test_filters_of_prices_are_in_the_address_and_back_works(page, rented):
    page.goto("/prices")

    page.select_option("[name=model]", "t4-16g")
    page.wait_for_url("**/prices?*model=t4-16g*")
    expect(page.locator("#t4-16g")).to_be_visible()
    expect(page.locator("#a100-80g")).to_have_count(0)

    page.go_back()
    expect(page.locator("#a100-80g")).to_be_visible()
