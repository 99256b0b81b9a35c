"""The map of the fleet: who holds what, filters, switches, and a fixed number of queries."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from rental.operate.fleet import Filters, initials_of, load_fleet
from rental.operate.node import guests_of
from rental.operate.overview import look
from rental.records.clock import database_now
from rental.records.ids import new_id
from rental.tenants.models import AuditEvent
from scheduler.core.shapes import Shape
from scheduler.models import Allocation, Gpu, Node, NodeLiveness, Residence, Slice, SliceMode
from tests.factories.rental import make_image, make_offer, make_rich_tenant, make_running
from tests.factories.rental import make_node as node_of_offers
from tests.factories.scheduler import (
    GIB,
    NOON,
    make_allocation,
    make_gpu,
    make_node,
    make_tenant,
    make_zone,
)
from tests.operate.conftest import staff_with

pytestmark = pytest.mark.django_db
HALF_A_CARD = Shape(
    gpu_models=(("A100", 80 * GIB),), mode="mig", profile="3g.40gb", cpu_milli=1, ram_mib=1
)


def keep_disk(node):
    return Residence.objects.create(
        instance_id=new_id(), tenant=make_tenant(), node=node, kind="system", disk_mib=1,
        created_at=NOON,
    )  # fmt: skip


def names(**filters):
    return [one.node.name for one in load_fleet(Filters(**filters)).nodes]


def test_a_card_is_cut_in_what_is_held_and_what_is_free():
    make_image(), make_offer()
    node_of_offers()
    tenant = make_rich_tenant()
    instance = make_running(tenant)

    (one,) = load_fleet(Filters()).nodes

    (card,) = one.cards
    held, free = card.parts
    assert (held.width, held.tenant, held.instance, held.offer) == (
        1, tenant.slug, instance.name, "a100-80g-1t",
    )  # fmt: skip
    assert (free.width, free.tenant) == (9, "")
    assert (card.taken, card.cells) == (1, 10)


def test_gaps_between_what_is_held_are_shown_where_they_are():
    allocation = make_allocation()
    gpu = Slice.objects.get(allocation=allocation).gpu
    Slice.objects.update(cells=((2, 3),))
    Slice.objects.create(
        gpu=gpu, allocation=allocation, tenant_id=allocation.tenant_id,
        mode=SliceMode.SHARE_TENANT, cells=((5, 10),), vram_mib=1, created_at=NOON,
    )  # fmt: skip

    (card,) = load_fleet(Filters()).nodes[0].cards

    assert [(part.width, bool(part.tenant)) for part in card.parts] == [
        (2, False), (1, True), (2, False), (5, True),
    ]  # fmt: skip


def test_what_was_released_is_free_again():
    make_allocation()
    Slice.objects.update(released_at=NOON)
    fleet = load_fleet(Filters())
    assert (fleet.held_milli, fleet.idle_cards, fleet.tenants) == (0, 1, [])
    Node.objects.update(cordoned=True)
    assert load_fleet(Filters()).idle_cards == 0


def test_filters_leave_the_nodes_that_are_asked_for():
    east = make_node(name="east", zone=make_zone("east-1", "east"))
    make_node(name="other", model=("H100", 80 * GIB))
    make_node(name="closed", cordoned=True)
    make_node(name="gone", status="lost")
    make_node(name="silent", status=None)
    sick = make_node(name="sick")
    Gpu.objects.filter(node=sick).update(health="unhealthy")
    full = make_node(name="full")
    allocation = make_allocation(node=full)
    Slice.objects.filter(allocation=allocation).update(mode="whole", cells=((0, 10),))

    assert names() == ["closed", "east", "full", "gone", "other", "sick", "silent"]
    assert names(region="east") == names(zone="east-1") == ["east"]
    assert names(model=Gpu.objects.get(node__name="other").model_id) == ["other"]
    assert names(state="cordoned") == ["closed"]
    assert names(state="trouble") == ["gone", "sick", "silent"]
    assert names(state="free") == ["east", "other"]
    assert names(region="east", state="cordoned") == []
    assert east.name in names(state="nonsense")


def test_nodes_that_were_given_up_are_hidden_and_can_be_asked_for():
    make_node(name="live")
    make_node(name="lost", status="lost")
    make_node(name="closed", cordoned=True)
    make_allocation(node=make_node(name="held"))
    Node.objects.filter(name="held").update(cordoned=True)
    NodeLiveness.objects.filter(node__name="held").update(status="lost")
    keep_disk(make_node(name="kept", status="lost", cordoned=True))
    make_node(name="gone", status="lost", cordoned=True)
    make_node(name="never", status=None, cordoned=True)

    assert names() == ["closed", "held", "kept", "live", "lost"]
    assert names(state="cordoned") == ["closed", "held", "kept"]
    assert names(state="trouble") == ["held", "kept", "lost"]
    assert names(state="gone") == ["gone", "never"]
    assert load_fleet(Filters()).given_up == 2

    NodeLiveness.objects.filter(node__name="gone").update(status="live")
    assert "gone" in names()


def test_a_node_that_was_declared_dead_leaves_the_map_and_the_counts(staff):
    node = make_node(name="gone", status="lost")
    page = reverse("admin:scheduler_node_declare_dead", args=[node.pk])

    asked = staff.get(page).content.decode()
    staff.post(page, {"name": "gone", "reason": "sold"})

    assert "nothing moves" in asked
    assert "No disk is kept on it" in asked
    assert names() == []
    assert look(now=database_now()).nodes.known == 0
    shown = staff.get(reverse("operate:fleet")).content.decode()
    assert "1 node that was given up is not shown" in shown
    assert "?state=gone" in shown


def test_who_is_on_a_node_and_what_draining_does():
    make_image(), make_offer()
    node = node_of_offers()
    tenant = make_rich_tenant()
    running = make_running(tenant)
    client = staff_with("scheduler:read")

    page = client.get(reverse("operate:node", args=[node.pk]))

    (guest,) = page.context["guests"].running
    assert (guest.instance, guest.tenant) == (running, tenant)
    assert page.context["guests"].resting == []
    text = page.content.decode()
    assert "stops the rest at that time" in text
    assert reverse("admin:rental_instance_change", args=[running.pk]) in text
    assert reverse("operate:change_node", args=[node.pk, "drain"]) not in text


def test_who_only_keeps_disks_on_a_node_is_named_apart():
    disk = keep_disk(make_node())

    guests = guests_of(disk.node)

    assert guests.running == []
    assert [(one.tenant, one.instance) for one in guests.resting] == [(disk.tenant, None)]


def test_draining_leads_to_who_is_left(staff):
    node = make_node()
    page = reverse("operate:node", args=[node.pk])

    answer = staff.post(reverse("operate:change_node", args=[node.pk, "drain"]))

    assert answer["Location"] == page
    assert "it can be switched off" in staff.get(page).content.decode()


def test_a_page_ends_and_the_next_one_goes_on(monkeypatch):
    monkeypatch.setattr("rental.operate.fleet.NODES_ON_A_PAGE", 2)
    for name in ("a", "b", "c"):
        make_node(name=name)
    first = load_fleet(Filters())
    assert ([one.node.name for one in first.nodes], first.is_cut_off) == (["a", "b"], True)
    rest = load_fleet(Filters(), after="b")
    assert ([one.node.name for one in rest.nodes], rest.is_cut_off) == (["c"], False)


def test_the_page_asks_no_more_for_a_larger_fleet(staff):
    def queries():
        with CaptureQueriesContext(connection) as asked:
            assert staff.get(reverse("operate:fleet")).status_code == 200
        return len(asked)

    make_allocation()
    first = queries()
    for _ in range(4):
        make_allocation(node=make_node(gpus=4))

    assert queries() == first <= 12


def test_nonsense_in_the_address_is_no_error(staff):
    address = reverse("operate:fleet")
    for query in ("model=x", "state=x", "zone='", "after=%00", "region=" + "x" * 300):
        assert staff.get(f"{address}?{query}").status_code == 200, query


@pytest.mark.parametrize(
    ("verb", "cordoned", "drained"),
    [("cordon", True, False), ("drain", True, True)],
)
def test_a_switch_changes_the_node_once_and_is_audited(staff, verb, cordoned, drained):
    node = make_node()
    address = reverse("operate:change_node", args=[node.pk, verb])

    for _ in range(2):
        assert staff.post(address, {"name": node.name}).status_code == 302

    node.refresh_from_db()
    assert (node.cordoned, node.drained) == (cordoned, drained)
    event = AuditEvent.objects.get(verb=f"node.{verb}")
    assert event.actor_kind == "staff"

    staff.post(reverse("operate:change_node", args=[node.pk, "uncordon"]))
    node.refresh_from_db()
    assert (node.cordoned, node.drained) == (False, False)


def test_who_may_only_look_switches_nothing_and_sees_no_button():
    node = make_node()
    client = staff_with("scheduler:read")
    address = reverse("operate:change_node", args=[node.pk, "cordon"])

    assert client.post(address).status_code == 403
    assert address not in client.get(reverse("operate:fleet")).content.decode()
    assert not Node.objects.get().cordoned
    assert not AuditEvent.objects.filter(verb="node.cordon").exists()


def test_an_unknown_switch_and_an_unknown_node_are_not_found(staff):
    node = make_node()
    assert staff.post(reverse("operate:change_node", args=[node.pk, "explode"])).status_code == 404
    other = Allocation().id
    assert staff.post(reverse("operate:change_node", args=[other, "cordon"])).status_code == 404


def test_names_are_escaped_in_the_map(staff):
    allocation = make_allocation()
    type(allocation.tenant).objects.update(slug="a-b")
    page = staff.get(reverse("operate:fleet")).content.decode()
    assert ">AB</a>" in page


@pytest.mark.parametrize(
    ("slug", "letters"), [("acme-vision", "AV"), ("acme", "AC"), ("a", "A"), ("a-b-c", "AB")]
)
def test_two_letters_name_a_tenant_in_a_narrow_cell(slug, letters):
    assert initials_of(slug) == letters


def test_a_card_that_is_cut_for_mig_is_drawn_in_its_memory_slices(staff):
    node = make_node(gpus=0)
    make_gpu(node, model=("A100", 80 * GIB), mig_capable=True)
    allocation = make_allocation(node=node, shape=HALF_A_CARD)

    fleet = load_fleet(Filters())

    (card,) = fleet.nodes[0].cards
    assert (card.cells, card.taken) == (8, 4)
    assert sorted((part.width, part.profile) for part in card.parts) == [(4, ""), (4, "3g.40gb")]
    assert (fleet.held_milli, fleet.all_milli) == (500, 1_000)
    assert [count for _cell, count in fleet.tenants] == [5]
    assert [mode for mode, _words in fleet.modes] == ["mig"]
    page = staff.get(reverse("operate:fleet")).content.decode()
    assert 'class="op-tiles of8"' in page
    assert 'class="op-cell w4 m-mig"' in page
    assert ">3g.40gb</a>" in page
    assert not fleet.has_spot

    type(allocation.request).objects.update(market="spot")
    assert load_fleet(Filters()).has_spot
    assert 'm-mig spot"' in staff.get(reverse("operate:fleet")).content.decode()
