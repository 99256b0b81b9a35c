"""What agents say: phases in order, confirmed wipes, facts, and containers nobody ordered."""

from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from agents import protocol
from rental.records.ids import new_id
from scheduler.errors import FrameRefused
from scheduler.models import (
    Allocation,
    AllocationDirty,
    Gpu,
    GpuModel,
    Node,
    QuarantineEvent,
    Residence,
)
from scheduler.services.allocations import order_gone, order_stop, release_residences, restart
from scheduler.services.desired import desired_sets
from scheduler.services.observe import Observed, observe
from scheduler.services.recount import recount
from tests.factories.scheduler import (
    A_CARD,
    GIB,
    NOON,
    fact_of,
    facts_of,
    hello,
    make_allocation,
    make_model,
    make_node,
    phase,
    place,
    say,
)

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(seconds=10)


def clean():
    AllocationDirty.objects.all().delete()


# --- phases


def test_a_phase_is_stored_with_the_time_at_which_it_was_reached():
    allocation = make_allocation()
    clean()
    ssh = protocol.EndpointFact(kind="ssh", host="127.0.0.1", port=2201, user="root")

    say(phase(allocation, "running", seq=3, age_ms=1_500, endpoints=[ssh]))

    allocation.refresh_from_db()
    assert (allocation.phase, allocation.observed_incarnation, allocation.observed_seq) == (
        "running",
        1,
        3,
    )
    assert allocation.phase_at == NOON + timedelta(seconds=8.5)
    assert allocation.endpoints == [
        {"kind": "ssh", "host": "127.0.0.1", "port": 2201, "user": "root"}
    ]
    assert AllocationDirty.objects.filter(allocation=allocation).exists()


def test_progress_keeps_when_each_phase_began():
    allocation = make_allocation()

    say(phase(allocation, "accepted", seq=1), at=NOON)
    say(phase(allocation, "pulling", seq=2, percent=10), at=LATER)
    say(phase(allocation, "pulling", seq=3, percent=60), at=LATER + timedelta(seconds=1))

    allocation.refresh_from_db()
    assert allocation.progress == {
        "at": {"accepted": NOON.isoformat(), "pulling": LATER.isoformat()},
        "percent": 60,
    }


@pytest.mark.parametrize(
    ("incarnation", "seq"), [(1, 9), (2, 4), (2, 5)], ids=["older container", "older", "repeated"]
)
def test_what_is_not_newer_changes_nothing(incarnation, seq):
    allocation = make_allocation()
    restart(allocation_id=allocation.id, run_id=new_id(), now=NOON)
    say(phase(allocation, "running", seq=5, incarnation=2))
    clean()

    say(phase(allocation, "failed", seq=seq, incarnation=incarnation))

    allocation.refresh_from_db()
    assert (allocation.phase, allocation.observed_incarnation) == ("running", 2)
    assert not AllocationDirty.objects.exists()


def test_the_newest_wins_in_any_order_of_one_batch():
    allocation = make_allocation()
    said = [phase(allocation, name, seq=seq) for name, seq in [("running", 3), ("pulling", 2)]]

    observe(
        frames=[Observed(node_id=allocation.node_id, received_at=LATER, message=m) for m in said]
    )

    allocation.refresh_from_db()
    assert (allocation.phase, allocation.observed_seq) == ("running", 3)


def test_an_exit_keeps_its_code_and_closes_the_endpoints():
    allocation = make_allocation()
    ssh = protocol.EndpointFact(kind="ssh", host="127.0.0.1", port=2201)
    say(phase(allocation, "running", seq=1, endpoints=[ssh]))

    say(phase(allocation, "exited", seq=2, exit_code=3, reason="guest"))

    allocation.refresh_from_db()
    assert (allocation.exit_code, allocation.reason, allocation.endpoints) == (3, "guest", [])
    assert allocation.released_at is None


def test_another_node_s_word_about_an_allocation_changes_nothing_and_is_reported():
    allocation = make_allocation()
    stranger = make_node()
    clean()

    say(phase(allocation, "failed", seq=9), node_id=stranger.id)
    say(phase(allocation, "running", seq=10), node_id=stranger.id)

    allocation.refresh_from_db()
    assert (allocation.phase, allocation.observed_seq) == ("", 0)
    [row] = QuarantineEvent.objects.all()  # the one that runs
    assert (row.node_id, row.allocation_id) == (stranger.id, str(allocation.id))


