"""The pure half of the agent: what it does about what it sees."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agents import reconcile
from agents.reconcile import (
    ConfirmGone,
    Kill,
    Remove,
    Sight,
    Start,
    Terminate,
    Update,
    WipeResidence,
    plan,
)
from tests.agents.fakes import a_residence, an_order, tenth


def a_sight(allocation="alc_1", **changes):
    incarnation = changes.get("incarnation", 1)
    return Sight(
        **{
            "container": f"{allocation}.{incarnation}",
            "allocation": allocation,
            "instance": "ins_1",
            "incarnation": incarnation,
            "run": "run_1",
            "state": "alive",
            "spec_rev": 1,
            "slices": (tenth(),),
            **changes,
        }
    )


def test_starts_what_is_ordered_and_not_there():
    order = an_order()
    assert plan(sights=[], orders=[order]).actions == [Start(order)]


def test_absence_is_never_an_order():
    sight = a_sight()
    result = plan(sights=[sight], orders=[])
    assert result.actions == []
    assert result.unknown == [sight]


def test_a_run_that_is_closed_starts_nothing_and_ends_nothing():
    order = an_order(run=None)
    assert plan(sights=[], orders=[order]).waiting == {"alc_1": "waits_for_run"}
    assert plan(sights=[a_sight()], orders=[order]).actions == []


def test_gone_goes_by_term_then_kill_then_remove_then_confirm():
    order = an_order(want="gone")
    assert plan(sights=[a_sight()], orders=[order]).actions == [
        Terminate("alc_1.1", "alc_1", "ordered")
    ]
    assert plan(sights=[a_sight(ending_for_ms=9_999)], orders=[order]).actions == []
    assert plan(sights=[a_sight(ending_for_ms=10_000)], orders=[order]).actions == [
        Kill("alc_1.1", "alc_1")
    ]
    assert plan(sights=[a_sight(state="ended")], orders=[order]).actions == [
        Remove("alc_1.1", "alc_1")
    ]
    assert plan(sights=[], orders=[order]).actions == [ConfirmGone(order)]
    assert plan(sights=[], orders=[order], confirmed={"alc_1"}).actions == []


def test_a_lower_incarnation_ends_before_the_higher_starts():
    order = an_order(incarnation=2)
    assert plan(sights=[a_sight()], orders=[order]).actions == [
        Terminate("alc_1.1", "alc_1", "replaced")
    ]
    assert plan(sights=[a_sight(state="ended")], orders=[order]).actions == [
        Remove("alc_1.1", "alc_1")
    ]
    assert plan(sights=[], orders=[order]).actions == [Start(order)]


def test_a_higher_incarnation_than_ordered_is_reported_and_left():
    sight = a_sight(incarnation=3)
    result = plan(sights=[sight], orders=[an_order(incarnation=2)])
    assert (result.actions, result.unknown) == ([], [sight])


def test_a_stop_of_an_earlier_incarnation_ends_no_later_one():
    # a database from before the restart that followed that stop
    sight = a_sight(incarnation=2)
    result = plan(sights=[sight], orders=[an_order(want="stop")])
    assert result.actions == []
    assert result.unknown == [sight]


def test_two_allocations_of_one_instance_never_run_together():
    old, new = an_order("alc_1", want="gone"), an_order("alc_2", slices=[tenth(1)])
    for state in ("alive", "unknown", "ended"):
        result = plan(sights=[a_sight(state=state)], orders=[old, new])
        assert result.waiting == {"alc_2": "waits_for_instance"}
    assert Start(new) in plan(sights=[], orders=[old, new]).actions
    both = plan(sights=[], orders=[an_order("alc_1"), new])
    assert both.waiting == {"alc_2": "waits_for_instance"}


def test_a_slice_that_a_quarantined_container_holds_is_not_given_twice():
    stranger = a_sight("alc_9", instance="ins_9")
    order = an_order()
    assert plan(sights=[stranger], orders=[order]).waiting == {"alc_1": "waits_for_slice"}
    ended = replace(stranger, state="ended")
    assert plan(sights=[ended], orders=[order]).actions == [Start(order)]


def test_one_slice_is_not_given_twice_in_one_pass():
    first, second = an_order("alc_1"), an_order("alc_2", instance="ins_2")
    result = plan(sights=[], orders=[first, second])
    assert result.actions == [Start(first)]
    assert result.waiting == {"alc_2": "waits_for_slice"}


def test_what_cannot_be_read_is_left_alone():
    for order in (an_order(want="gone"), an_order(incarnation=2), an_order()):
        assert plan(sights=[a_sight(state="unknown")], orders=[order]).actions == []


def test_a_new_spec_is_applied_while_it_runs():
    order = an_order(spec_rev=2)
    assert plan(sights=[a_sight()], orders=[order]).actions == [Update("alc_1.1", order)]


def test_what_has_exited_is_not_started_again():
    order = an_order()
    assert plan(sights=[a_sight(state="ended")], orders=[order]).actions == []
    assert plan(sights=[], orders=[order], finished={("alc_1", 1)}).actions == []


def test_a_residence_is_wiped_only_when_its_instance_is_not_there():
    ordered = [a_residence(want="gone")]
    wipe = WipeResidence("res_1", "ins_1")
    assert plan(sights=[], orders=[], residences=ordered, present={"res_1"}).actions == [wipe]
    assert plan(sights=[], orders=[], residences=ordered, present=set()).actions == []
    assert plan(sights=[a_sight()], orders=[], residences=ordered, present={"res_1"}).actions == []


orders = st.lists(
    st.builds(
        lambda n, i, inc, rev, want, run, cell: an_order(
            f"alc_{n}",
            instance=f"ins_{i}",
            incarnation=inc,
            spec_rev=rev,
            want=want,
            run=f"run_{n}_{inc}" if run else None,
            slices=[tenth(cell=cell)],
        ),
        st.integers(0, 4),
        st.integers(0, 2),
        st.integers(1, 3),
        st.integers(1, 2),
        st.sampled_from(["run", "stop", "gone"]),
        st.booleans(),
        st.integers(0, 2),
    ),
    max_size=5,
    unique_by=lambda order: order.allocation,
)
sights = st.lists(
    st.builds(
        lambda n, i, inc, state, cell: a_sight(
            f"alc_{n}",
            instance=f"ins_{i}",
            incarnation=inc,
            state=state,
            slices=(tenth(cell=cell),),
        ),
        st.integers(0, 6),
        st.integers(0, 2),
        st.integers(1, 3),
        st.sampled_from(["alive", "ended", "unknown"]),
        st.integers(0, 2),
    ),
    max_size=5,
    unique_by=lambda sight: sight.container,
)


class World:
    """Carries actions out at once, on what reconcile sees."""

    def __init__(self, seen):
        self.sights = {s.container: s for s in seen}
        self.confirmed = set()
        self.ended_by_us = set()

    def converge(self, wanted):
        for _ in range(30):
            result = plan(
                sights=list(self.sights.values()), orders=wanted, confirmed=self.confirmed
            )
            if not result.actions:
                return result
            for action in result.actions:
                self.apply(action)
            self.check()
        raise AssertionError("it does not come to rest")

    def apply(self, action):
        if isinstance(action, Start):
            order = action.order
            name = f"{order.allocation}.{order.incarnation}"
            self.sights[name] = Sight(
                name, order.allocation, order.instance, order.incarnation, order.run or "",
                "alive", order.spec_rev, tuple(order.slices),
            )  # fmt: skip
        elif isinstance(action, Terminate | Kill):
            self.ended_by_us.add(action.container)
            self.sights[action.container] = replace(self.sights[action.container], state="ended")
        elif isinstance(action, Remove):
            assert self.sights[action.container].state == "ended"
            del self.sights[action.container]
        elif isinstance(action, Update):
            self.sights[action.container] = replace(
                self.sights[action.container], spec_rev=action.order.spec_rev
            )
        else:
            assert isinstance(action, ConfirmGone)
            self.confirmed.add(action.order.allocation)

    def check(self):
        started = {s.container for s in self.sights.values() if s.may_run} - self.before
        for name in started:
            mine = self.sights[name]
            others = [
                s for s in self.sights.values() if s.may_run and s.allocation != mine.allocation
            ]
            assert all(s.instance != mine.instance for s in others)
            assert not any(reconcile._overlap(s.slices, mine.slices) for s in others)


@settings(max_examples=50, deadline=None)
@given(orders, sights)
def test_converging_twice_is_converging_once_and_absence_ends_nothing(wanted, seen):
    world = World(seen)
    world.before = {s.container for s in seen}
    world.converge(wanted)
    rest = dict(world.sights)
    world.converge(wanted)
    assert world.sights == rest
    named = {order.allocation for order in wanted}
    for sight in seen:
        if sight.allocation not in named:
            assert world.sights[sight.container] == sight
        if sight.state == "unknown":
            assert sight.container not in world.ended_by_us
    assert {o.allocation for o in wanted if o.want == "gone"} >= world.confirmed
