"""What a node tells the server and when, and what it makes of the answers. Sends nothing itself."""

import logging
import random
from dataclasses import dataclass, field

import msgspec

from agents import __version__
from agents.clock import Clock, Instant
from agents.node import Node
from agents.protocol import (
    OLDEST_VERSION,
    VERSION,
    Ack,
    Desired,
    Down,
    Hello,
    Phase,
    Pulse,
    PulseAck,
    Refused,
    Samples,
    Unknown,
    Up,
    Usage,
    Welcome,
)
from agents.spool import PhaseRecord, SpoolError

log = logging.getLogger("agents.report")


@dataclass(frozen=True)
class Beat:
    """Seconds. ``deaf``: a link on which no pulse was answered for this long is given up."""

    pulse: float = 3.0
    usage: float = 30.0
    usage_jitter: float = 5.0
    samples: float = 10.0
    hello: float = 1.0
    welcome: float = 10.0
    deaf: float = 15.0
    repeats: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0, 60.0)
    gone: float = 5.0


@dataclass
class _Repeat:
    seq: int
    times: int
    at_ms: int


@dataclass
class _Talk:
    """What was said on the present link."""

    since_ms: int
    hello_ms: int | None = None
    hello_at: int | None = None
    told: bytes = b""
    is_welcome: bool = False
    heard_ms: int = 0
    pulse_at: int = 0
    usage_at: int = 0
    samples_at: int = 0
    repeats: dict[str, _Repeat] = field(default_factory=dict)