def test_a_frame_without_sense_is_refused():
    allocation = make_allocation()
    message = phase(allocation, "running", seq=1)
    message.allocation = "gpu-7"

    with pytest.raises(FrameRefused):
        say(message)


def test_what_postgresql_cannot_store_in_a_text_is_left_out():
    allocation = make_allocation()

    say(phase(allocation, "failed", seq=1, reason="image\0", detail="a\0b"))

    allocation.refresh_from_db()
    assert (allocation.phase, allocation.reason, allocation.detail) == ("failed", "image", "ab")


# --- release


def test_gone_confirms_the_wipe_and_gives_everything_back():
    node = make_node()
    allocation = make_allocation(node=node, shape=A_CARD)
    version = Node.objects.get(pk=node.pk).version
    order_gone(allocation_id=allocation.id, now=NOON)

    say(phase(allocation, "gone", seq=1))

    allocation.refresh_from_db()
    node.refresh_from_db()
    assert allocation.released_at == LATER
    assert allocation.slices.get().released_at == LATER
    assert node.version == version + 2
    assert (node.cpu_milli_free, node.ram_mib_free) == (64_000, 256 * GIB)
    assert node.disk_mib_free == 1_900 * GIB  # the disks stay
    assert node.gpus.get().vram_free_mib == 24 * GIB
    assert desired_sets([node.id])[0].orders == []
    assert recount() == []


def test_gone_is_confirmed_once():
    node = make_node()
    allocation = make_allocation(node=node)
    order_gone(allocation_id=allocation.id, now=NOON)
    say(phase(allocation, "gone", seq=1))
    before = Node.objects.values().get(pk=node.pk)

    say(phase(allocation, "gone", seq=1))
    say(phase(allocation, "gone", seq=2))

    assert Node.objects.values().get(pk=node.pk) == before
    assert not QuarantineEvent.objects.exists()


def test_gone_that_nobody_ordered_releases_nothing_until_it_is_ordered():
    allocation = make_allocation()
    say(phase(allocation, "gone", seq=1))
    allocation.refresh_from_db()
    assert (allocation.phase, allocation.released_at) == ("gone", None)

    order_gone(allocation_id=allocation.id, now=NOON)
    say(phase(allocation, "gone", seq=1))

    allocation.refresh_from_db()
    assert allocation.released_at == LATER


def test_gone_of_an_earlier_container_is_no_release():
    allocation = make_allocation()
    restart(allocation_id=allocation.id, run_id=new_id(), now=NOON)
    order_gone(allocation_id=allocation.id, now=NOON)

    say(phase(allocation, "gone", seq=1, incarnation=1))

    allocation.refresh_from_db()
    assert allocation.released_at is None


def test_what_runs_after_its_release_is_quarantined_not_revived():
    allocation = make_allocation()
    order_gone(allocation_id=allocation.id, now=NOON)
    say(phase(allocation, "gone", seq=1))

    say(phase(allocation, "running", seq=2))

    allocation.refresh_from_db()
    assert (allocation.phase, allocation.released_at) == ("gone", LATER)
    assert QuarantineEvent.objects.get().alive


# --- disks


def wiped(residence):
    return protocol.ResidenceFact(
        residence=str(residence.id),
        instance=str(residence.instance_id),
        kind=residence.kind,
        state="wiped",
    )


def test_a_wipe_that_was_ordered_frees_the_disk_once():
    node = make_node()
    allocation = make_allocation(node=node)
    disks = list(Residence.objects.filter(instance_id=allocation.instance_id))
    assert release_residences(instance_id=allocation.instance_id, now=NOON) == 2

    for _ in range(2):
        say(hello(Node.objects.get(pk=node.pk), residences=[wiped(disk) for disk in disks]))

    node.refresh_from_db()
    assert node.disk_mib_free == 2_000 * GIB
    assert {disk.wiped_at for disk in Residence.objects.all()} == {LATER}
    assert desired_sets([node.id])[0].residences == []
    assert recount() == []


def test_a_wipe_that_nobody_ordered_frees_nothing():
    node = make_node()
    allocation = make_allocation(node=node)
    disk = Residence.objects.filter(instance_id=allocation.instance_id).first()

    say(hello(Node.objects.get(pk=node.pk), residences=[wiped(disk)]))

    disk.refresh_from_db()
    assert disk.wiped_at is None
    assert recount() == []


