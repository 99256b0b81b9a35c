"""What a pass decides by, as rows say it; and replays of what was asked for."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from rental.records.clock import database_now
from scheduler.core.placement import Rules
from scheduler.core.queue import Use
from scheduler.core.replay import Outcome
from scheduler.models import Allocation, Region, Request
from scheduler.services.allocations import order_gone
from scheduler.services.replay import best_of, replay_requests
from scheduler.services.requests import Shape
from scheduler.services.rules import load_forecast, load_rules
from tests.factories.scheduler import (
    A_CARD,
    A_SHARE,
    NOON,
    make_node,
    make_request,
    make_tenant,
    phase,
    place,
    say,
)

pytestmark = pytest.mark.django_db


def test_an_empty_fleet_has_rules_too():
    assert load_rules(now=NOON) == Rules()


def test_tenants_hold_what_their_slices_and_allocations_say_until_it_is_released():
    make_node(gpus=2)
    ann, bob = make_tenant(), make_tenant()
    make_request(tenant=ann, shape=Shape(mode="whole", cpu_milli=4_000, ram_mib=1_024))
    for _ in range(2):
        make_request(tenant=bob, shape=A_SHARE)
    result = place()

    held = load_rules(now=NOON).held
    assert (held[ann.id].milli, held[ann.id].cpu_milli, held[ann.id].ram_mib) == (
        1_000,
        4_000,
        1_024,
    )
    assert held[bob.id] == Use(
        milli=2 * 100 * A_SHARE.tenths,
        vram_mib=2 * A_SHARE.vram_mib,
        cpu_milli=2 * A_SHARE.cpu_milli,
        ram_mib=2 * A_SHARE.ram_mib,
    )
    for placed in result.placed:
        order_gone(allocation_id=placed.allocation_id, now=NOON)
        say(phase(Allocation.objects.get(pk=placed.allocation_id), "gone", seq=1))
    assert load_rules(now=NOON).held == {}


def test_the_total_is_what_there_is_sold_or_not():
    node = make_node(gpus=3)

    total = load_rules(now=NOON).total

    assert (total.milli, total.cpu_milli) == (3_000, node.cpu_milli_total)


def test_who_holds_less_is_placed_first_though_he_came_later():
    make_node(gpus=2)
    ann, bob = make_tenant(), make_tenant()
    make_request(tenant=ann, shape=A_CARD)
    place()
    later = make_request(tenant=ann, shape=A_CARD, at=NOON)
    last = make_request(tenant=bob, shape=A_CARD, at=NOON + timedelta(seconds=1))

    result = place(now=NOON + timedelta(seconds=2))

    assert [one.request_id for one in result.placed] == [last.id]
    later.refresh_from_db()
    assert later.reasons == {"gpu": 1}


def test_who_has_waited_five_minutes_longer_is_placed_first_though_he_holds_more():
    make_node(gpus=2)
    ann, bob = make_tenant(), make_tenant()
    make_request(tenant=ann, shape=A_CARD)
    place()
    first = make_request(tenant=ann, shape=A_CARD, at=NOON)
    make_request(tenant=bob, shape=A_CARD, at=NOON + timedelta(minutes=5))

    result = place(now=NOON + timedelta(minutes=6))

    assert [one.request_id for one in result.placed] == [first.id]


def test_a_large_request_keeps_a_node_after_half_an_hour():
    make_node(gpus=2)
    make_request(shape=A_CARD)
    place()
    large = make_request(shape=Shape(count=2), at=NOON)
    small = make_request(shape=A_CARD, at=NOON + timedelta(minutes=1))

    result = place(now=NOON + timedelta(minutes=30))

    assert result.placed == []
    large.refresh_from_db()
    small.refresh_from_db()
    assert (large.reasons, small.reasons) == ({"gpu": 1}, {"held": 1})
    # A quarter of an hour later it is the others' turn.
    result = place(now=NOON + timedelta(minutes=45))
    assert [one.request_id for one in result.placed] == [small.id]


def test_the_forecast_is_what_was_asked_for_in_four_weeks():
    for _ in range(2):
        make_request(shape=A_CARD, at=NOON)
    make_request(shape=A_SHARE, at=NOON - timedelta(days=27))
    make_request(shape=A_SHARE, at=NOON - timedelta(days=28))

    forecast = load_forecast(now=NOON)

    assert forecast.weights == (2, 1)
    assert [kind.mode for kind in forecast.kinds] == ["whole", A_SHARE.mode]


@pytest.mark.parametrize("policy", ["first_fit", "best_fit", "fgd", "fgdx", "fgdx_filling"])
def test_a_region_places_under_its_policy(policy):
    make_node(gpus=2)
    request = make_request(shape=A_CARD)
    Region.objects.update(policy=policy)

    assert [one.request_id for one in place().placed] == [request.id]


def test_a_policy_that_nobody_knows_is_refused():
    make_node()

    with pytest.raises(IntegrityError, match="region_policy_is_known"), transaction.atomic():
        Region.objects.update(policy="luck")


# --- replays


def test_a_replay_serves_what_was_asked_for_as_long_as_it_stayed():
    make_node(gpus=1)
    hour = timedelta(hours=1)
    first, second = (make_request(shape=A_CARD, at=NOON + n * hour) for n in (0, 1))
    # The first gave up after two hours; the second waits for want of a card that was free.
    Request.objects.filter(pk=first.pk).update(state="cancelled", decided_at=NOON + 2 * hour)

    verdict = replay_requests(region="test-1", days=1, now=NOON + 4 * hour)

    outcome = verdict.outcomes["best_fit"]
    assert outcome.visits == 2
    # Two hours of five that were asked for fit on the one card while the other came and went.
    assert outcome.refused == pytest.approx(100 * 3 / 5)
    assert outcome.allocated == pytest.approx(100 * 2 / 24)
    assert verdict.suits == "best_fit"
    second.refresh_from_db()
    assert second.state == "waiting"  # nothing was changed


def test_the_simplest_that_is_as_good_suits():
    def outcomes(**refused):
        return {
            name: Outcome(allocated=0, refused=refused.get(name, 9.0), refused_large=0, visits=1)
            for name in ("first_fit", "best_fit", "fgd", "fgdx", "fgdx_filling")
        }

    assert best_of(outcomes(fgdx=1.0, best_fit=1.1)) == "best_fit"
    assert best_of(outcomes(fgdx=1.0, best_fit=1.2)) == "fgdx"


def test_the_command_prints_a_table_and_says_which_suits():
    make_node(gpus=1)
    make_request(shape=A_CARD, at=database_now() - timedelta(hours=1))
    out = StringIO()

    call_command("replay", "test-1", stdout=out)

    assert "best_fit suits test-1" in out.getvalue()
    with pytest.raises(CommandError, match="nothing was asked for in nowhere"):
        call_command("replay", "nowhere")
