"""Who waits and why; and taking a request back in a customer's place."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.models import Hold, Wallet
from rental.instances import passes
from rental.operate.queue import WaitsNoMore, cancel_waiting, load_queue
from rental.operate.words import REASONS, reasons_in_words
from rental.records.audit import Actor
from rental.records.clock import database_now
from rental.records.ids import to_text
from rental.tenants.models import AuditEvent
from scheduler.core.placement import DIMENSIONS
from scheduler.models import Request
from tests.factories.rental import (
    NOON,
    fresh,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
)
from tests.operate.conftest import staff_with

pytestmark = pytest.mark.django_db
STAFF = Actor(kind="staff", id="usr_op")


@pytest.fixture
def waiting():
    """An instance that waits: there is no node."""
    make_image(), make_offer()
    (instance,) = order(make_rich_tenant())
    passes.place(now=NOON)
    return fresh(instance)


def page_of(instance) -> str:
    return reverse("operate:cancel_request", args=[instance.request_id])


def test_every_dimension_has_words():
    assert set(DIMENSIONS) | {"releasing"} <= set(REASONS)


def test_members_of_a_gang_are_not_counted_as_nodes():
    told = reasons_in_words({"gang": 3, "gpu": 2, "apart": 5})

    assert [nodes for nodes, _ in told] == [5, 2, 0]
    assert str(told[-1][1]) == "3 of its group would find a place"


def test_the_longest_waiting_comes_first_with_its_reasons_in_words(waiting):
    make_node(memory_mib=1024, model="Tiny")
    (later,) = order(waiting.tenant, now=NOON + timedelta(minutes=1))
    passes.place(now=NOON + timedelta(minutes=1))

    queue = load_queue()

    assert [row.instance.pk for row in queue.rows] == [waiting.pk, later.pk]
    ((nodes, words),) = queue.rows[0].reasons
    assert nodes == 1
    assert str(words) == "no such GPU model"
    assert load_queue(tenant="nobody").rows == []


def test_the_page_asks_no_more_for_a_longer_queue(staff, waiting):
    def queries():
        with CaptureQueriesContext(connection) as asked:
            assert staff.get(reverse("operate:queue")).status_code == 200
        return len(asked)

    first = queries()
    order(waiting.tenant, count=9)
    assert queries() == first <= 10


def test_taking_back_frees_the_hold_stops_the_instance_and_names_who_and_why(staff, waiting):
    assert Wallet.objects.get(tenant=waiting.tenant).held == 490_000

    response = staff.post(page_of(waiting), {"reason": "no such card before Friday"})

    assert response.status_code == 302
    assert fresh(waiting).state == "stopped"
    assert Request.objects.get(pk=waiting.request_id).state == "cancelled"
    assert Wallet.objects.get(tenant=waiting.tenant).held == 0
    assert Hold.objects.get(instance_id=waiting.pk).state == "freed"
    event = AuditEvent.objects.get(verb="request.cancelled")
    assert event.subject == to_text("req", waiting.request_id)
    assert event.tenant_id == waiting.tenant_id
    assert event.after["reason"] == "no such card before Friday"
    assert AuditEvent.objects.get(verb="instance.stopped").actor_kind == "staff"


def test_without_a_reason_nothing_is_taken_back(staff, waiting):
    assert staff.post(page_of(waiting), {"reason": " "}).status_code == 200
    with pytest.raises(ValueError, match="why"):
        cancel_waiting(request_id=waiting.request_id, reason=" ", actor=STAFF, now=database_now())
    assert fresh(waiting).state == "queued"


def test_what_was_placed_meanwhile_goes_on(staff, waiting):
    make_node()
    passes.place(now=NOON)
    assert fresh(waiting).state != "queued"

    with pytest.raises(WaitsNoMore):
        cancel_waiting(
            request_id=waiting.request_id, reason="late", actor=STAFF, now=database_now()
        )
    assert staff.post(page_of(waiting), {"reason": "late"}).status_code == 302

    assert fresh(waiting).state not in {"stopped", "stopping"}
    assert not AuditEvent.objects.filter(verb="request.cancelled").exists()


def test_taking_back_twice_changes_nothing_the_second_time(staff, waiting):
    for _ in range(2):
        staff.post(page_of(waiting), {"reason": "once"})
    assert AuditEvent.objects.filter(verb="request.cancelled").count() == 1


def test_who_may_only_look_takes_nothing_back(waiting):
    client = staff_with("scheduler:read", "rental:read", "scheduler:write")
    assert client.post(page_of(waiting), {"reason": "x"}).status_code == 403
    assert page_of(waiting) not in client.get(reverse("operate:queue")).content.decode()
    assert fresh(waiting).state == "queued"
