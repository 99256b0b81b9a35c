"""The operator's pages: nothing of state or money is edited; actions go through the services."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from billing.models import Run
from rental.catalog.models import Offer
from rental.instances.models import Instance, Notice, Operation
from rental.instances.states import InstanceState
from rental.tenants.models import AuditEvent, User
from tests.factories.rental import NOON, fresh, make_running, order

pytestmark = pytest.mark.django_db
S = InstanceState


@pytest.fixture
def staff():
    user = User.objects.create_superuser(email="boss@example.com", password="x" * 20)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def act(client, name, instances):
    return client.post(
        reverse("admin:rental_instance_changelist"),
        {"action": name, "_selected_action": [str(instance.pk) for instance in instances]},
        follow=True,
    )


@pytest.mark.parametrize("model", ["offer", "image", "quote", "instance", "operation", "notice"])
def test_every_list_and_page_opens(market, tenant, staff, model):
    instance = make_running(tenant)
    Notice.objects.create(
        tenant=tenant, instance=instance, kind="balance", threshold_s=600, at=NOON, deadline=NOON
    )

    assert staff.get(reverse(f"admin:rental_{model}_changelist"), {"q": "a"}).status_code == 200
    row = apps.get_model("rental", model).objects.first()
    if row is not None:
        page = reverse(f"admin:rental_{model}_change", args=[row.pk])
        assert staff.get(page).status_code == 200


def test_what_waits_leads_to_the_reasons(market, tenant):
    running, waiting = make_running(tenant), order(tenant)[0]

    page = admin.site._registry[Instance]

    assert reverse("operate:queue") in page.see_also(waiting)
    assert reverse("operate:queue") not in page.see_also(running)


@pytest.mark.parametrize("model", [Instance, Operation, Notice])
def test_what_holds_state_is_read_only(market, tenant, staff, model):
    page = admin.site._registry[model]
    request = staff.get(reverse("admin:index")).wsgi_request

    assert not page.has_add_permission(request)
    assert not page.has_change_permission(request)
    assert not page.has_delete_permission(request)
    assert "delete_selected" not in page.get_actions(request)


def test_stop_goes_through_the_service_and_names_what_it_refuses(market, tenant, staff):
    running = make_running(tenant)
    (failed,) = order(tenant)
    failed.move_to(S.FAILED, at=NOON)

    answer = act(staff, "stop", [running, failed])

    assert fresh(running).state == S.STOPPING
    assert not Run.objects.filter(closed_at=None).exists()
    assert fresh(failed).state == S.FAILED
    texts = [str(message) for message in answer.context["messages"]]
    assert any("stop is not possible" in text for text in texts)
    assert AuditEvent.objects.get(verb="instance.stopped").actor_kind == "staff"


def test_release_goes_through_the_service(market, tenant, staff):
    instance = make_running(tenant)

    act(staff, "release", [instance])

    assert fresh(instance).state == S.RELEASING


def test_staff_who_only_read_get_no_actions(market, tenant):
    from rental.tenants.models import StaffRole

    user = User.objects.create_user(email="look@example.com", password="x" * 20, is_staff=True)
    user.staff_roles.add(StaffRole.objects.create(code="look", name="L", verbs=["rental:read"]))
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    instance = make_running(tenant)

    act(client, "stop", [instance])

    assert fresh(instance).state == S.RUNNING


def test_an_offer_is_taken_off_sale_and_audited_but_not_reshaped(market, staff):
    offer = Offer.objects.get()
    page = reverse("admin:rental_offer_change", args=[offer.pk])

    answer = staff.post(page, {"name": "Tenth", "markets": "on_demand", "tenths": "9"})

    assert answer.status_code == 302
    offer.refresh_from_db()
    assert (offer.name, offer.active, offer.tenths) == ("Tenth", False, 1)
    assert AuditEvent.objects.filter(verb="offer.changed", subject=offer.code).exists()
