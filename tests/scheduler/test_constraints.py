"""What PostgreSQL refuses, whoever asks: each constraint is shown by trying to break it."""

import pytest
from django.db import DataError, IntegrityError, transaction

from scheduler.models import Allocation, Gpu, Node, Residence, Slice
from tests.factories.scheduler import GIB, NOON, make_allocation, make_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpu():
    return make_node(gpus=1, shared_allowed=True).gpus.get()


@pytest.fixture
def holder():
    """An allocation on another node, to hang slices on."""
    return make_allocation()


def cut(gpu, holder, *, cells, mode="share_tenant", tenant_id=None, vram_mib=1_000, **fields):
    return Slice.objects.create(
        gpu=gpu,
        allocation=holder,
        tenant_id=tenant_id or holder.tenant_id,
        mode=mode,
        cells=cells,
        vram_mib=vram_mib,
        created_at=NOON,
        **fields,
    )


def refused(constraint):
    return pytest.raises(IntegrityError, match=constraint)


def test_cells_come_back_as_they_were_stored(gpu, holder):
    made = cut(gpu, holder, cells=((7, 10), (0, 2), (2, 3)))

    assert Slice.objects.get(pk=made.pk).cells == ((0, 3), (7, 10))


def test_a_cell_is_sold_once(gpu, holder):
    cut(gpu, holder, cells=((0, 3),))
    cut(gpu, holder, cells=((3, 5),))

    with refused("gpu_cells_are_sold_once"):
        cut(gpu, holder, cells=((4, 6),))


def test_a_released_cell_is_sold_again(gpu, holder):
    cut(gpu, holder, cells=((0, 10),), mode="whole", released_at=NOON)

    cut(gpu, holder, cells=((0, 3),))


def test_a_card_has_one_mode(gpu, holder):
    cut(gpu, holder, cells=((0, 3),))

    with refused("gpu_has_one_mode"):
        cut(gpu, holder, cells=((5, 7),), mode="mig")


def test_a_tenant_s_card_has_no_stranger(gpu, holder):
    stranger = make_allocation()
    cut(gpu, holder, cells=((0, 3),))

    with refused("gpu_of_one_tenant_has_no_stranger"):
        cut(gpu, stranger, cells=((5, 7),))


def test_strangers_share_in_equal_tiles(gpu, holder):
    stranger = make_allocation()
    cut(gpu, holder, cells=((0, 2),), mode="share_shared")
    cut(gpu, stranger, cells=((2, 4),), mode="share_shared")

    with refused("gpu_tiles_of_strangers_are_equal"), transaction.atomic():
        cut(gpu, stranger, cells=((4, 5),), mode="share_shared")
    with refused("gpu_memory_of_strangers_is_equal"):
        cut(gpu, stranger, cells=((4, 6),), mode="share_shared", vram_mib=1_001)


def test_mig_rows_of_two_tenants_lie_beside_each_other(gpu, holder):
    cut(gpu, holder, cells=((0, 4),), mode="mig")
    cut(gpu, make_allocation(), cells=((4, 5),), mode="mig")

    assert gpu.slices.count() == 2


@pytest.mark.parametrize(
    ("column", "constraint"),
    [
        ("cpu_milli_free", "node_cpu_is_not_oversold"),
        ("ram_mib_free", "node_ram_is_not_oversold"),
        ("disk_mib_free", "node_disk_is_not_oversold"),
    ],
)
@pytest.mark.parametrize("value", [-1, 3_000 * GIB])
def test_counters_of_a_node_stay_between_nothing_and_all(gpu, column, constraint, value):
    with pytest.raises((IntegrityError, DataError), match=constraint):
        Node.objects.filter(pk=gpu.node_id).update(**{column: value})


@pytest.mark.parametrize("value", [-1, 24 * GIB + 1])
def test_memory_of_a_card_stays_between_nothing_and_all(gpu, value):
    with refused("gpu_memory_is_not_oversold"):
        Gpu.objects.filter(pk=gpu.pk).update(vram_free_mib=value)


def test_an_instance_is_allocated_once(holder):
    copy = Allocation.objects.get(pk=holder.pk)
    copy.pk = None

    with refused("instance_is_allocated_once"):
        copy.save(force_insert=True)


def test_an_allocation_is_released_only_when_it_should_be_gone(holder):
    with refused("allocation_is_released_when_it_should_be_gone"):
        Allocation.objects.filter(pk=holder.pk).update(released_at=NOON)


def test_a_disk_is_wiped_only_when_it_should_be_gone(holder):
    with refused("residence_is_wiped_when_it_should_be_gone"):
        Residence.objects.filter(instance_id=holder.instance_id).update(wiped_at=NOON)


def test_a_drained_node_is_cordoned(gpu):
    with refused("node_is_drained_when_cordoned"):
        Node.objects.filter(pk=gpu.node_id).update(drained=True)
