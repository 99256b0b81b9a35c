"""One node with a clock that stands still: orders, phases, ticks, crashes, faults."""

import asyncio
from dataclasses import replace

import pytest

from agents.drivers.base import DriverError, Unsupported
from agents.node import Node
from agents.pace import Pace
from agents.spool import Spool
from tests.agents.fakes import (
    FakeClock,
    FakeGpus,
    FakeRuntime,
    a_residence,
    a_set,
    an_order,
    labels_of,
    tenth,
)

PACE = Pace(inspect=0.02, call=0.02)


class Stage:
    """A node whose agent can die and come back while runtime and clock go on."""

    def __init__(self, folder):
        self.folder = folder
        self.clock = FakeClock()
        self.runtime = FakeRuntime(self.clock)
        self.gpus = FakeGpus()
        self.boot()

    def boot(self):
        self.spool = Spool(self.folder / "spool.sqlite")
        self.node = Node(
            name="node-a",
            runtime=self.runtime,
            gpus=self.gpus,
            spool=self.spool,
            clock=self.clock,
            pace=PACE,
        )

    def crash(self):
        """kill -9: nothing is closed, nothing is said."""
        self.boot()

    async def pass_(self, times=1):
        for _ in range(times):
            await self.node.step()
            await self.node.settle()

    def obey(self, *orders, **options):
        return self.node.obey(a_set(*orders, **options))

    def phase(self, allocation="alc_1"):
        record = self.node.ledger.records.get(allocation)
        return record and (record.phase, record.reason)

    def stretches(self):
        rows = self.spool._db.execute(
            "SELECT run, from_tick, until_tick FROM stretch WHERE until_tick > from_tick"
            " ORDER BY run, from_tick"
        )
        return rows.fetchall()


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def story(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, 20))