def test_how_full_a_disk_is_is_kept():
    allocation = make_allocation()
    disk = Residence.objects.filter(instance_id=allocation.instance_id).first()
    fact = protocol.ResidenceFact(
        residence=str(disk.id), instance=str(disk.instance_id), kind=disk.kind, used_bytes=12_345
    )

    say(hello(Node.objects.get(pk=allocation.node_id), residences=[fact]))

    disk.refresh_from_db()
    assert disk.used_bytes == 12_345


# --- hello


def test_hello_makes_the_inventory_and_wakes_the_models_it_reports():
    node = make_node(gpus=0, cpu_milli=0, ram_mib=0, disk_mib=0)
    make_model("A100", 80 * GIB)
    GpuModel.objects.update(active=False)
    facts = protocol.Facts(
        cpu_milli=32_000,
        ram_mib=128 * GIB,
        disk_mib=900 * GIB,
        shared_allowed=True,
        gpus=[
            protocol.GpuFact(
                uuid="GPU-1", index=0, model="A100", memory_mib=81_559, serial="S1", nvlink_group=2
            ),
            protocol.GpuFact(
                uuid="GPU-2",
                index=1,
                model="Odd",
                memory_mib=5_000,
                healthy=False,
                health_reason="ECC",
            ),
        ],
    )

    say(hello(node, facts=facts))

    node.refresh_from_db()
    assert (node.cpu_milli_total, node.cpu_milli_free, node.version) == (32_000, 32_000, 2)
    assert (node.shared_allowed, node.facts["boot"]) == (True, "boot-1")
    first, second = node.gpus.order_by("index")
    assert (first.model.name, first.model.memory_mib, first.model.active) == ("A100", 81_920, True)
    assert (first.memory_mib, first.vram_free_mib, first.nvlink_group) == (81_559, 81_559, 2)
    assert (second.model.name, second.health, second.health_reason) == ("Odd", "unhealthy", "ECC")


def test_a_model_is_a_name_with_a_memory():
    make_model("RTX 4090", 48 * GIB)
    node = make_node(gpus=0)
    card = protocol.GpuFact(uuid="GPU-1", index=0, model="RTX 4090", memory_mib=24_564)

    say(hello(node, facts=facts_of(node, gpus=[card])))

    assert node.gpus.get().model.memory_mib == 24_564  # not the one of 48 GiB


def test_the_same_hello_again_changes_nothing():
    node = make_node(gpus=2)
    say(hello(node))
    before = Node.objects.values().get(pk=node.pk)

    say(hello(node), at=LATER + timedelta(seconds=5))

    assert Node.objects.values().get(pk=node.pk) == before


def test_a_card_that_is_not_reported_is_missing_and_back_when_it_is():
    node = make_node(gpus=2)
    one, two = node.gpus.order_by("index")
    say(hello(node, facts=facts_of(node, gpus=[fact_of(one)])))
    two.refresh_from_db()
    assert two.health == "missing"

    say(hello(node, facts=facts_of(node, gpus=[fact_of(one), fact_of(two)])))

    two.refresh_from_db()
    assert two.health == "healthy"


def test_a_node_cannot_claim_another_node_s_card_until_that_one_has_lost_it():
    owner, claimant = make_node(gpus=1), make_node(gpus=0)
    card = owner.gpus.get()
    claim = hello(claimant, facts=facts_of(claimant, gpus=[fact_of(card)]))

    say(claim)
    card.refresh_from_db()
    assert (card.node_id, card.health) == (owner.id, "healthy")

    say(hello(owner, facts=facts_of(owner, gpus=[])))
    say(claim)
    card.refresh_from_db()
    assert (card.node_id, card.health) == (claimant.id, "healthy")


def test_a_node_that_shrinks_keeps_what_it_has_sold():
    node = make_node(cpu_milli=8_000)
    make_allocation(node=node, shape=A_CARD)
    node.refresh_from_db()

    say(hello(node, facts=facts_of(node, cpu_milli=4_000)))

    node.refresh_from_db()
    assert (node.cpu_milli_total, node.cpu_milli_free) == (8_000, 0)
    assert recount() == []


def test_hello_stores_the_phases_it_brings():
    allocation = make_allocation()
    node = Node.objects.get(pk=allocation.node_id)

    say(hello(node, phases=[phase(allocation, "running", seq=1)]))

    allocation.refresh_from_db()
    assert allocation.phase == "running"


