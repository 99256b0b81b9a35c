"""The operator credits a wallet through the service; everything else can only be read."""

import uuid

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from billing.models import Charge, Transfer, Wallet
from billing.services.settle import settle
from rental.tenants.models import AuditEvent, User
from tests.factories.billing import CNY, NOON, make_price, make_run, make_tenant, report

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff():
    user = User.objects.create_superuser(email="op@example.org", password="x")
    client = Client()
    client.force_login(user)
    return client


def test_a_credit_needs_a_reason_and_is_audited_and_given_once(staff):
    wallet = Wallet.objects.get(tenant=make_tenant(balance=CNY))
    url = reverse("admin:billing_wallet_credit_wallet", args=[wallet.id])
    assert staff.get(url).status_code == 200
    form = {"amount": "12.5", "reason": "", "key": str(uuid.uuid4())}
    assert staff.post(url, form).status_code == 200
    assert Transfer.objects.count() == 1

    for _ in range(2):
        assert staff.post(url, form | {"reason": "sorry for Monday"}).status_code == 302

    wallet.refresh_from_db()
    assert wallet.posted == 13_500_000
    event = AuditEvent.objects.get(verb="wallet.credited", after__amount=12_500_000)
    assert event.after["reason"] == "sorry for Monday"


def test_who_may_only_read_billing_credits_nothing():
    wallet = Wallet.objects.get(tenant=make_tenant(balance=CNY))
    reader = User.objects.create_user(email="read@example.org", is_staff=True)
    reader.staff_roles.create(code="read", name="Read", verbs=["billing:read", "billing:write"])
    client = Client()
    client.force_login(reader)
    url = reverse("admin:billing_wallet_credit_wallet", args=[wallet.id])
    form = {"amount": "1", "reason": "why not", "key": str(uuid.uuid4())}

    assert client.get(url).status_code == client.post(url, form).status_code == 403

    assert Transfer.objects.count() == 1


def test_the_list_of_charges_asks_no_more_for_more_of_them(staff, django_assert_max_num_queries):
    make_price(3_600_000)
    tenant = make_tenant(balance=CNY)
    for _ in range(9):
        report(make_run(tenant), (0, 10))
    settle(now=NOON)
    assert Charge.objects.count() == 9

    with django_assert_max_num_queries(9):
        assert staff.get("/admin/billing/charge/").status_code == 200


@pytest.mark.parametrize("amount", ["0", "-1", "1000000.000001", "0.0000001", "nan", "x"])
def test_amounts_that_make_no_sense_are_refused(staff, amount):
    wallet = Wallet.objects.get(tenant=make_tenant(balance=CNY))
    url = reverse("admin:billing_wallet_credit_wallet", args=[wallet.id])
    form = {"amount": amount, "reason": "why", "key": str(uuid.uuid4())}
    assert staff.post(url, form).status_code == 200
    assert Transfer.objects.count() == 1


def test_every_list_opens_and_nothing_can_be_changed(staff, rf):
    make_price(1)
    make_run(make_tenant(balance=CNY))
    for model, page in admin.site._registry.items():
        if model._meta.app_label != "billing":
            continue
        url = reverse(f"admin:billing_{model._meta.model_name}_changelist")
        assert staff.get(url).status_code == 200
        assert not page.has_add_permission(rf.get("/"))
        assert not page.has_change_permission(rf.get("/"))
        assert not page.has_delete_permission(rf.get("/"))
