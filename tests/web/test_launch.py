"""The launch page: its price is what create freezes; what it refuses, and to whom."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Account, Hold, PriceVersion, Transfer
from billing.services.ledger import open_account
from rental.catalog.models import Offer, Quote
from rental.catalog.queries import list_cards, list_images
from rental.instances import passes
from rental.instances.models import Instance
from rental.records.ids import from_text, new_id, to_text
from rental.tenants.models import Project, Role, SshKey, Tenant
from rental.tenants.services import remove_member
from rental.web.pages.launch.choices import first_choice, image_groups, kind_of
from scheduler.models import Request
from tests.factories.rental import (
    IMAGE,
    MICRO,
    PRICE,
    make_gpu_model,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
)
from tests.factories.tenants import (
    ED25519,
    OPERATOR,
    make_ssh_key,
    make_tenant,
    make_user,
    owner_of,
)
from tests.web.rented import Rented, text_of

pytestmark = pytest.mark.django_db

ONCE = "a-form-that-was-drawn"


class Launching(Rented):
    @property
    def page(self) -> str:
        return f"/t/{self.tenant.slug}/launch"

    def fields(self, browser, **changes):
        """The form as the page draws it, with its quote, and what the visitor changes in it."""
        drawn = browser.get(self.page).context
        values = {name: value for name, value in drawn["form"].initial.items() if value}
        values |= {"once": drawn["once"], "quote_id": self.quote_in(drawn["estimate"])}
        return values | changes

    @staticmethod
    def quote_in(estimate):
        return to_text("quo", estimate.quote.id) if estimate.quote else ""

    def estimate(self, browser, **changes):
        return browser.post(f"{self.page}/estimate", self.fields(browser, **changes))

    def launch(self, browser, **changes):
        """Change fields, wait for their price, press the button."""
        fields = self.fields(browser, **changes)
        shown = browser.post(f"{self.page}/estimate", fields).context["estimate"]
        fields["quote_id"] = self.quote_in(shown)
        return browser.post(f"{self.page}/order", fields)

    def launch_at_once(self, browser, **changes):
        """Press before the price of what was changed is there."""
        return browser.post(f"{self.page}/order", self.fields(browser, **changes))


@pytest.fixture
def launching():
    return Launching()


def nothing_happened(tenant):
    return not (
        Instance.objects.of(tenant.id).exists()
        or Hold.objects.filter(tenant=tenant).exists()
        or Request.objects.of(tenant.id).exists()
    )


def owe(tenant, amount, *, now):
    """Let the tenant have used more than his wallet held."""
    Transfer.objects.create(
        tenant_id=tenant.id,
        key=f"owed/{tenant.id}",
        debit_id=open_account(Account.Kind.RECEIVABLE, tenant_id=tenant.id),
        credit_id=open_account(Account.Kind.REVENUE),
        amount=amount,
        code="usage",
        group_id=new_id(),
        effective_at=now,
    )


# --- one price


def test_the_price_shown_is_the_quote_and_what_create_freezes(launching):
    browser = launching.browser()

    fields = launching.fields(browser, count=2)
    shown = browser.post(f"{launching.page}/estimate", fields)
    fields["quote_id"] = launching.quote_in(shown.context["estimate"])
    answer = browser.post(f"{launching.page}/order", fields)

    assert answer.status_code == 302
    (price,) = re.findall(r'data-price="(\d+)"', shown.content.decode())
    quote = Quote.objects.get(pk=shown.context["estimate"].quote.pk)
    assert int(price) == quote.total_per_hour == 2 * PRICE
    assert quote.used_at is not None
    holds = Hold.objects.filter(tenant=launching.tenant)
    assert [hold.burn for hold in holds] == [quote.price, quote.price]
    instances = Instance.objects.of(launching.tenant.id)
    assert {instance.price_key for instance in instances} == {quote.price_key}
    assert PriceVersion.objects.get(pk=quote.price_version_id).price == quote.price
    text = text_of(shown)
    assert "¥0.98/h" in text
    assert "¥23.52 a day · ¥705.60 in 30 days" in text
    assert "¥0.000817" in text  # a tick of one: 490000 / 600


def test_says_how_long_the_balance_lasts_what_is_held_and_what_the_timer_costs_at_most(launching):
    browser = launching.browser()

    estimate = launching.estimate(browser, count=2, stop="after", stop_after="1.5").context[
        "estimate"
    ]

    assert estimate.held == 2 * PRICE
    assert estimate.lasts_s == 1000 * MICRO * 3600 // (2 * PRICE)
    assert estimate.at_most == 1_470_000
    assert estimate.lasts_until == estimate.balance.as_of + timedelta(seconds=estimate.lasts_s)


def test_an_estimate_names_the_fields_that_it_is_for(launching):
    browser = launching.browser()

    answer = launching.estimate(browser, count="3", stop="after", stop_after="2")

    assert answer.context["estimate"].stands_for == f"a100-80g-1t\n{IMAGE}\n3\nafter\n2\n"
    assert f'data-stands-for="a100-80g-1t\n{IMAGE}\n3\nafter\n2\n"' in answer.content.decode()


def test_a_quote_is_kept_while_the_order_stays_the_same(launching):
    browser = launching.browser()
    fields = launching.fields(browser)
    made = Quote.objects.count()

    again = browser.post(f"{launching.page}/estimate", fields | {"name": "x", "stop": "never"})
    assert launching.quote_in(again.context["estimate"]) == fields["quote_id"]
    assert Quote.objects.count() == made

    other = browser.post(f"{launching.page}/estimate", fields | {"count": "2"})
    assert other.context["estimate"].quote.count == 2
    assert Quote.objects.count() == made + 1


# --- what is ordered


def test_one_goes_to_its_page_and_several_to_the_list(launching):
    browser = launching.browser()

    one = launching.launch(browser, name="brave")
    instance = Instance.objects.of(launching.tenant.id).get()
    assert one["Location"] == launching.url(instance)
    assert (instance.name, instance.created_by) == (
        "brave",
        f"user:{to_text('usr', launching.owner.pk)}",
    )

    several = launching.launch(browser, name="many", count=2)
    assert several["Location"] == launching.home


def test_everything_that_was_typed_reaches_the_instance(launching):
    browser = launching.browser()
    other = Project.objects.create(tenant=launching.tenant, slug="x", name="Other")
    key = make_ssh_key(launching.tenant)

    answer = launching.launch(
        browser,
        project=to_text("prj", other.id),
        ssh_keys=[to_text("ssh", key.id)],
        password_login="on",
        stop="after",
        stop_after="2.5",
        command="python train.py --name 'two words'",
        env="A=1\n\nB=x=y\n",
    )

    assert answer.status_code == 302
    instance = Instance.objects.of(launching.tenant.id).get()
    assert instance.project_id == other.id
    assert instance.ssh_key_ids == [key.id]
    assert instance.password_login is True
    assert instance.max_duration_s == 9000
    assert instance.command == ["python", "train.py", "--name", "two words"]
    assert instance.env == {"A": "1", "B": "x=y"}


def test_a_time_to_stop_is_in_the_tenants_zone(launching):
    Tenant.objects.filter(pk=launching.tenant.pk).update(time_zone="Asia/Shanghai")
    browser = launching.browser()
    local = (launching.now + timedelta(days=1, hours=8)).replace(second=0, microsecond=0)

    launching.launch(browser, stop="at", stop_at=f"{local:%Y-%m-%dT%H:%M}")

    instance = Instance.objects.of(launching.tenant.id).get()
    assert instance.auto_stop_at == local - timedelta(hours=8)
    assert instance.max_duration_s is None


def test_a_pasted_key_is_kept_and_used_and_a_known_one_is_not_kept_twice(launching):
    browser = launching.browser()

    launching.launch(browser, new_key=f"{ED25519} my laptop")
    key = SshKey.objects.of(launching.tenant.id).get()
    assert key.name == "my laptop"

    launching.launch(browser, new_key=ED25519, ssh_keys=[])
    assert SshKey.objects.of(launching.tenant.id).count() == 1
    assert {i.ssh_key_ids[0] for i in Instance.objects.of(launching.tenant.id)} == {key.id}


def test_a_refused_order_keeps_no_pasted_key(launching):
    browser = launching.browser()

    answer = launching.launch(browser, new_key=ED25519, env="LD_PRELOAD=x")

    assert answer.status_code == 422
    assert not SshKey.objects.of(launching.tenant.id).exists()
    assert nothing_happened(launching.tenant)


def test_pressing_twice_orders_once(launching):
    browser = launching.browser()
    fields = launching.fields(browser)

    first = browser.post(f"{launching.page}/order", fields)
    second = browser.post(f"{launching.page}/order", fields)

    assert first["Location"] == second["Location"]
    assert Instance.objects.of(launching.tenant.id).count() == 1


def test_a_form_that_was_used_asks_before_it_orders_something_else(launching):
    browser = launching.browser()
    fields = launching.fields(browser)
    browser.post(f"{launching.page}/order", fields)

    again = browser.post(f"{launching.page}/order", fields | {"name": "another"})

    assert again.status_code == 422
    assert "You have launched with this form already." in text_of(again)
    assert again.context["once"] != fields["once"]
    assert Instance.objects.of(launching.tenant.id).count() == 1


# --- what is refused, beside its field, with nothing lost


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"offer": "b200"}, "offer", "not on sale any more"),
        ({"image": "gone"}, "image", "not offered any more"),
        ({"image": "new"}, "image", "needs a GPU of compute capability 9.0; this card has 8.0"),
        ({"image": "ascend"}, "image", "is for GPUs of huawei; this card is of nvidia"),
        ({"count": "0"}, "count", "greater than or equal to 1"),
        ({"count": "21"}, "count", "less than or equal to 20"),
        ({"name": "\u0007"}, "name", "1 to 64 printable"),
        ({"command": "echo 'x"}, "command", "quotation mark"),
        ({"env": "A"}, "env", "NAME=value"),
        ({"env": "LD_PRELOAD=x"}, "env", "the node sets itself"),
        ({"new_key": "ssh-rsa nonsense"}, "new_key", "no whole public key"),
        ({"stop": "after", "stop_after": ""}, "stop_after", "Say when"),
        ({"stop": "at", "stop_at": "2020-01-01T00:00"}, "stop_at", "lies in the past"),
        ({"project": "prj_00000000000000000000000000"}, "project", "valid choice"),
        ({"ssh_keys": ["ssh_00000000000000000000000000"]}, "ssh_keys", "valid choice"),
        ({"secrets": ["HF_TOKEN"]}, "secrets", "valid choice"),
    ],
)
def test_a_field_at_fault_says_so_and_nothing_is_lost(launching, changes, field, words):
    make_image("new", min_capability=90)
    make_image("ascend", vendor="huawei", min_capability=0)
    browser = launching.browser()
    typed = {"name": "brave", "env": "KEPT=yes"} | changes

    answer = launching.launch(browser, **typed)

    assert answer.status_code == 422
    form = answer.context["form"]
    assert words in " ".join(form.errors[field])
    assert form["name"].value() == typed["name"]
    assert form["env"].value() == typed["env"]
    assert nothing_happened(launching.tenant)


def test_too_little_money_is_said_before_and_after_pressing(launching):
    launching.tenant = make_rich_tenant(money=PRICE, now=launching.now)
    browser = launching.browser(owner_of(launching.tenant))

    before = launching.estimate(browser, count=2)
    after = launching.launch(browser, count=2)

    for answer in (before, after):
        text = text_of(answer)
        assert "needs ¥0.74 free of holds, and ¥0.49 are" in text  # an hour and half an hour
        assert not answer.context["estimate"].can_launch
    assert after.status_code == 422
    assert nothing_happened(launching.tenant)


def test_arrears_are_said(launching):
    owe(launching.tenant, 5 * MICRO, now=launching.now)
    browser = launching.browser()

    answer = launching.launch(browser)

    assert "¥5.00 are unpaid" in text_of(answer)
    assert nothing_happened(launching.tenant)


def test_an_expired_quote_brings_a_new_price_and_orders_nothing(launching):
    browser = launching.browser()
    fields = launching.fields(browser)
    Quote.objects.update(
        created_at=launching.now - timedelta(minutes=20),
        expires_at=launching.now - timedelta(minutes=10),
    )

    answer = browser.post(f"{launching.page}/order", fields)

    assert answer.status_code == 422
    assert "not valid any more, so nothing was ordered" in text_of(answer)
    assert nothing_happened(launching.tenant)
    fresh = launching.quote_in(answer.context["estimate"])
    assert fresh != fields["quote_id"]
    again = browser.post(f"{launching.page}/order", fields | {"quote_id": fresh})
    assert again.status_code == 302


@pytest.mark.parametrize("quote_id", ["", "quo_00000000000000000000000000", "nonsense"])
def test_without_a_price_that_was_shown_nothing_is_ordered(launching, quote_id):
    answer = launching.launch_at_once(launching.browser(), quote_id=quote_id)

    assert answer.status_code == 422
    assert nothing_happened(launching.tenant)


def test_a_price_of_other_fields_orders_nothing(launching):
    """What JavaScript keeps from happening: the fields changed after the price was worked out."""
    browser = launching.browser()
    make_offer("a100-80g", tenths=10, price=10 * PRICE, now=launching.now)

    answer = launching.launch_at_once(browser, offer="a100-80g")

    assert answer.status_code == 422
    assert answer.context["estimate"].quote.price == 10 * PRICE
    assert nothing_happened(launching.tenant)


def test_a_strangers_quote_orders_nothing(launching):
    stranger = make_rich_tenant(now=launching.now)
    theirs = Launching.__new__(Launching)
    theirs.tenant, theirs.owner, theirs.now = stranger, owner_of(stranger), launching.now
    quote = theirs.fields(theirs.browser())["quote_id"]

    answer = launching.launch_at_once(launching.browser(), quote_id=quote)

    assert answer.status_code == 422
    assert nothing_happened(launching.tenant)
    assert Quote.objects.get(pk=from_text("quo", quote)).used_at is None


def test_htmx_gets_the_form_alone(launching):
    browser = launching.browser(htmx=True)

    refused = launching.launch(browser, image="gone")
    made = launching.launch(browser)

    assert refused.content.decode().lstrip().startswith("<form")
    assert (made.status_code, "HX-Redirect" in made.headers) == (204, True)


# --- stock and queue


def test_what_is_taken_can_be_chosen_and_says_that_it_queues(launching):
    make_offer("a100-80g", tenths=10, price=4_900_000, now=launching.now)
    order(launching.tenant, offer="a100-80g", count=3, now=launching.now)
    passes.place(now=launching.now)  # two cards: one of three waits
    browser = launching.browser()

    answer = launching.estimate(browser, offer="a100-80g")

    text = text_of(answer)
    assert "All are taken: you will queue, behind 1 other." in text
    assert "Nothing is charged while it waits." in text
    assert "you can cancel at any time" in text
    assert answer.context["estimate"].can_launch
    assert launching.launch(browser, offer="a100-80g").status_code == 302


def test_says_how_many_of_an_order_can_start_now(launching):
    make_offer("a100-80g", tenths=10, price=4_900_000, now=launching.now)

    text = text_of(launching.estimate(launching.browser(), offer="a100-80g", count=3))

    assert "2 can start now, 1 will wait in the queue." in text


def test_what_the_fleet_has_not_says_so_and_stands_apart(launching):
    make_gpu_model("H200", 144384, "9.0")
    make_offer("h200", tenths=10, gpu_model_name="H200", gpu_memory_mib=144384, now=launching.now)
    browser = launching.browser()

    page = browser.get(launching.page)
    assert [one.card.slug for one in page.context["here"]] == ["a100-80g"]
    assert (page.context["elsewhere"], page.context["chosen_elsewhere"]) == (1, [])
    assert 'value="h200"' not in page.content.decode()
    assert 'value="h200"' in browser.get(f"{launching.page}/elsewhere").content.decode()
    (named,) = browser.get(f"{launching.page}?offer=h200").context["chosen_elsewhere"]
    assert (named.card.slug, named.is_chosen) == ("h200-141g", True)

    text = text_of(launching.estimate(browser, offer="h200"))
    assert "No such card is installed here." in text


def test_stock_is_told_again(launching):
    browser = launching.browser()

    text = browser.get(f"{launching.page}/stock").content.decode()

    assert 'id="stock-a100-80g-1t" hx-swap-oob="innerHTML"' in text


# --- what is chosen at first


def test_an_address_chooses_offer_and_image(launching):
    make_offer("a100-80g", tenths=10, price=4_900_000, now=launching.now)
    make_image("plain", vendor="", min_capability=0, frameworks={})
    browser = launching.browser()

    context = browser.get(f"{launching.page}?offer=a100-80g&image=plain&count=2").context
    chosen = [context["form"].initial[name] for name in ("offer", "image", "count")]
    assert chosen == ["a100-80g", "plain", "2"]
    assert context["estimate"].per_hour == 2 * 4_900_000

    context = browser.get(f"{launching.page}?offer=gone&image=gone&count=x").context
    assert context["unknown_offer"]
    assert context["form"].initial["offer"] == "a100-80g-1t"
    assert context["form"].initial["image"] == IMAGE
    assert context["form"].initial["count"] == "1"


def test_the_cheapest_that_can_start_beside_no_stranger_is_chosen_at_first(launching):
    make_offer("a100-80g-1s", isolation="shared", price=1, now=launching.now)
    make_offer("a100-80g", tenths=10, price=4_900_000, now=launching.now)
    cards = list_cards(now=launching.now)

    assert first_choice(cards).offer.code == "a100-80g-1t"
    assert first_choice([]) is None


def test_without_a_key_a_password_is_on_and_with_one_it_is_off(launching):
    browser = launching.browser()
    assert browser.get(launching.page).context["form"].initial["password_login"] is True

    key = make_ssh_key(launching.tenant)

    initial = browser.get(launching.page).context["form"].initial
    assert (initial["password_login"], initial["ssh_keys"]) == (False, [to_text("ssh", key.id)])


def test_without_a_secrets_key_no_password_can_be_chosen(launching, settings):
    settings.SECRETS_KEY = None
    browser = launching.browser()

    assert browser.get(launching.page).context["form"].initial["password_login"] is False
    answer = launching.launch(browser, password_login="on")

    assert answer.status_code == 422
    assert "has set no SECRETS_KEY" in " ".join(answer.context["form"].errors["password_login"])
    assert nothing_happened(launching.tenant)


def test_images_name_the_cards_on_which_they_run_and_stand_in_groups(launching):
    make_image("cuda", frameworks={}, cuda="12.4")
    make_image("serve", frameworks={"vllm": "0.8.5", "pytorch": "2.6.0"}, min_capability=90)
    cards = list_cards(now=launching.now)

    groups = image_groups(list_images(), cards, cards[0])

    labels = [str(group.label) for group in groups]
    assert labels == ["PyTorch", "Inference servers", "CUDA"]
    serve = groups[1].images[0]
    assert (serve.cards, serve.runs, groups[1].runs) == ("", False, False)
    assert groups[0].images[0].cards == "a100-80g"


def test_an_image_is_for_what_stands_first(launching):
    assert str(kind_of(make_image("ubuntu", frameworks={}, cuda=""))) == "Without frameworks"


# --- who


def test_a_viewer_is_told_that_his_role_does_not_allow_it(launching):
    fields = launching.fields(launching.browser())
    for role in (Role.VIEWER, Role.BILLING):
        browser = launching.browser(launching.member(role))
        for answer in (
            browser.get(launching.page),
            browser.post(f"{launching.page}/estimate", fields),
            browser.post(f"{launching.page}/order", fields),
        ):
            assert answer.status_code == 403
            assert "does not allow this" in text_of(answer)
    assert nothing_happened(launching.tenant)


def test_a_developer_may_launch_and_a_stranger_and_a_removed_member_find_nothing(launching):
    developer = launching.member(Role.DEVELOPER)
    browser = launching.browser(developer)
    assert browser.get(launching.page).status_code == 200
    fields = launching.fields(browser)
    remove_member(tenant=launching.tenant, user=developer, actor=OPERATOR, now=launching.now)
    stranger = make_user()
    make_tenant(owner=stranger)

    for user in (developer, stranger):
        other = launching.browser(user)
        assert other.get(launching.page).status_code == 404
        assert other.post(f"{launching.page}/order", fields).status_code == 404
    assert nothing_happened(launching.tenant)


def test_a_suspended_tenant_launches_nothing(launching):
    browser = launching.browser()
    fields = launching.fields(browser)
    Tenant.objects.filter(pk=launching.tenant.pk).update(status="suspended")

    answer = browser.post(f"{launching.page}/order", fields)

    assert answer.status_code == 403
    assert nothing_happened(launching.tenant)


# --- what it costs to draw


def queries(browser, path):
    browser.get(path)  # the session's first visit writes
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert browser.get(path).status_code == 200
    return len(found)


def test_costs_the_same_queries_whatever_the_catalogue(launching):
    browser = launching.browser()
    few = queries(browser, launching.page)
    for number in range(30):
        make_offer(f"offer-{number}", tenths=1 + number % 9, now=launching.now)
        make_image(f"image-{number}")
    make_node(gpus=4, now=launching.now)

    assert queries(browser, launching.page) == few
    assert Offer.objects.count() == 31
