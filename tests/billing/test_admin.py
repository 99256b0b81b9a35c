"""Money can only be read here; tests/operate credits wallets."""

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from billing.models import Charge
from billing.services.settle import settle
from rental.tenants.models import User
from tests.factories.billing import CNY, NOON, make_price, make_run, make_tenant, report

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff():
    user = User.objects.create_superuser(email="op@example.org", password="x")
    client = Client()
    client.force_login(user)
    return client


def test_the_list_of_charges_asks_no_more_for_more_of_them(staff, django_assert_max_num_queries):
    make_price(3_600_000)
    tenant = make_tenant(balance=CNY)
    for _ in range(9):
        report(make_run(tenant), (0, 10))
    settle(now=NOON)
    assert Charge.objects.count() == 9

    with django_assert_max_num_queries(9):
        assert staff.get("/admin/billing/charge/").status_code == 200


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