def test_an_allocation_that_hello_does_not_name_is_left_to_the_agent():
    allocation = make_allocation()
    say(phase(allocation, "running", seq=1))
    before = Allocation.objects.values().get(pk=allocation.pk)

    say(hello(Node.objects.get(pk=allocation.node_id)))

    assert Allocation.objects.values().get(pk=allocation.pk) == before
    assert [o.want for o in desired_sets([allocation.node_id])[0].orders] == ["run"]


# --- quarantine


def unknown(**fields):
    return protocol.Unknown(allocation=str(new_id()), instance="ins", incarnation=2, **fields)


def test_containers_that_nobody_ordered_are_kept_in_quarantine_until_they_end():
    node = make_node()
    container = unknown(run="run-1")
    say(hello(node, unknown=[container]), at=NOON)
    say(hello(node, unknown=[container]), at=LATER)

    [row] = QuarantineEvent.objects.all()
    assert (row.allocation_id, row.incarnation, row.run_id) == (container.allocation, 2, "run-1")
    assert (row.first_seen_at, row.last_seen_at, row.alive) == (NOON, LATER, True)

    say(hello(node), at=LATER + timedelta(seconds=1))

    row.refresh_from_db()
    assert (row.alive, row.last_seen_at) == (False, LATER)


def test_allocations_lost_behind_the_server_s_back_are_all_reported_and_none_is_ended():
    node = make_node(gpus=3)
    lost = [make_allocation(node=node, shape=A_CARD) for _ in range(3)]
    said = hello(node, phases=[phase(one, "running", seq=1) for one in lost])
    AllocationDirty.objects.all().delete()
    for one in lost:
        one.slices.all().delete()
    Allocation.objects.all().delete()

    say(said)

    assert QuarantineEvent.objects.filter(alive=True).count() == 3
    assert desired_sets([node.id])[0].orders == []  # absence, not an order


def test_a_container_of_a_future_that_a_restore_undid_is_quarantined():
    allocation = make_allocation()

    say(phase(allocation, "running", seq=1, incarnation=2))

    allocation.refresh_from_db()
    assert allocation.phase == ""
    assert QuarantineEvent.objects.get().incarnation == 2


# --- orders


def test_desired_sets_hold_what_the_rows_say():
    node = make_node(name="node-a")
    allocation = make_allocation(node=node)
    order_stop(allocation_id=allocation.id, at_tick=600, now=NOON)
    release_residences(instance_id=allocation.instance_id, now=NOON)

    [desired] = desired_sets([node.id, new_id()])

    version = Node.objects.get(pk=node.pk).version
    assert (desired.node, desired.control_epoch, desired.node_version) == (str(node.id), 1, version)
    [order] = desired.orders
    assert (order.allocation, order.run) == (str(allocation.id), str(allocation.run_id))
    assert (order.want, order.incarnation, order.spec_rev, order.stop_at_tick) == ("run", 1, 1, 600)
    assert order.spec.image == "registry.test/cuda:12.8"
    assert order.slices == [
        protocol.SliceSpec(
            gpu_uuid="GPU-node-a-0", mode="share_tenant", from_cell=0, until_cell=1, vram_mib=2_457
        )
    ]
    assert [(r.kind, r.disk_mib, r.want) for r in desired.residences] == [
        ("system", 2 * GIB, "gone"),
        ("workspace", 8 * GIB, "gone"),
    ]


def test_a_pass_after_a_release_sells_the_same_cells_again():
    node = make_node()
    allocation = make_allocation(node=node, shape=A_CARD)
    order_gone(allocation_id=allocation.id, now=NOON)
    say(phase(allocation, "gone", seq=1))

    again = make_allocation(node=node, shape=A_CARD)

    assert again.slices.get().gpu_id == allocation.slices.get().gpu_id
    assert place().placed == []
    assert Gpu.objects.get().vram_free_mib == 0


@pytest.mark.parametrize(
    ("epoch", "obeyed", "is_told"), [(1, 9, True), (1, 1, False), (0, 9, False)]
)
def test_a_node_that_obeyed_orders_we_never_gave_is_told_to_the_operator(epoch, obeyed, is_told):
    node = make_node()
    message = msgspec.structs.replace(hello(node), control_epoch=epoch, node_version=obeyed)

    with capture_logs() as logs:
        say(message)

    told = [entry for entry in logs if entry["event"] == "control_plane.went_back"]
    assert [entry["obeyed"] for entry in told] == ([9] if is_told else [])
