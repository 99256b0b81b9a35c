"""Advice from samples: what is said at the edges, and silence about what was not seen."""

from datetime import timedelta

import pytest

from rental.instances.models import Instance
from rental.instances.samples.findings import list_findings
from rental.instances.samples.minutes import Minute, store_minutes
from rental.instances.samples.points import Point
from tests.factories.rental import (
    NOON,
    PRICE,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    make_running,
)

pytestmark = pytest.mark.django_db
NOW = NOON + timedelta(hours=3)


@pytest.fixture
def half(db):
    """A running half of a card, with a tenth, two tenths and the whole for sale beside it."""
    make_node()
    make_image()
    offer = make_offer("half", tenths=5)
    make_offer("tenth", tenths=1, price=PRICE // 5)
    make_offer("fifth", tenths=2, price=PRICE // 2)
    return make_running(make_rich_tenant(), offer=offer.code)


def seen(instance, *percents, vram=0, minutes=120):
    """Samples for the last ``minutes``: these percents in turn."""
    first = int((NOW - timedelta(minutes=minutes)).timestamp())
    rows = []
    for number in range(minutes):
        minute = Minute(instance.pk, instance.tenant_id, first + 60 * number)
        minute.add(Point(first, percents[number % len(percents)], vram, 100, 50))
        rows.append(minute)
    store_minutes(rows)


def findings(instance, now=NOW):
    return list_findings(tenant_id=instance.tenant_id, now=now)


def test_busy_in_no_minute_is_idle(half):
    seen(half, 0, 3)

    (found,) = findings(half)

    assert (found.kind, found.busy_percent, found.tenths, found.needed_tenths) == ("idle", 3, 5, 5)
    assert found.offer is None


def test_one_busy_minute_is_not_idle_but_too_large(half):
    """5 tenths x 4 % x 1.2 fit into one."""
    seen(half, 0, 4)

    (found,) = findings(half)

    assert (found.kind, found.needed_tenths) == ("larger_than_needed", 1)
    assert (found.offer.code, found.price) == ("tenth", PRICE // 5)


def test_memory_decides_too(half):
    """The highest memory and a tenth of it more want two tenths."""
    seen(half, 4, vram=half.offer.vram_mib * 3 // 10)

    (found,) = findings(half)

    assert (found.needed_tenths, found.offer.code) == (2, "fifth")


def test_busy_all_the_time_is_too_small_and_no_larger_share_is_for_sale(half):
    seen(half, 95)

    (found,) = findings(half)

    assert (found.kind, found.needed_tenths, found.offer) == ("too_small", 6, None)


def test_used_as_it_should_be_says_nothing(half):
    seen(half, 80)  # 5 x 0.8 x 1.2 = 4.8

    assert findings(half) == []


def test_too_few_minutes_say_nothing(half):
    seen(half, 0, minutes=89)

    assert findings(half) == []


def test_one_that_has_just_begun_says_nothing(half):
    seen(half, 0)
    Instance.objects.filter(pk=half.pk).update(session_ready_at=NOW - timedelta(minutes=119))

    assert findings(half) == []


def test_nobody_elses_instances_and_a_fixed_number_of_queries(half, django_assert_num_queries):
    seen(half, 4)
    stranger = make_rich_tenant()

    assert list_findings(tenant_id=stranger.pk, now=NOW) == []
    with django_assert_num_queries(4):
        findings(half)
