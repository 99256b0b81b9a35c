"""What is said and when, and what the answers do: a reporter without a network."""

import random

import pytest

from agents.protocol import (
    Ack,
    Hello,
    Phase,
    Pulse,
    PulseAck,
    Samples,
    Stretch,
    Usage,
    Welcome,
)
from agents.report import Reporter
from tests.agents.fakes import a_set, an_order
from tests.agents.test_node import Stage, story


class Talk(Stage):
    def boot(self):
        super().boot()
        self.reporter = Reporter(self.node, clock=self.clock, node_id="nod_1", rng=random.Random(1))

    def say(self, kind=None):
        said = self.reporter.due()
        return said if kind is None else [m for m in said if isinstance(m, kind)]

    def link(self, epoch=1, committed=0):
        self.reporter.link_up()
        said = self.say()
        self.welcome(epoch, committed)
        return said

    def welcome(self, epoch=1, committed=0):
        self.reporter.receive(
            Welcome(node="nod_1", version=1, control_epoch=epoch, committed=committed)
        )

    async def running(self):
        self.obey(an_order())
        await self.pass_(2)


@pytest.fixture
def talk(tmp_path):
    return Talk(tmp_path)


def test_hello_comes_first_then_pulses_and_the_rest_after_the_welcome(talk):
    async def tell():
        await talk.running()
        talk.reporter.link_up()
        hello, pulse = talk.say()
        assert isinstance(hello, Hello)
        assert (hello.node, [p.phase for p in hello.phases]) == ("nod_1", ["running"])
        assert isinstance(pulse, Pulse)
        assert pulse.seq == talk.clock.now().boot_ms // 100
        talk.clock.advance(3_000)
        assert [type(m) for m in talk.say()] == [Pulse]
        talk.welcome()
        assert {type(m) for m in talk.say()} == {Usage, Samples}

    story(tell())


def test_the_first_usage_tells_readiness_and_the_next_comes_in_half_a_minute(talk):
    async def tell():
        await talk.running()
        talk.clock.advance(1_500)
        talk.link()
        (usage,) = talk.say(Usage)
        assert usage.runs[0].ready_age_ms == 1_500
        at = []
        for second in range(1, 80):
            talk.clock.advance(1_000)
            await talk.pass_()
            at += [second for _ in talk.say(Usage)]
        assert all(25 <= b - a <= 36 for a, b in zip([0, *at], at, strict=False))
        assert len(at) in (2, 3)

    story(tell())


def test_a_stop_is_reported_at_once(talk):
    async def tell():
        await talk.running()
        talk.link()
        talk.say()
        talk.clock.advance(7_000)
        talk.obey(an_order(want="gone"), version=2)
        await talk.pass_(4)
        said = talk.say()
        assert [m.phase for m in said if isinstance(m, Phase)] == ["stopping", "exited", "gone"]
        (usage,) = [m for m in said if isinstance(m, Usage)]
        assert usage.runs[0].stretches == [Stretch(from_tick=0, until_tick=2)]

    story(tell())


def test_a_phase_is_told_again_until_it_changes(talk):
    async def tell():
        await talk.running()
        talk.link()
        times = []
        for second in range(0, 150):
            times += [second for m in talk.say(Phase)]
            talk.clock.advance(1_000)
        assert times == [5, 15, 35, 75, 135]

    story(tell())


def test_gone_is_confirmed_as_long_as_it_is_listed(talk):
    async def tell():
        await talk.running()
        talk.link()
        talk.obey(an_order(want="gone"), version=2)
        await talk.pass_(4)
        talk.say()
        for _ in range(4):
            talk.clock.advance(5_000)
            assert [m.phase for m in talk.say(Phase)] == ["gone"]
        talk.obey(version=3)
        await talk.pass_()
        talk.clock.advance(10_000)
        assert talk.say(Phase) == []

    story(tell())


def test_an_acked_row_is_not_told_again_and_an_unacked_one_is_on_the_next_link(talk):
    async def tell():
        await talk.running()
        talk.link()
        (first,) = talk.say(Usage)
        talk.reporter.link_down()
        assert talk.say() == []
        talk.link()
        (again,) = talk.say(Usage)
        assert again.runs[0].run == first.runs[0].run
        talk.reporter.receive(Ack(node="nod_1", seq=again.seq))
        talk.reporter.link_down()
        talk.link()
        assert talk.say(Usage) == []

    story(tell())


def test_a_restored_database_is_told_everything_once(talk):
    async def tell():
        await talk.running()
        talk.clock.advance(60_000)
        await talk.pass_()
        talk.link(epoch=1)
        (usage,) = talk.say(Usage)
        talk.reporter.receive(Ack(node="nod_1", seq=usage.seq))
        talk.reporter.link_down()
        talk.link(epoch=2, committed=usage.seq)
        (replayed,) = talk.say(Usage)
        assert replayed.runs[0].stretches == [Stretch(from_tick=0, until_tick=10)]
        talk.reporter.receive(Ack(node="nod_1", seq=replayed.seq))
        talk.reporter.receive(a_set(an_order(), epoch=2))
        assert talk.say(Usage) == []

    story(tell())


def test_hello_is_said_again_when_facts_or_strangers_change(talk):
    async def tell():
        await talk.running()
        talk.link()
        talk.say()
        talk.clock.advance(1_000)
        assert talk.say(Hello) == []
        talk.gpus.lost.add("GPU-1")
        talk.obey(version=2)
        await talk.pass_()
        (hello,) = talk.say(Hello)
        assert [g.healthy for g in hello.facts.gpus] == [True, False]
        assert [u.allocation for u in hello.unknown] == ["alc_1"]
        assert talk.say(Hello) == []

    story(tell())


def test_a_link_that_answers_no_pulse_is_deaf(talk):
    async def tell():
        talk.link()
        for _ in range(5):
            talk.clock.advance(3_000)
            talk.say()
        assert not talk.reporter.is_deaf
        talk.clock.advance(1)
        assert talk.reporter.is_deaf
        talk.reporter.receive(PulseAck(node="nod_1", seq=1))
        assert not talk.reporter.is_deaf

    story(tell())


def test_nothing_is_reported_that_the_spool_did_not_take(talk):
    async def tell():
        await talk.running()
        talk.link()
        talk.spool._db.execute("PRAGMA query_only = 1")
        assert talk.say(Usage) == []
        talk.spool._db.execute("PRAGMA query_only = 0")
        talk.clock.advance(3_000)
        assert len(talk.say(Usage)) == 1

    story(tell())
