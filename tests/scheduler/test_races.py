"""Passes at the same time, with real threads and connections: nothing is sold twice."""

import threading

import pytest
from django.db import connection

from scheduler.models import Allocation, Request, Slice
from scheduler.services.allocations import order_gone
from scheduler.services.recount import recount
from scheduler.services.requests import Shape, cancel_request
from tests.factories.scheduler import (
    A_SHARE,
    NOON,
    make_node,
    make_request,
    make_tenant,
    phase,
    place,
    say,
)

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*actions):
    """Run the actions in threads that begin together; return their results or raise."""
    barrier = threading.Barrier(len(actions))
    results = [None] * len(actions)

    def run(number, action):
        try:
            barrier.wait()
            results[number] = action()
        except BaseException as error:  # noqa: BLE001
            results[number] = error
        finally:
            connection.close()

    threads = [
        threading.Thread(target=run, args=(number, action)) for number, action in enumerate(actions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def test_64_requests_for_7_free_slices_make_7_allocations():
    # given seven free tenths on two cards, and 64 who want one
    tenant = make_tenant()
    make_node(gpus=1)
    make_request(tenant=tenant, shape=Shape(mode="share_tenant", tenths=3))
    place()
    requests = [make_request(tenant=tenant, shape=A_SHARE) for _ in range(64)]

    # when four passes run at once
    results = at_once(*[place] * 4)

    # then exactly seven are placed, the first seven, and the others know why they wait
    placed = [one.request_id for result in results for one in result.placed]
    assert sorted(placed) == [request.id for request in requests[:7]]
    assert Allocation.objects.count() == 8
    waiting = Request.objects.waiting()
    assert waiting.count() == 57
    place()
    assert {tuple(request.reasons) for request in waiting.all()} == {("gpu",)}
    assert Slice.objects.filter(released_at=None).count() == 8
    assert recount() == []


def test_passes_over_many_nodes_place_everybody_once():
    nodes = [make_node(gpus=2) for _ in range(6)]
    for _ in range(40):
        make_request(shape=Shape(mode="whole", cpu_milli=1_000))

    results = at_once(*[place] * 4)

    assert sum(len(result.placed) for result in results) == 12
    assert Slice.objects.count() == 12
    assert len({one.gpu_id for one in Slice.objects.all()}) == 2 * len(nodes)
    assert recount() == []


def test_a_cancel_during_a_pass_wins_or_loses_whole():
    make_node(gpus=1)
    tenant = make_tenant()
    requests = [make_request(tenant=tenant) for _ in range(10)]

    [*cancelled, result] = at_once(
        *[
            lambda request=request: cancel_request(instance_id=request.instance_id, now=NOON)
            for request in requests[:3]
        ],
        place,
    )

    states = [Request.objects.get(pk=request.pk).state for request in requests[:3]]
    assert states == ["cancelled" if won else "placed" for won in cancelled]
    assert len(result.placed) == 10 - sum(cancelled)
    assert recount() == []


def test_releases_during_passes_lose_no_room():
    node = make_node(gpus=1)
    tenant = make_tenant()
    for _ in range(10):
        make_request(tenant=tenant)
    place()
    allocations = list(Allocation.objects.all())
    for _ in range(10):
        make_request(tenant=tenant)

    def release(part):
        for seq, allocation in enumerate(part, start=1):
            order_gone(allocation_id=allocation.id, now=NOON)
            say(phase(allocation, "gone", seq=seq))

    at_once(lambda: release(allocations[:5]), lambda: release(allocations[5:]), place, place)
    place()

    assert Allocation.objects.held().count() == 10
    assert recount() == []
    node.refresh_from_db()
    assert node.cpu_milli_free == 54_000
