"""Draws from what is seen where each allocation stands, and asks young containers for readiness."""

import asyncio
import logging
from collections.abc import Collection

from agents.clock import Clock, Instant
from agents.drivers.base import DriverError, Runtime
from agents.ledger import FINISHED, Ledger
from agents.lookout import Lookout
from agents.metering import Metering
from agents.protocol import PhaseName
from agents.reconcile import Sight
from agents.spool import PhaseRecord

log = logging.getLogger("agents.judge")


class Judge:
    def __init__(
        self,
        *,
        ledger: Ledger,
        lookout: Lookout,
        metering: Metering,
        runtime: Runtime,
        clock: Clock,
        probe_s: float,
    ) -> None:
        self._ledger = ledger
        self._lookout = lookout
        self._metering = metering
        self._runtime = runtime
        self._clock = clock
        self._probe_s = probe_s

    def judge(self, now: Instant, *, busy: Collection[str]) -> None:
        """:param busy: allocations with an action under way, which are left alone"""
        for sight in self._lookout.sights.values():
            if self._ledger.get(sight.allocation) is not None or sight.allocation in busy:
                continue
            if sight.container in self._lookout.containers:
                # Started by an agent that forgot, or that died before it could write.
                self._ledger.reach(sight, "starting", now)
        for record in list(self._ledger.records.values()):
            if record.phase in FINISHED or record.allocation in busy:
                continue
            found = self._lookout.sights.get(f"{record.allocation}.{record.incarnation}")
            if found is None:
                self._judge_missing(record, now)
            elif found.state == "ended":
                self._judge_ended(record, found, now)

    def _judge_missing(self, record: PhaseRecord, now: Instant) -> None:
        if record.phase == "running":
            self._ledger.move(record, "failed", now, reason="container_lost")
        elif record.phase == "stopping":
            self._ledger.move(record, "exited", now, reason=record.reason)

    def _judge_ended(self, record: PhaseRecord, sight: Sight, now: Instant) -> None:
        container = self._lookout.containers[sight.container]
        code = container.exit_code
        if record.phase == "stopping":
            phase: PhaseName = "failed" if record.reason == "start_timeout" else "exited"
            self._ledger.move(record, phase, now, reason=record.reason, exit_code=code)
        elif container.boot != now.boot:
            self._ledger.move(record, "failed", now, reason="node_restarted")
        elif record.phase == "running":
            self._ledger.move(record, "exited", now, reason="guest_exit", exit_code=code)
        else:
            self._ledger.move(record, "failed", now, reason="exited_before_ready", exit_code=code)

    async def probe(self, *, ending: Collection[str]) -> None:
        """:param ending: containers that have been asked to end, which need not become ready"""
        young = [
            sight
            for sight in self._lookout.sights.values()
            if sight.state == "alive"
            and sight.container not in ending
            and self._ledger.is_young(sight)
            # Which start it is must be known first, or the next look would take it for another.
            and self._lookout.containers[sight.container].started
        ]
        if young:
            await asyncio.gather(*(self._probe_one(sight) for sight in young))

    async def _probe_one(self, sight: Sight) -> None:
        container = self._lookout.containers[sight.container]
        try:
            endpoints = await asyncio.wait_for(self._runtime.probe(container), self._probe_s)
        except (DriverError, asyncio.TimeoutError) as error:
            log.info("probe.failed", extra={"id": sight.container, "error": repr(error)})
            return
        if endpoints is not None:
            now = self._clock.now()
            self._metering.begin(sight, container, now)
            self._ledger.reach(sight, "running", now, endpoints=endpoints)