class Reporter:
    def __init__(
        self,
        node: Node,
        *,
        clock: Clock,
        node_id: str = "",
        beat: Beat | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """:param node_id: what the server calls the node, as enrolment said; else its name"""
        self.node_id = node_id or node.name
        self.node = node
        self._clock = clock
        self._beat = beat or Beat()
        self._rng = rng or random.Random()
        self._talk: _Talk | None = None

    # --- the link

    def link_up(self) -> None:
        now = self._clock.now().boot_ms
        self._talk = _Talk(since_ms=now, heard_ms=now)

    def link_down(self) -> None:
        self._talk = None

    @property
    def is_welcome(self) -> bool:
        return self._talk is not None and self._talk.is_welcome

    @property
    def is_deaf(self) -> bool:
        """The link takes our pulses and answers none: half of it is dead."""
        if self._talk is None:
            return False
        silent_ms = self._clock.now().boot_ms - self._talk.heard_ms
        return silent_ms > self._beat.deaf * 1000

    # --- down

    def receive(self, message: Down) -> None:
        """:raises SpoolError: if an answer cannot be noted; it will come again"""
        if self._talk is None:
            return
        if isinstance(message, Welcome):
            self._welcome(self._talk, message)
        elif isinstance(message, Ack):
            for words in message.refused:
                log.error("usage.refused", extra={"node": self.node.name, "why": words})
            self.node.spool.commit_usage(message.seq)
        elif isinstance(message, PulseAck):
            self._talk.heard_ms = self._clock.now().boot_ms
        elif isinstance(message, Desired):
            self._meet_epoch(message.control_epoch)
            self.node.obey(message)
        elif isinstance(message, Refused):
            log.warning(
                "refused",
                extra={"node": self.node.name, "code": message.code, "detail": message.detail},
            )

    def _welcome(self, talk: _Talk, message: Welcome) -> None:
        if not OLDEST_VERSION <= message.version <= VERSION:
            log.error("version.unknown", extra={"node": self.node.name, "is": message.version})
            return
        is_new = self._meet_epoch(message.control_epoch)
        if message.committed > self.node.spool.read_fact("usage_seq"):
            self.node.spool.raise_usage_seq(message.committed)
        elif not is_new:
            self.node.spool.commit_usage(message.committed)
        if not talk.is_welcome:
            talk.is_welcome = True
            talk.usage_at = 0
            self.node.spool.resend()
            self.node.changed.set()

    def _meet_epoch(self, epoch: int) -> bool:
        """A database that was restored may have forgotten what it acked: tell it all again."""
        known = self.node.spool.read_fact("control_epoch")
        if epoch <= known:
            return False
        with self.node.spool.writing():
            if known:
                self.node.spool.replay()
            self.node.spool.write_fact("control_epoch", epoch)
        if self._talk is not None:
            self._talk.usage_at = 0
        self.node.changed.set()
        return True

    # --- up

    def due(self) -> list[Up]:
        """Return what must be sent now, in order, and take it as said."""
        talk = self._talk
        if talk is None:
            return []
        now = self._clock.now()
        said: list[Up] = []
        hello = self._hello(talk, now)
        if hello is not None:
            said.append(hello)
        if talk.hello_ms is None:
            return said
        if now.boot_ms >= talk.pulse_at:
            talk.pulse_at = now.boot_ms + int(self._beat.pulse * 1000)
            said.append(
                Pulse(
                    node=self.node_id,
                    boot=now.boot,
                    seq=now.boot_ms // 100,
                    sent_ms=now.boot_ms,
                )
            )
        if talk.is_welcome:
            said += self._phases(talk, now)
            said += self._usage(talk, now)
            said += self._samples(talk, now)
        return said

    def next_s(self) -> float:
        """Seconds until ``due`` has something to say, if nothing changes before."""
        if self._talk is None:
            return self._beat.pulse
        now = self._clock.now().boot_ms
        at = [self._talk.pulse_at]
        if self._talk.hello_at is not None:
            at.append(self._talk.hello_at)
        if self._talk.is_welcome:
            at += [self._talk.usage_at, self._talk.samples_at]
            at += [repeat.at_ms for repeat in self._talk.repeats.values()]
        return max(0.02, (min(at) - now) / 1000)

    def _hello(self, talk: _Talk, now: Instant) -> Hello | None:
        since = None if talk.hello_ms is None else now.boot_ms - talk.hello_ms
        told = self._condition()
        is_due = (
            since is None
            or (told != talk.told and since >= self._beat.hello * 1000)
            or (not talk.is_welcome and since >= self._beat.welcome * 1000)
        )
        if not is_due:
            if told != talk.told and talk.hello_ms is not None:
                talk.hello_at = talk.hello_ms + int(self._beat.hello * 1000)
            return None
        node = self.node
        talk.hello_ms, talk.hello_at, talk.told = now.boot_ms, None, told
        node.ledger.news.clear()
        desired = node.desired
        return Hello(
            node=self.node_id,
            boot=now.boot,
            seq=node.spool.read_fact("usage_seq"),
            sent_ms=now.boot_ms,
            oldest_version=OLDEST_VERSION,
            newest_version=VERSION,
            control_epoch=desired.control_epoch if desired else 0,
            node_version=desired.node_version if desired else 0,
            facts=msgspec.structs.replace(node.facts, agent_version=__version__),
            phases=[self._phase(record, now) for record in self._current()],
            unknown=self._unknown(),
            residences=node.residences,
        )

    def _condition(self) -> bytes:
        """What a new hello would tell that the last one did not."""
        return msgspec.json.encode([self.node.facts, self._unknown(), self.node.residences])

    def _unknown(self) -> list[Unknown]:
        return [
            Unknown(
                allocation=sight.allocation,
                instance=sight.instance,
                incarnation=sight.incarnation,
                run=sight.run or None,
                alive=sight.may_run,
            )
            for sight in self.node.unknown
        ]

    def _current(self) -> list[PhaseRecord]:
        """Phases that the server may still want: of what it orders, and of what is here."""
        listed = {order.allocation for order in self.node.orders}
        listed |= {sight.allocation for sight in self.node.sights}
        return [r for r in self.node.ledger.records.values() if r.allocation in listed]

    def _phases(self, talk: _Talk, now: Instant) -> list[Up]:
        said: list[Up] = [self._phase(record, now) for record in self.node.ledger.news]
        self.node.ledger.news.clear()
        current = self._current()
        for record in current:
            repeat = talk.repeats.get(record.allocation)
            if repeat is None or repeat.seq != record.seq:
                talk.repeats[record.allocation] = _Repeat(
                    record.seq, 1, now.boot_ms + int(self._pause(record, 0) * 1000)
                )
            elif now.boot_ms >= repeat.at_ms:
                repeat.at_ms = now.boot_ms + int(self._pause(record, repeat.times) * 1000)
                repeat.times += 1
                said.append(self._phase(record, now))
        for allocation in talk.repeats.keys() - {r.allocation for r in current}:
            del talk.repeats[allocation]
        return said

    def _pause(self, record: PhaseRecord, times: int) -> float:
        if record.phase == "gone":
            return self._beat.gone
        return self._beat.repeats[min(times, len(self._beat.repeats) - 1)]

    def _phase(self, record: PhaseRecord, now: Instant) -> Phase:
        return Phase(
            node=self.node_id,
            allocation=record.allocation,
            instance=record.instance,
            incarnation=record.incarnation,
            phase=record.phase,
            seq=record.seq,
            run=record.run,
            # What another boot's clock said cannot be compared with this one's.
            age_ms=max(0, now.boot_ms - record.at_ms) if record.at_boot == now.boot else 0,
            exit_code=record.exit_code,
            reason=record.reason,
            detail=record.detail,
            percent=record.percent,
            endpoints=record.endpoints,
            spec_rev=record.spec_rev,
        )

    def _usage(self, talk: _Talk, now: Instant) -> list[Up]:
        is_time = now.boot_ms >= talk.usage_at
        if not (is_time or self.node.metering.is_due):
            return []
        said: list[Up] = []
        try:
            if is_time:
                self.node.spool.resend()
                jitter = self._rng.uniform(-self._beat.usage_jitter, self._beat.usage_jitter)
                talk.usage_at = now.boot_ms + int((self._beat.usage + jitter) * 1000)
            while True:
                taken = self.node.spool.take_usage(boot=now.boot, boot_ms=now.boot_ms)
                if taken is None:
                    break
                seq, runs = taken
                said.append(
                    Usage(node=self.node_id, boot=now.boot, seq=seq, sent_ms=now.boot_ms, runs=runs)
                )
            self.node.metering.is_due = False
        except SpoolError as error:
            # Nothing is sent that is not kept; the counters are cumulative, so it only comes later.
            log.error("usage.waits", extra={"node": self.node.name, "why": str(error)})
            self.node.metering.is_due = False
            talk.usage_at = now.boot_ms + int(self._beat.pulse * 1000)
        return said

    def _samples(self, talk: _Talk, now: Instant) -> list[Up]:
        if now.boot_ms < talk.samples_at:
            return []
        talk.samples_at = now.boot_ms + int(self._beat.samples * 1000)
        in_use = [
            (sight.allocation, part)
            for sight in self.node.sights
            if sight.may_run
            for part in sight.slices
        ]
        samples = self.node.gpus.samples(now.boot_ms, in_use)
        return [Samples(node=self.node_id, samples=samples)] if samples else []
