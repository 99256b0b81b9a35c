"""MIG on PostgreSQL: what is stored, what is read back, and that no memory slice is sold twice."""

import pytest
from django.db import IntegrityError, transaction

from rental.catalog.services import shape_of as shape_of_offer
from rental.instances.orders import shape_of as stored_shape_of
from rental.instances.orders import stored_shape
from scheduler.models import Allocation, Node, Request, Slice
from scheduler.queries import stock_of
from scheduler.services.allocations import order_gone
from scheduler.services.inventory import load_inventory
from scheduler.services.recount import recount
from scheduler.services.requests import Shape
from tests.factories.rental import REGION, make_offer
from tests.factories.scheduler import (
    GIB,
    NOON,
    make_allocation,
    make_gpu,
    make_node,
    make_request,
    make_tenant,
    phase,
    place,
    say,
)
from tests.scheduler.test_races import at_once

pytestmark = pytest.mark.django_db

A100 = ("A100", 40 * GIB)


def make_room(*, gpus=1):
    """A node of A100s that can be cut."""
    node = make_node(gpus=0)
    for index in range(gpus):
        make_gpu(node, index=index, model=A100, mig_capable=True)
    return node


def a_part(profile, **fields):
    return Shape(mode="mig", profile=profile, cpu_milli=1_000, **fields)


def ask_for(*profiles, tenant=None):
    tenant = tenant or make_tenant()
    return [make_request(tenant=tenant, shape=a_part(profile)) for profile in profiles]


def held():
    """(card, mode, cells, MiB) of what is sold."""
    rows = Slice.objects.filter(released_at=None).order_by("gpu__index", "cells")
    return list(rows.values_list("gpu__index", "mode", "cells", "vram_mib"))


def release(*allocations):
    for allocation in allocations:
        order_gone(allocation_id=allocation.id, now=NOON)
        say(phase(allocation, "gone", seq=1))


def reasons(request):
    place()
    request.refresh_from_db()
    return request.reasons


# --- what is stored


def test_a_part_is_stored_as_its_memory_slices_with_the_memory_of_its_profile():
    node = make_room()
    [request] = ask_for("3g.20gb")

    place()

    request.refresh_from_db()
    assert (request.state, request.profile, request.tenths) == ("placed", "3g.20gb", 10)
    assert held() == [(0, "mig", ((4, 8),), 19_968)]
    assert node.gpus.get().vram_free_mib == 40 * GIB - 19_968
    assert recount() == []


def test_parts_of_strangers_lie_on_one_card():
    make_room(gpus=2)
    ask_for("2g.10gb")
    ask_for("2g.10gb")

    place()

    assert [(card, cells) for card, _, cells, _ in held()] == [(0, ((0, 2),)), (0, ((2, 4),))]


def test_a_part_and_a_share_never_lie_on_one_card():
    make_room()
    ask_for("1g.5gb")
    place()

    share = make_request(shape=Shape(mode="share_tenant", tenths=1))
    assert reasons(share) == {"gpu": 1}
    whole = make_request(shape=Shape(mode="whole"))
    assert reasons(whole) == {"gpu": 1}


def test_a_card_that_cannot_be_cut_says_so():
    make_node()
    [request] = ask_for("1g.5gb")

    assert reasons(request) == {"mig": 1}


# --- what is read back


def test_row_3_the_second_part_of_one_is_refused_when_the_state_is_read_from_rows():
    make_room()
    ask_for("2g.10gb", "2g.10gb", "2g.10gb", "1g.5gb")
    place()
    assert load_inventory().taken.tolist() == [[0b0111_1111]]

    [second] = ask_for("1g.5gb")

    assert reasons(second) == {"gpu": 1}
    assert [cells for _, _, cells, _ in held()] == [((0, 2),), ((2, 4),), ((4, 6),), ((6, 7),)]


def test_what_is_read_is_what_the_pass_had_in_its_hands():
    """Parts of every size on two cards, two of them released again."""
    make_room(gpus=2)
    ask_for("1g.5gb+me", "3g.20gb", "2g.10gb", "1g.10gb", "4g.20gb", "1g.5gb")
    place()
    released = Allocation.objects.filter(request__profile__in=["4g.20gb", "1g.5gb"])
    release(*released)

    room = load_inventory()

    sold = [0, 0]
    for card, mode, cells, _ in held():
        assert mode == "mig"
        for start, end in cells:
            sold[card] |= (1 << end) - (1 << start)
    assert room.taken.tolist() == [sold]
    assert sum(mask.bit_count() for mask in sold) == 1 + 4 + 2 + 2
    assert (room.free[room.taken > 0] == 0).all()
    assert recount() == []


