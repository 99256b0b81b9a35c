"""Loading by rows and sums in SQL is what the models say, however a fleet is sold and broken."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.core.inventory import GpuState, NodeState
from scheduler.models import Gpu, Node, Request, Slice
from scheduler.services.allocations import order_gone
from scheduler.services.inventory import load_capacity, load_inventory, load_waiting
from tests.factories.scheduler import (
    A_CARD,
    A_SHARE,
    GIB,
    NOON,
    make_allocation,
    make_gpu,
    make_node,
    make_request,
    make_tenant,
    make_zone,
    place,
)

pytestmark = pytest.mark.django_db

BIG = ("A100", 80 * GIB)


def cut(gpu, *, mode, cells, vram_mib=1_000, tenant=None, profile="", released=False):
    """Sell a part of a card to an allocation of its own, which lies on another node."""
    holder = make_allocation(node=make_node(name=None))
    tenant = tenant or holder.tenant
    if profile:
        Request.objects.filter(pk=holder.request_id).update(mode="mig", profile=profile)
    Slice.objects.create(
        gpu=gpu,
        allocation=holder,
        tenant=tenant,
        mode=mode,
        cells=cells,
        vram_mib=vram_mib,
        created_at=NOON,
        released_at=NOON if released else None,
    )
    Gpu.objects.filter(pk=gpu.pk).update(vram_free_mib=gpu.memory_mib - vram_mib)


def make_fleet():
    tenant = make_tenant()
    sold = make_node(gpus=8, nvlink_group=1, shared_allowed=True)
    own, tiles, whole, mig, media, holes, released, _idle = sold.gpus.order_by("index")
    cut(own, mode="share_tenant", cells=((0, 3),), tenant=tenant, vram_mib=700)
    cut(own, mode="share_tenant", cells=((5, 6),), tenant=tenant, vram_mib=700)
    cut(tiles, mode="share_shared", cells=((0, 2),))
    cut(tiles, mode="share_shared", cells=((8, 10),))
    cut(whole, mode="whole", cells=((0, 10),), vram_mib=24 * GIB)
    cut(mig, mode="mig", cells=((0, 4),), profile="3g.20gb")
    cut(mig, mode="mig", cells=((7, 8),), profile="1g.5gb")
    cut(media, mode="mig", cells=((2, 4),), profile="1g.10gb")
    cut(media, mode="mig", cells=((6, 7),), profile="1g.5gb+me")
    cut(holes, mode="share_tenant", cells=((0, 1), (4, 6), (9, 10)), tenant=tenant)
    cut(released, mode="whole", cells=((0, 10),), released=True)
    broken = make_node(gpus=2, model=BIG, zone=make_zone("test-1b"))
    broken.gpus.filter(index=0).update(health="unhealthy", mig_capable=True)
    broken.gpus.filter(index=1).update(health="missing", vram_free_mib=5)
    make_gpu(broken, index=2, nvlink_group=3)  # of another model
    for status in ("suspect", "lost", None):
        make_node(status=status)
    make_node(cordoned=True, zone=make_zone("test-2a", region="test-2"))
    make_node(gpus=0, cpu_milli=1)
    Node.objects.filter(pk=broken.pk).update(version=9, cpu_milli_free=7, disk_mib_free=8)


# --- what the models say, one object at a time


def taken_of(parts):
    return sum(1 << cell for part in parts for cells in part.cells for cell in range(*cells))


def gpu_as_modelled(gpu):
    parts = list(gpu.slices.filter(released_at=None))
    taken = taken_of(parts)
    return GpuState(
        id=gpu.id,
        index=gpu.index,
        model=(gpu.model.name, gpu.model.memory_mib),
        vram_free_mib=gpu.vram_free_mib,
        nvlink_group=gpu.nvlink_group,
        is_healthy=gpu.health == "healthy",
        taken=taken,
        mode=parts[0].mode if parts else None,
        tenant=parts[0].tenant_id if parts else None,
        tile=taken.bit_count() // len(parts) if parts else 0,
        tile_vram_mib=parts[0].vram_mib if parts else 0,
        is_mig_capable=gpu.mig_capable,
        has_media=any(
            part.mode == "mig" and "+me" in part.allocation.request.profile for part in parts
        ),
    )


def node_as_modelled(node):
    liveness = getattr(node, "liveness", None)
    return NodeState(
        id=node.id,
        version=node.version,
        region=node.zone.region_id,
        zone=node.zone_id,
        is_cordoned=node.cordoned,
        is_live=liveness is not None and liveness.status == "live",
        allows_strangers=node.shared_allowed,
        cpu_milli=node.cpu_milli_free,
        ram_mib=node.ram_mib_free,
        disk_mib=node.disk_mib_free,
        gpus=tuple(gpu_as_modelled(gpu) for gpu in node.gpus.order_by("index")),
    )


def empty_as_modelled(node):
    state = node_as_modelled(node)
    empty = [
        GpuState(
            id=gpu.id,
            index=gpu.index,
            model=(gpu.model.name, gpu.model.memory_mib),
            vram_free_mib=gpu.memory_mib,
            nvlink_group=gpu.nvlink_group,
            is_mig_capable=gpu.mig_capable,
        )
        for gpu in node.gpus.order_by("index")
    ]
    return replace(
        state,
        is_cordoned=False,
        is_live=True,
        cpu_milli=node.cpu_milli_total,
        ram_mib=node.ram_mib_total,
        disk_mib=node.disk_mib_total,
        gpus=tuple(empty),
    )


def comparable(states):
    """Sort, and leave out whose a card is that several tenants share: any of them may be named."""

    def of(gpu):
        return replace(gpu, tenant=None) if gpu.mode in ("share_shared", "mig") else gpu

    return [
        replace(state, gpus=tuple(sorted(map(of, state.gpus), key=lambda gpu: gpu.index)))
        for state in sorted(states, key=lambda state: state.id)
    ]


def test_is_what_the_models_say():
    make_fleet()
    nodes = list(Node.objects.all())

    loaded = load_inventory()
    free, empty = load_capacity()

    assert comparable(loaded.nodes) == comparable(map(node_as_modelled, nodes))
    assert comparable(free.nodes) == comparable(map(node_as_modelled, nodes))
    assert comparable(empty.nodes) == comparable(map(empty_as_modelled, nodes))


def test_the_fleet_of_that_test_has_every_mode_and_a_card_with_media():
    make_fleet()

    cards = [gpu for node in load_inventory().nodes for gpu in node.gpus]

    assert {card.mode for card in cards} == {
        None, "whole", "mig", "share_tenant", "share_shared",
    }  # fmt: skip
    assert [card.taken for card in cards if card.has_media] == [0b100_1100]


@pytest.mark.parametrize("load", [load_inventory, load_capacity])
def test_costs_three_queries_whatever_the_fleet(load, django_assert_num_queries):
    make_fleet()

    with django_assert_num_queries(3):
        load()


def test_what_waits_comes_with_its_disks_and_what_it_still_holds():
    # given one whose disks are on a node, one that also holds its place yet, and a new one
    home = make_allocation()
    settled = make_request(
        instance_id=home.instance_id, tenant=home.tenant, at=NOON + timedelta(seconds=1)
    )
    order_gone(allocation_id=home.id, now=NOON)
    elsewhere = make_node()
    pinned = make_request(residences_on=elsewhere.id, at=NOON + timedelta(seconds=2))
    new = make_request(shape=A_CARD, at=NOON)
    make_request(at=NOON - timedelta(days=2))  # expired

    waiting = load_waiting(now=NOON + timedelta(seconds=3))

    assert list(waiting) == [new.id, settled.id, pinned.id]  # first come, first served
    asks = [one.ask for one in waiting.values()]
    assert [ask.node for ask in asks] == [None, home.node_id, elsewhere.id]
    assert [ask.is_releasing for ask in asks] == [False, True, False]
    assert [ask.disk_mib for ask in asks] == [A_CARD.disk_mib, 0, A_SHARE.disk_mib]
    assert [ask.shape for ask in asks] == [A_CARD, A_SHARE, A_SHARE]
    assert waiting[settled.id].instance_id == home.instance_id


@pytest.mark.parametrize("reasons", [1, 5])
def test_a_pass_costs_the_same_queries_however_many_wait_where(reasons):
    """What is placed, and what waits for different reasons, costs statements and not rows."""

    def queries(*, nodes, requests):
        tenant = make_tenant()
        make_node(cpu_milli=1_000)
        make_request(tenant=tenant)
        place()  # it has its network now
        for _ in range(nodes):
            make_node(gpus=2)
        for number in range(requests):
            make_request(tenant=tenant)
            make_request(tenant=tenant, shape=replace(A_CARD, count=3 + number % reasons))
        with CaptureQueriesContext(
            connection,
        ) as captured:
            result = place()
        assert len(result.placed) == requests
        return len(captured)

    few, many = queries(nodes=1, requests=1), queries(nodes=6, requests=8)

    assert many == few
