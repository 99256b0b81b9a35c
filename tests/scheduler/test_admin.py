"""The operator's pages: readable, and changed by services alone."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib import admin
from django.urls import reverse
from django.utils import timezone

from rental.records.models import AuditEvent
from rental.tenants.models import User
from scheduler.models import (
    EnrolmentToken,
    GatewayFlush,
    GpuModel,
    MaintenanceWindow,
    Node,
    NodeLiveness,
    QuarantineEvent,
    Region,
    Zone,
)
from scheduler.services.enrolment import enrol
from tests.factories.scheduler import NOON, hello, make_allocation, make_node, make_zone, say

pytestmark = pytest.mark.django_db

DESCRIBING = {Region, Zone, GpuModel}


@pytest.fixture
def operator(client):
    user = User.objects.create_user(email="op@example.com", password=None, name="op", language="en")
    User.objects.filter(pk=user.pk).update(is_staff=True, is_superuser=True)
    client.force_login(User.objects.get(pk=user.pk))
    return client


def make_allocation_on_silent(node):
    """Placed while the node was live; heard long ago."""
    status = NodeLiveness.objects.get(node=node).status
    NodeLiveness.objects.update(status="live")
    allocation = make_allocation(node=node)
    NodeLiveness.objects.update(status=status)
    return allocation


def shown():
    return [m for m in apps.get_app_config("scheduler").get_models() if m in admin.site._registry]


def test_every_list_and_every_row_can_be_read(operator):
    allocation = make_allocation()
    node = Node.objects.get(pk=allocation.node_id)
    GatewayFlush.objects.create(gateway_id="gw", started_at=NOON, flushed_at=NOON)
    say(hello(node, unknown=[]))
    QuarantineEvent.objects.create(
        node=node,
        allocation_id="a",
        instance_id="i",
        incarnation=1,
        first_seen_at=NOON,
        last_seen_at=NOON,
    )
    for model in shown():
        name = f"admin:scheduler_{model._meta.model_name}"
        assert operator.get(reverse(f"{name}_changelist")).status_code == 200, model
        for row in model.objects.all()[:1]:
            page = operator.get(reverse(f"{name}_change", args=[row.pk]))
            assert page.status_code == 200, model


def test_rows_of_state_cannot_be_edited(operator, rf):
    request = rf.get("/")
    request.user = User.objects.get()
    for model in set(shown()) - DESCRIBING:
        page = admin.site._registry[model]
        assert not page.has_change_permission(request), model
    for model in shown():
        assert not admin.site._registry[model].has_delete_permission(request), model


def test_specs_are_not_shown(operator):
    allocation = make_allocation()

    page = operator.get(reverse("admin:scheduler_allocation_change", args=[allocation.pk]))

    assert b"registry.test" not in page.content


def test_the_operator_cordons_and_uncordons(operator):
    node = make_node()
    url = reverse("admin:scheduler_node_changelist")

    for action, expected in [("cordon", True), ("uncordon", False)]:
        operator.post(url, {"action": action, "_selected_action": [str(node.pk)]})
        node.refresh_from_db()
        assert node.cordoned is expected

    verbs = AuditEvent.objects.filter(verb__startswith="node.").values_list("verb", "actor_kind")
    assert set(verbs) == {("node.cordon", "staff"), ("node.uncordon", "staff")}


def test_staff_without_the_verb_may_not_cordon(operator):
    node = make_node()
    User.objects.update(is_superuser=False)

    operator.post(
        reverse("admin:scheduler_node_changelist"),
        {"action": "cordon", "_selected_action": [str(node.pk)]},
    )

    node.refresh_from_db()
    assert not node.cordoned


@pytest.mark.parametrize(
    ("status", "typed", "is_dead"), [("lost", 1, True), ("lost", 0, False), ("live", 1, False)]
)
def test_a_lost_node_is_declared_dead_by_its_name(operator, status, typed, is_dead):
    node = make_node(status=status)
    allocation = make_allocation_on_silent(node)
    url = reverse("admin:scheduler_node_declare_dead", args=[node.pk])
    asked = operator.get(url).content
    assert b"1 instance on it fails now" in asked
    assert b"2 disks on it are lost" in asked

    answer = operator.post(url, {"name": node.name if typed else "another", "reason": "burnt"})

    allocation.refresh_from_db()
    assert (answer.status_code == 302, allocation.lost_at is not None) == (is_dead, is_dead)
    told = AuditEvent.objects.filter(verb="node.declared_dead", actor_kind="staff")
    assert [event.after["reason"] for event in told] == (["burnt"] if is_dead else [])


def test_staff_say_in_which_rack_a_node_stands(operator):
    node = make_node()
    url = reverse("admin:scheduler_node_stand_in_rack", args=[node.pk])
    assert operator.get(url).status_code == 200

    assert operator.post(url, {"rack": "not a slug"}).status_code == 200
    assert Node.objects.get(pk=node.pk).rack == ""
    assert operator.post(url, {"rack": "r7"}).status_code == 302

    node.refresh_from_db()
    [told] = AuditEvent.objects.filter(verb="node.rack")
    assert (node.rack, node.version, told.after) == ("r7", 2, {"rack": "r7"})
    operator.post(url, {"rack": ""})
    assert Node.objects.get(pk=node.pk).rack == ""


def test_staff_without_the_verb_may_not_say_the_rack(operator):
    node = make_node()
    User.objects.update(is_superuser=False)
    url = reverse("admin:scheduler_node_stand_in_rack", args=[node.pk])

    assert operator.post(url, {"rack": "r7"}).status_code == 403

    node.refresh_from_db()
    assert (node.rack, node.version) == ("", 1)


def test_staff_without_the_verb_may_not_declare_dead(operator):
    node = make_node(status="lost")
    User.objects.update(is_superuser=False)
    url = reverse("admin:scheduler_node_declare_dead", args=[node.pk])

    assert operator.post(url, {"name": node.name, "reason": "x"}).status_code == 403

    node.refresh_from_db()
    assert not node.cordoned


def test_a_token_is_issued_and_shown_once(operator):
    zone = make_zone()
    answer = operator.post(
        reverse("admin:scheduler_enrolmenttoken_add"),
        {"zone": zone.pk, "uses_left": 2, "expires_at_0": "2036-01-01", "expires_at_1": "00:00:00"},
        follow=True,
    )

    [shown_text] = [m.message for m in answer.context["messages"] if "tse_" in str(m.message)]
    token = "tse_" + str(shown_text).partition("tse_")[2]
    assert EnrolmentToken.objects.get().uses_left == 2
    assert enrol(token=token, agent_name="rack-1", nodes=["node-1"], now=NOON)
    again = operator.get(reverse("admin:scheduler_enrolmenttoken_changelist"))
    assert token.encode() not in again.content


def announce_window(operator, node, begins_at, **fields):
    ends_at = begins_at + timedelta(hours=2)
    sent = {"node": str(node.pk), "reason": "new fans"}
    # Pages may be in another zone than tests: all times here are far from the limit.
    for name, at in (("begins_at", begins_at), ("ends_at", ends_at)):
        local = timezone.localtime(at)
        sent |= {f"{name}_0": f"{local:%Y-%m-%d}", f"{name}_1": f"{local:%H:%M:%S}"}
    return operator.post(reverse("admin:scheduler_maintenancewindow_add"), sent | fields)


def test_a_window_is_announced_and_cancelled_by_the_operator(operator):
    node, soon = make_node(), timezone.now()

    early = announce_window(operator, node, soon + timedelta(hours=10))
    assert "hours ahead" in early.content.decode()
    assert not MaintenanceWindow.objects.exists()

    made = announce_window(operator, node, soon + timedelta(hours=40))
    assert made.status_code == 302
    window = MaintenanceWindow.objects.get()
    assert (window.node, window.reason, window.begun_at) == (node, "new fans", None)
    assert announce_window(operator, node, soon + timedelta(hours=50)).status_code == 200
    assert MaintenanceWindow.objects.count() == 1

    page = reverse("admin:scheduler_maintenancewindow_changelist")
    operator.post(page, {"action": "cancel", "_selected_action": [str(window.pk)]})
    window.refresh_from_db()
    assert window.cancelled_at is not None
    verbs = set(AuditEvent.objects.values_list("verb", flat=True))
    assert verbs == {"node.maintenance_announced", "node.maintenance_cancelled"}
