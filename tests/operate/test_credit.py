"""Wallet credit: exact, once, audited, and only after a look at before and after."""

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from billing.models import Transfer, Wallet
from billing.services.ledger import arrears_of
from billing.services.runs import close_run
from billing.services.settle import settle
from rental.tenants.models import AuditEvent
from tests.factories.billing import CNY, NOON, make_price, make_run, make_tenant, report
from tests.operate.conftest import staff_with

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant():
    return make_tenant(balance=CNY)


def posted(tenant) -> int:
    return Wallet.objects.get(tenant=tenant).posted


def form(**fields):
    return {"amount": "12.5", "reason": "bank transfer 4711", "key": str(uuid.uuid4())} | fields


def page_of(tenant) -> str:
    return reverse("operate:credit_tenant", args=[tenant.slug])


def test_the_form_says_the_currency_and_who_reads_the_reason(staff, tenant):
    html = staff.get(page_of(tenant)).content.decode()

    assert '<p class="help">CNY</p>' in html
    assert "The customer reads it in the ledger." in html


def test_a_look_shows_before_and_after_and_moves_nothing(staff, tenant):
    response = staff.post(page_of(tenant), form(step="look"))

    preview = response.context["preview"]
    assert (preview.before, preview.amount, preview.after) == (1_000_000, 12_500_000, 13_500_000)
    assert Transfer.objects.filter(code="credit").count() == 1  # the opening balance
    assert posted(tenant) == CNY


def test_a_confirmed_credit_is_given_once_and_names_who_and_why(staff, tenant):
    sent = form(step="give")

    for _ in range(2):
        assert staff.post(page_of(tenant), sent).status_code == 302

    assert posted(tenant) == 13_500_000
    event = AuditEvent.objects.get(verb="wallet.credited", after__amount=12_500_000)
    assert event.after["reason"] == "bank transfer 4711"
    assert event.actor_kind == "staff"
    assert event.before == {"posted": 1_000_000}


def test_what_is_owed_is_paid_first_as_the_look_said(staff):
    make_price(4_900_000)
    tenant = make_tenant(balance=CNY)
    run = make_run(tenant)
    report(run, (0, 1200))  # two hours, 9.80
    close_run(run_id=run.id, at=NOON + timedelta(hours=2), reason="stop")
    settle(now=NOON + timedelta(hours=2))
    assert (posted(tenant), arrears_of([tenant.id])) == (0, {tenant.id: 8_800_000})

    preview = staff.post(page_of(tenant), form(step="look", amount="10")).context["preview"]
    assert (preview.paid, preview.after, preview.owed_after) == (8_800_000, 1_200_000, 0)
    part = staff.post(page_of(tenant), form(step="look", amount="3.8")).context["preview"]
    assert (part.paid, part.after, part.owed_after) == (3_800_000, 0, 5_000_000)

    staff.post(page_of(tenant), form(step="give", amount="10"))

    assert (posted(tenant), arrears_of([tenant.id])) == (1_200_000, {})


@pytest.mark.parametrize("amount", ["0", "-1", "1000000.000001", "0.0000001", "nan", "x", ""])
@pytest.mark.parametrize("step", ["look", "give"])
def test_an_amount_that_makes_no_sense_moves_nothing(staff, tenant, amount, step):
    response = staff.post(page_of(tenant), form(amount=amount, step=step))

    assert response.status_code == 200
    assert response.context["form"].errors["amount"]
    assert posted(tenant) == CNY


def test_a_credit_without_a_reason_moves_nothing(staff, tenant):
    response = staff.post(page_of(tenant), form(reason=" ", step="give"))

    assert response.context["form"].errors["reason"]
    assert posted(tenant) == CNY


def test_a_key_that_was_used_for_another_amount_moves_nothing(staff, tenant):
    sent = form(step="give")
    staff.post(page_of(tenant), sent)

    response = staff.post(page_of(tenant), sent | {"amount": "99"})

    assert response.status_code == 200
    assert response.context["form"].non_field_errors()
    assert posted(tenant) == 13_500_000


def test_who_may_only_read_and_write_billing_credits_nothing(tenant):
    client = staff_with("billing:read", "billing:write")

    assert client.get(page_of(tenant)).status_code == 403
    assert client.post(page_of(tenant), form(step="give")).status_code == 403
    assert posted(tenant) == CNY


@pytest.mark.parametrize("words", ["t", "name", "nobody-of-this-name"])
def test_tenants_are_found_by_name_slug_and_members(staff, tenant, words):
    asked = {"t": tenant.slug, "name": tenant.name[:6]}.get(words, words)
    rows = staff.get(reverse("operate:credit"), {"q": asked}).context["rows"]
    assert [found.pk for found, _wallet in rows] == (
        [] if words not in {"t", "name"} else [tenant.pk]
    )