def test_the_part_with_media_extensions_is_found_again_and_is_one_a_card():
    make_room()
    ask_for("1g.5gb", "1g.5gb+me")
    place()
    assert load_inventory().has_media.tolist() == [[1]]

    [request] = ask_for("1g.5gb+me")
    assert reasons(request) == {"gpu": 1}

    release(Allocation.objects.get(request__profile="1g.5gb+me"))
    assert load_inventory().has_media.tolist() == [[0]]
    assert len(place().placed) == 1


def test_memory_instead_of_a_profile_gets_the_smallest_that_has_it():
    make_room()
    make_request(shape=Shape(mode="mig", vram_mib=5_000))

    place()

    assert held() == [(0, "mig", ((6, 8),), 9_850)]


def test_row_35_a_switch_leaves_nothing_of_the_last_layout_and_is_one_step_of_the_version():
    """Two cards: nothing, then seven parts of one each, then one of seven each."""
    node = make_room(gpus=2)
    tenant = make_tenant()

    def version():
        return Node.objects.get(pk=node.pk).version

    for layout, full in ((["1g.5gb"] * 14, 0b0111_1111), (["7g.40gb"] * 2, 0b1111_1111)):
        assert load_inventory().taken.tolist() == [[0] * 2]
        ask_for(*layout, tenant=tenant)
        before = version()
        assert len(place().placed) == len(layout)
        assert version() == before + 1
        assert load_inventory().taken.tolist() == [[full] * 2]
        [more] = ask_for("1g.5gb")
        assert reasons(more) == {"gpu": 1}
        Request.objects.filter(pk=more.pk).update(state="cancelled", decided_at=NOON)
        release(*Allocation.objects.held())
    assert recount() == []


# --- what is refused


@pytest.mark.parametrize(("start", "end"), [(3, 4), (0, 8), (2, 6)])
def test_a_memory_slice_is_sold_once(start, end):
    node, holder = make_room(), make_allocation()

    def cut(*cells):
        with transaction.atomic():
            Slice.objects.create(
                gpu=node.gpus.get(),
                allocation=holder,
                tenant_id=holder.tenant_id,
                mode="mig",
                cells=(cells,),
                vram_mib=1,
                created_at=NOON,
            )

    cut(0, 4)
    cut(4, 8)
    with pytest.raises(IntegrityError, match="gpu_cells_are_sold_once"):
        cut(start, end)


def test_a_profile_is_for_mig():
    request = make_request()

    with pytest.raises(IntegrityError, match="request_of_a_profile_is_for_mig"):
        Request.objects.filter(pk=request.pk).update(profile="1g.5gb")


@pytest.mark.django_db(transaction=True)
def test_passes_at_once_sell_no_memory_slice_twice():
    # given a card with room for seven parts of one, and twenty who want one
    make_room()
    requests = ask_for(*["1g.5gb"] * 20)

    # when four passes run at once
    results = at_once(*[place] * 4)

    # then the first seven have them, each its own
    placed = [one.request_id for result in results for one in result.placed]
    assert sorted(placed) == sorted(request.id for request in requests[:7])
    assert [cells for _, _, cells, _ in held()] == [((start, start + 1),) for start in range(7)]
    place()
    assert {tuple(one.reasons) for one in Request.objects.waiting()} == {("gpu",)}
    assert recount() == []


# --- offers


def make_mig_offer(code, profile, vram_mib):
    return make_offer(
        code, slice="mig", isolation="hardware", tenths=9, mig_profile=profile, vram_mib=vram_mib
    )


def test_the_profile_of_an_offer_reaches_the_scheduler():
    shape = shape_of_offer(make_mig_offer("a100-3g", "3g.40gb", 40_192))

    assert (shape.mode, shape.profile, shape.vram_mib) == ("mig", "3g.40gb", 40_192)
    assert stored_shape_of(stored_shape(shape)) == shape


def test_what_waits_and_what_is_left_are_counted_by_profile():
    three, wide = (
        (shape_of_offer(make_mig_offer(code, profile, vram_mib)), REGION)
        for code, profile, vram_mib in (
            ("a100-3g", "3g.40gb", 40_192),
            ("a100-1g", "1g.20gb", 19_968),
        )
    )
    node = make_node(gpus=0)
    make_gpu(node, model=("A100", 81_920), mig_capable=True)
    zone_region = node.zone.region_id
    make_request(shape=three[0], region=zone_region)

    found = stock_of([(three[0], zone_region), (wide[0], zone_region)], now=NOON)

    assert [(one.available, one.waiting) for one in found] == [(2, 1), (4, 0)]