def test_an_order_becomes_a_running_instance(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        assert [r.phase for r in stage.node.ledger.news] == [
            "accepted",
            "pulling",
            "starting",
            "running",
        ]
        first = stage.node.ledger.news[0].seq
        assert [r.seq for r in stage.node.ledger.news] == [first, first + 1, first + 2, first + 3]
        assert stage.node.ledger.records["alc_1"].endpoints[0].port == 2222
        assert "run_alc_1_1" in stage.node.metering.meters
        assert stage.node.metering.is_due

    story(tell())


def test_an_older_set_is_not_obeyed_and_a_restarted_agent_remembers(stage):
    async def tell():
        assert stage.obey(an_order(), version=5, epoch=2)
        assert not stage.obey(version=4, epoch=2)
        assert not stage.obey(version=9, epoch=1)
        stage.crash()
        assert not stage.obey(version=4, epoch=2)
        assert stage.obey(an_order(want="gone"), version=1, epoch=3)

    story(tell())


def test_it_is_billed_from_readiness_to_the_stop(stage):
    async def tell():
        stage.runtime.ready = False
        stage.obey(an_order())
        await stage.pass_()
        stage.clock.advance(30_000)
        await stage.pass_()
        assert stage.phase() == ("starting", "")
        stage.runtime.ready = True
        await stage.pass_()
        stage.clock.advance(13_000)
        stage.obey(an_order(want="gone"), version=2)
        await stage.pass_(4)
        assert stage.stretches() == [("run_alc_1_1", 0, 3)]
        assert stage.phase() == ("gone", "ordered")
        assert stage.gpus.wiped == [tenth()]
        assert stage.runtime.containers == {}

    story(tell())


def test_readiness_waits_until_the_start_is_known_so_that_tick_0_is_proven(stage):
    async def tell():
        # given a container that answers already, but whose start nobody has noted yet
        stage.runtime.ready = False
        stage.obey(an_order())
        await stage.pass_()
        ((container, found),) = stage.runtime.containers.items()
        stage.runtime.containers[container] = replace(found, started="")
        stage.runtime.ready = True
        await stage.pass_()
        assert stage.phase() == ("starting", "")

        # when the note is there
        stage.runtime.containers[container] = found
        await stage.pass_()
        assert stage.phase() == ("running", "")

        # then no look takes it for another start, and no tick is missing
        stage.clock.advance(12_000)
        await stage.pass_()
        assert stage.stretches() == [("run_alc_1_1", 0, 2)]

    story(tell())


def test_a_start_that_fails_for_ever_is_said_once_and_costs_nothing(stage):
    async def tell():
        stage.runtime.start_error = Unsupported("this image needs a newer driver")
        stage.obey(an_order())
        await stage.pass_(3)
        assert stage.phase() == ("failed", "start_failed")
        assert stage.node.ledger.records["alc_1"].detail == "this image needs a newer driver"
        assert stage.runtime.calls.count(("start", "alc_1.1")) == 1
        assert stage.stretches() == []

    story(tell())


def test_a_start_that_fails_now_is_tried_again_until_its_time_is_over(stage):
    async def tell():
        stage.runtime.start_error = DriverError("busy")
        stage.obey(an_order(spec={"start_timeout_s": 10}))
        await stage.pass_(3)
        assert stage.runtime.calls.count(("start", "alc_1.1")) == 1
        stage.clock.advance(2_000)
        await stage.pass_(3)
        assert stage.runtime.calls.count(("start", "alc_1.1")) == 2
        assert [r.phase for r in stage.node.ledger.news] == ["accepted", "pulling", "starting"]
        stage.clock.advance(8_000)
        await stage.pass_()
        assert stage.phase() == ("failed", "start_timeout")

    story(tell())


def test_what_is_never_ready_is_ended(stage):
    async def tell():
        stage.runtime.ready = False
        stage.obey(an_order(spec={"start_timeout_s": 60}))
        await stage.pass_()
        stage.clock.advance(60_000)
        await stage.pass_(3)
        assert stage.phase() == ("failed", "start_timeout")
        assert stage.runtime.containers["alc_1.1"].state == "ended"
        assert stage.stretches() == []

    story(tell())


def test_an_exit_before_readiness_and_one_after_it(stage):
    async def tell():
        stage.runtime.ready = False
        stage.obey(an_order())
        await stage.pass_()
        stage.runtime.end("alc_1.1", 3)
        await stage.pass_()
        assert stage.phase() == ("failed", "exited_before_ready")
        assert stage.node.ledger.records["alc_1"].exit_code == 3

        stage.runtime.ready = True
        stage.obey(an_order(incarnation=2), version=2)
        await stage.pass_(4)
        assert stage.phase() == ("running", "")
        stage.clock.advance(7_000)
        await stage.pass_()
        stage.runtime.end("alc_1.2", 0)
        stage.clock.advance(60_000)
        await stage.pass_(3)
        assert stage.phase() == ("exited", "guest_exit")
        assert stage.stretches() == [("run_alc_1_2", 0, 2)]
        assert stage.runtime.calls.count(("start", "alc_1.2")) == 1

    story(tell())


def test_a_restart_ends_one_run_and_begins_another(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(6_500)
        stage.obey(an_order(incarnation=2), version=2)
        await stage.pass_(5)
        assert stage.phase() == ("running", "")
        assert stage.node.ledger.records["alc_1"].incarnation == 2
        assert sorted(stage.runtime.containers) == ["alc_1.2"]
        stage.clock.advance(6_000)
        await stage.pass_()
        assert stage.stretches() == [("run_alc_1_1", 0, 2), ("run_alc_1_2", 0, 1)]

    story(tell())


def test_a_dead_agent_ends_nothing_and_proves_the_gap(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(600_000)
        stage.crash()
        await stage.pass_(2)
        assert stage.phase() == ("running", "")
        assert stage.runtime.calls.count(("start", "alc_1.1")) == 1
        assert stage.stretches() == [("run_alc_1_1", 0, 100)]

    story(tell())


def test_what_ended_while_the_agent_was_dead_counts_to_the_last_look(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(12_500)
        await stage.pass_()
        stage.clock.advance(100_000)
        stage.runtime.end("alc_1.1", 0)
        stage.crash()
        await stage.pass_()
        assert stage.stretches() == [("run_alc_1_1", 0, 3)]

    story(tell())


def test_a_node_that_booted_anew_has_lost_its_containers(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(12_000)
        await stage.pass_()
        stage.clock.reboot()
        stage.crash()
        await stage.pass_(2)
        assert stage.phase() == ("failed", "node_restarted")
        assert stage.stretches() == [("run_alc_1_1", 0, 2)]
        assert stage.runtime.calls.count(("start", "alc_1.1")) == 1

    story(tell())


def test_the_last_tick_is_enforced_without_a_link_and_to_the_instant(stage):
    async def tell():
        stage.obey(an_order(stop_at_tick=3))
        await stage.pass_(2)
        stage.clock.advance(17_400)
        await stage.pass_()
        assert stage.phase() == ("running", "")
        assert stage.node.pause_s() == pytest.approx(0.6)
        stage.clock.advance(600)
        await stage.pass_(2)
        assert stage.phase() == ("exited", "stop_at_tick")
        assert stage.stretches() == [("run_alc_1_1", 0, 3)]
        stage.crash()
        await stage.pass_(2)
        assert stage.phase() == ("exited", "stop_at_tick")

    story(tell())


def test_who_ignores_sigterm_is_killed_after_the_grace(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.runtime.lasting = True
        stage.obey(an_order(want="gone"), version=2)
        await stage.pass_()
        assert stage.phase() == ("stopping", "ordered")
        stage.clock.advance(9_900)
        await stage.pass_()
        assert ("kill", "alc_1.1") not in stage.runtime.calls
        stage.clock.advance(100)
        await stage.pass_(3)
        assert ("kill", "alc_1.1") in stage.runtime.calls
        assert stage.runtime.calls.count(("terminate", "alc_1.1")) == 1
        await stage.pass_(2)
        assert stage.phase() == ("gone", "ordered")
        assert stage.stretches() == [("run_alc_1_1", 0, 1)] or stage.stretches() == []

    story(tell())


def test_an_unnamed_container_is_reported_metered_and_left(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.obey(version=2)
        stage.clock.advance(6_000)
        await stage.pass_(2)
        assert [s.allocation for s in stage.node.unknown] == ["alc_1"]
        assert stage.runtime.containers["alc_1.1"].state == "alive"
        assert stage.stretches() == [("run_alc_1_1", 0, 1)]

    story(tell())


def test_a_container_that_this_agent_never_saw_is_known_by_its_labels(stage):
    async def tell():
        order = an_order()
        await stage.runtime.start(order, labels_of(order), [])
        stage.obey(order)
        await stage.pass_(2)
        assert stage.phase() == ("running", "")
        assert stage.runtime.calls.count(("start", "alc_1.1")) == 1

    story(tell())


def test_one_hung_container_holds_up_nobody_else(stage):
    async def tell():
        other = an_order("alc_2", instance="ins_2", slices=[tenth(1)])
        stage.obey(an_order(), other)
        await stage.pass_(2)
        stage.runtime.hang.add("alc_1.1")
        stage.clock.advance(12_000)
        await stage.pass_()
        assert stage.stretches() == [("run_alc_2_1", 0, 2)]
        stage.obey(
            an_order(want="gone"), an_order("alc_2", instance="ins_2", want="gone"), version=2
        )
        await stage.pass_(4)
        assert stage.phase("alc_2") == ("gone", "ordered")
        assert stage.phase("alc_1") == ("running", "")
        assert ("terminate", "alc_1.1") not in stage.runtime.calls
        stage.node._lookout.close()

    story(tell())


def test_a_runtime_that_lists_nothing_in_time_makes_nothing_missing(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.runtime.hang.add("*")
        stage.clock.advance(12_000)
        await stage.pass_(2)
        assert stage.phase() == ("running", "")
        stage.runtime.hang.clear()
        await stage.pass_()
        assert stage.stretches() == [("run_alc_1_1", 0, 2)]

    story(tell())


def test_ticks_on_a_lost_gpu_are_free_and_the_instance_lives(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(12_000)
        await stage.pass_()
        stage.gpus.lost.add("GPU-0")
        stage.clock.advance(60_000)
        await stage.pass_()
        assert stage.phase() == ("running", "")
        assert stage.stretches() == [("run_alc_1_1", 0, 2)]
        assert not stage.node.facts.gpus[0].healthy
        stage.gpus.lost.clear()
        await stage.pass_()
        stage.clock.advance(6_000)
        await stage.pass_()
        assert stage.stretches() == [("run_alc_1_1", 0, 2), ("run_alc_1_1", 12, 13)]

    story(tell())


def test_a_full_spool_starts_nothing_and_counts_on(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(6_000)
        stage.spool._db.execute("PRAGMA query_only = 1")
        await stage.pass_()
        waiting = an_order("alc_2", instance="ins_2", slices=[tenth(1)])
        stage.obey(an_order(), waiting, version=2)
        await stage.pass_(2)
        assert stage.phase("alc_2") == ("accepted", "spool_full")
        assert stage.phase("alc_1") == ("running", "")
        stage.clock.advance(60_000)
        stage.spool._db.execute("PRAGMA query_only = 0")
        await stage.pass_(3)
        assert stage.phase("alc_2") == ("running", "")
        assert stage.stretches() == [("run_alc_1_1", 0, 11)]
        stage.crash()
        assert stage.node.desired.node_version == 2

    story(tell())


def test_residences_outlive_the_allocation_and_are_wiped_when_ordered(stage):
    async def tell():
        stage.obey(an_order(), residences=[a_residence()])
        await stage.pass_(2)
        stage.obey(an_order(want="gone"), version=2, residences=[a_residence()])
        await stage.pass_(4)
        assert [(f.residence, f.state) for f in stage.node.residences] == [("res_1", "present")]
        stage.obey(version=3, residences=[a_residence(want="gone")])
        await stage.pass_(2)
        assert [(f.residence, f.state) for f in stage.node.residences] == [("res_1", "wiped")]
        stage.obey(version=4)
        await stage.pass_()
        assert stage.node.residences == []

    story(tell())


def test_gone_is_kept_so_that_yesterdays_database_starts_nothing(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.obey(an_order(want="gone"), version=2)
        await stage.pass_(4)
        stage.crash()
        stage.obey(an_order(), epoch=2)
        await stage.pass_(2)
        assert stage.phase() == ("gone", "ordered")
        assert stage.runtime.containers == {}

    story(tell())


def test_new_keys_reach_a_running_instance(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.obey(an_order(spec_rev=2, spec={"ssh_keys": ["ssh-ed25519 AAAA"]}), version=2)
        await stage.pass_(2)
        assert ("update", "alc_1.1", 2) in stage.runtime.calls
        assert stage.node.ledger.records["alc_1"].spec_rev == 2
        assert stage.phase() == ("running", "")

    story(tell())


@pytest.mark.parametrize("ordered", [True, False])
def test_a_container_that_a_new_agent_cannot_read_is_not_missing(stage, ordered):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(60_000)
        await stage.pass_()
        if not ordered:
            stage.obey(version=2)  # the database forgot it
        # the agent dies, and the runtime hangs on the container when the next one asks
        stage.runtime.hang.add("alc_1.1")
        stage.crash()
        await stage.pass_(3)
        assert stage.phase() == ("running", "")
        assert [sight.state for sight in stage.node.sights] == ["unknown"]
        assert [sight.container for sight in stage.node.unknown] == ([] if ordered else ["alc_1.1"])
        assert "run_alc_1_1" in stage.node.metering.meters

        # it answers again, to a new question: nothing was lost, and the gap is proven
        stage.runtime.hang.clear()
        stage.clock.advance(60_000)
        await stage.pass_(2)
        assert stage.phase() == ("running", "")
        assert stage.stretches() == [("run_alc_1_1", 0, 20)]
        assert not [call for call in stage.runtime.calls if call[0] in ("terminate", "kill")]

    story(tell())


def test_what_cannot_be_read_since_the_agents_start_is_neither_confirmed_gone_nor_wiped(stage):
    async def tell():
        stage.obey(an_order(), residences=[a_residence()])
        await stage.pass_(2)
        stage.runtime.hang.add("alc_1.1")
        stage.crash()
        stage.obey(an_order(want="gone"), version=2, residences=[a_residence(want="gone")])
        await stage.pass_(3)
        assert stage.phase() == ("running", "")
        assert stage.gpus.wiped == []
        assert "res_1" in stage.runtime.residences

        stage.runtime.hang.clear()
        stage.clock.advance(60_000)
        await stage.pass_(6)
        assert stage.phase() == ("gone", "ordered")
        assert stage.runtime.residences == {}

    story(tell())


def test_an_agent_that_lost_its_memory_is_news_to_the_server(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        told = stage.node.ledger.records["alc_1"].seq
        for file in stage.folder.iterdir():
            file.unlink()
        stage.clock.advance(1_000)
        stage.crash()
        stage.obey(an_order())
        await stage.pass_(2)
        assert stage.phase() == ("running", "")
        # the server takes a phase of a lower seq for an old one, and would never believe "gone"
        assert stage.node.ledger.records["alc_1"].seq > told

    story(tell())


def test_gone_of_an_earlier_container_confirms_nothing(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.obey(an_order(want="gone"), version=2)
        await stage.pass_(4)
        assert stage.phase() == ("gone", "ordered")
        # a restored database: the allocation was restarted and ordered gone before we heard of it
        stage.obey(an_order(want="gone", incarnation=2), version=2, epoch=2)
        await stage.pass_(2)
        assert (
            stage.node.ledger.records["alc_1"].phase,
            stage.node.ledger.records["alc_1"].incarnation,
        ) == (
            "gone",
            2,
        )

    story(tell())


def test_an_error_of_the_runtime_is_no_proof_of_life(stage):
    async def tell():
        stage.obey(an_order())
        await stage.pass_(2)
        stage.clock.advance(12_000)
        await stage.pass_()
        stage.runtime.broken.add("alc_1.1")
        stage.clock.advance(60_000)
        await stage.pass_()
        assert stage.stretches() == [("run_alc_1_1", 0, 2)]
        assert [sight.state for sight in stage.node.sights] == ["unknown"]
        assert stage.phase() == ("running", "")

    story(tell())
