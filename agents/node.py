"""
One node: looks at what runs, compares it with what is ordered, acts, meters, remembers.

``step`` is one pass, called every second and more often while something moves. Nothing here knows
whether there is a link: ``agents.report`` tells the server what happens.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from agents import reconcile
from agents.clock import Clock, Instant
from agents.drivers.base import DriverError, GpuDriver, Labels, Runtime, Unsupported
from agents.lookout import Lookout
from agents.meter import TICK_MS, RunMeter, Stretch
from agents.protocol import Desired, EndpointFact, Facts, Order, PhaseName, ResidenceFact
from agents.reconcile import Sight
from agents.spool import KEEP_S, PhaseRecord, Spool, SpoolError

log = logging.getLogger("agents.node")

BEFORE_READY = ("accepted", "pulling", "starting")
FINISHED = ("exited", "failed", "gone")


@dataclass(frozen=True)
class Pace:
    """Seconds. ``look``: between passes; ``hurry``: the same while something moves."""

    look: float = 1.0
    hurry: float = 0.1
    inspect: float = 2.0
    call: float = 10.0
    retry: float = 2.0
    prune: float = 3600.0


class Node:
    """
    ``news``: phases reached and not taken by the reporter yet. ``changed``: set when there is
    something to say. ``wake``: set when the next pass should not wait.
    """

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        gpus: GpuDriver,
        spool: Spool,
        clock: Clock,
        pace: Pace | None = None,
    ) -> None:
        self.name = name
        self.runtime = runtime
        self.gpus = gpus
        self.spool = spool
        self.clock = clock
        self.pace = pace or Pace()
        self.wake = asyncio.Event()
        self.changed = asyncio.Event()

        self.desired = spool.read_desired()
        self.phases = spool.read_phases()
        self.meters = spool.read_meters()
        self.news: list[PhaseRecord] = []
        self.usage_is_due = False
        self.unknown: list[Sight] = []
        self.residences: list[ResidenceFact] = []
        self.facts = self._read_facts(None)

        self._lookout = Lookout(runtime, deadline_s=self.pace.inspect)
        # A spool that is new begins above whatever an earlier one of this node has said: the
        # server takes a lower seq for old news, and would never believe that anything is gone.
        self._phase_seq = spool.read_fact("phase_seq", clock.now().wall_s * 1000)
        self._ending: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starting: dict[str, Labels] = {}
        self._retry_at: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self._pruned_ms: int | None = None
        self._spool_is_well = True
        # Rows that are not in the spool yet: normally for one pass, longer while the disk is full.
        self._unkept_runs: dict[str, RunMeter] = {}
        self._unkept: dict[tuple[str, int], tuple[RunMeter, Stretch]] = {}
        self._unkept_phases: dict[str, PhaseRecord] = {}

    # --- orders

    @property
    def orders(self) -> list[Order]:
        return [] if self.desired is None else self.desired.orders

    @property
    def sights(self) -> list[Sight]:
        return list(self._lookout.sights.values())

    def obey(self, desired: Desired) -> bool:
        """Take a desired set, unless it is older than the one obeyed last."""
        known = self.desired
        if known is not None and (desired.control_epoch, desired.node_version) < (
            known.control_epoch,
            known.node_version,
        ):
            log.warning("desired.old", extra={"node": self.name, "version": desired.node_version})
            return False
        if desired != known:
            self.desired = desired
            try:
                self.spool.write_desired(desired)
            except SpoolError as error:
                self._spool_failed(error)
            self.wake.set()
        return True

    # --- one pass

    async def step(self) -> None:
        """See, meter, decide, act. An action is a task; its allocation is left alone meanwhile."""
        self.facts = self._read_facts(self.facts)
        await self._lookout.look(
            now=self.clock.now(),
            ending=self._ending,
            starting=self._starting.values(),
            remember=self._remember,
        )
        now = self.clock.now()
        if not self._lookout.is_blind:
            self._ending = {n: at for n, at in self._ending.items() if n in self._lookout.sights}
            self._meter(now)
            self._judge(now)
            await self._probe()
        self._keep(now)
        self._act(self.clock.now())
        await self._list_residences()
        self._prune(now)

    def pause_s(self) -> float:
        """How long the next pass may wait: at most to the instant of a stop_at_tick."""
        if self._tasks or any(self._moves(sight) for sight in self.sights):
            return self.pace.hurry
        now = self.clock.now()
        pause = self.pace.look
        for order in self.orders:
            meter = self.meters.get(order.run or "")
            if meter is not None and order.stop_at_tick is not None:
                left_ms = order.stop_at_tick * TICK_MS - meter.age_ms(now)
                pause = min(pause, max(0.0, left_ms / 1000))
        return pause

    def _moves(self, sight: Sight) -> bool:
        record = self.phases.get(sight.allocation)
        is_young = record is not None and record.phase in BEFORE_READY
        return sight.state == "alive" and (is_young or sight.container in self._ending)

    async def settle(self) -> None:
        """Wait until every action under way has ended."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Leave; what runs goes on running."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._lookout.close()
        self.spool.close()

    # --- seeing

    def _read_facts(self, known: Facts | None) -> Facts:
        try:
            facts = self.gpus.facts()
        except DriverError as error:
            log.warning("gpus.unreadable", extra={"node": self.name, "error": str(error)})
            if known is None:
                raise
            return known
        facts = msgspec.structs.replace(facts, runtime=self.runtime.name, gpu_driver=self.gpus.name)
        if facts != known:
            self.changed.set()
        return facts

    def _remember(self, container: str) -> Labels:
        """What the spool tells of a container that the runtime lists and could not read yet."""
        allocation, _, number = container.rpartition(".")
        incarnation = int(number) if number.isdecimal() else 0
        record = self.phases.get(allocation)
        is_it = record is not None and record.incarnation == incarnation
        order = next((o for o in self.orders if o.allocation == allocation), None)
        return Labels(
            node=self.name,
            instance=record.instance if record is not None else "",
            allocation=allocation,
            incarnation=incarnation,
            run=(record.run or "") if record is not None and is_it else "",
            slices=tuple(order.slices) if order is not None else (),
        )

    async def _list_residences(self) -> None:
        try:
            found = await asyncio.wait_for(self.runtime.list_residences(), self.pace.call)
        except (DriverError, asyncio.TimeoutError) as error:
            log.warning("residences.unreadable", extra={"node": self.name, "error": repr(error)})
            return
        present = {fact.residence for fact in found}
        ordered = [] if self.desired is None else self.desired.residences
        wiped = [
            ResidenceFact(residence=r.residence, instance=r.instance, kind=r.kind, state="wiped")
            for r in ordered
            if r.want == "gone" and r.residence not in present
        ]
        if found + wiped != self.residences:
            self.residences = found + wiped
            self.changed.set()
            self.wake.set()

    # --- metering

    def _meter(self, now: Instant) -> None:
        lost = {gpu.uuid for gpu in self.facts.gpus if not gpu.healthy}
        sights = {sight.run: sight for sight in self.sights if sight.state != "ended"}
        for run, meter in list(self.meters.items()):
            sight = sights.get(run)
            if sight is None:
                self._end_run(meter, meter.lose())
            elif sight.state == "alive":
                container = self._lookout.containers[sight.container]
                changed = meter.see(
                    life=container.life,
                    now=now,
                    traffic=container.traffic,
                    is_healthy=not any(part.gpu_uuid in lost for part in sight.slices),
                )
                self._note(meter, changed)

    def _note(self, meter: RunMeter, stretches: list[Stretch]) -> None:
        for stretch in stretches:
            self._unkept[meter.run, stretch.from_tick] = (meter, stretch)

    def _end_run(self, meter: RunMeter, stretches: list[Stretch]) -> None:
        self._unkept_runs[meter.run] = meter
        self._note(meter, stretches)
        self.meters.pop(meter.run, None)
        self.usage_is_due = True
        self.changed.set()

    def _begin_run(self, sight: Sight, now: Instant) -> None:
        if not sight.run or sight.run in self.meters:
            return
        container = self._lookout.containers[sight.container]
        meter = RunMeter.begin(
            run=sight.run,
            allocation=sight.allocation,
            life=container.life,
            now=now,
            traffic=container.traffic,
        )
        self.meters[sight.run] = self._unkept_runs[sight.run] = meter
        self.usage_is_due = True

    # --- judging

    def _judge(self, now: Instant) -> None:
        """Draw from what is seen where each allocation stands."""
        for sight in self.sights:
            if sight.allocation in self.phases or sight.allocation in self._tasks:
                continue
            if sight.container in self._lookout.containers:
                # Started by an agent that forgot, or that died before it could write.
                self._reach(sight, "starting", now)
        for record in list(self.phases.values()):
            if record.phase in FINISHED or record.allocation in self._tasks:
                continue
            found = self._lookout.sights.get(f"{record.allocation}.{record.incarnation}")
            if found is None:
                self._judge_missing(record, now)
            elif found.state == "ended":
                self._judge_ended(record, found, now)

    def _judge_missing(self, record: PhaseRecord, now: Instant) -> None:
        if record.phase == "running":
            self._move(record, "failed", now, reason="container_lost")
        elif record.phase == "stopping":
            self._move(record, "exited", now, reason=record.reason)

    def _judge_ended(self, record: PhaseRecord, sight: Sight, now: Instant) -> None:
        container = self._lookout.containers[sight.container]
        code = container.exit_code
        if record.phase == "stopping":
            phase: PhaseName = "failed" if record.reason == "start_timeout" else "exited"
            self._move(record, phase, now, reason=record.reason, exit_code=code)
        elif container.boot != now.boot:
            self._move(record, "failed", now, reason="node_restarted")
        elif record.phase == "running":
            self._move(record, "exited", now, reason="guest_exit", exit_code=code)
        else:
            self._move(record, "failed", now, reason="exited_before_ready", exit_code=code)

    async def _probe(self) -> None:
        young = [
            sight
            for sight in self.sights
            if sight.state == "alive"
            and sight.container not in self._ending
            and self._is_young(sight)
        ]
        if young:
            await asyncio.gather(*(self._probe_one(sight) for sight in young))

    def _is_young(self, sight: Sight) -> bool:
        record = self.phases.get(sight.allocation)
        return (
            record is not None
            and record.incarnation == sight.incarnation
            and record.phase in BEFORE_READY
        )

    async def _probe_one(self, sight: Sight) -> None:
        container = self._lookout.containers[sight.container]
        try:
            endpoints = await asyncio.wait_for(self.runtime.probe(container), self.pace.inspect)
        except (DriverError, asyncio.TimeoutError) as error:
            log.info("probe.failed", extra={"id": sight.container, "error": repr(error)})
            return
        if endpoints is not None:
            now = self.clock.now()
            self._begin_run(sight, now)
            self._reach(sight, "running", now, endpoints=endpoints)

    # --- phases

    def _reach(
        self,
        what: Sight | Order | Labels,
        phase: PhaseName,
        now: Instant,
        *,
        reason: str = "",
        detail: str = "",
        endpoints: list[EndpointFact] | None = None,
    ) -> None:
        """An allocation has come to a phase of its incarnation."""
        self._set(
            PhaseRecord(
                allocation=what.allocation,
                instance=what.instance,
                incarnation=what.incarnation,
                run=what.run or None,
                spec_rev=what.spec_rev,
                phase=phase,
                seq=0,
                at_boot=now.boot,
                at_ms=now.boot_ms,
                reason=reason,
                detail=detail,
                endpoints=endpoints or [],
            ),
            now,
        )

    def _move(
        self,
        record: PhaseRecord,
        phase: PhaseName,
        now: Instant,
        *,
        reason: str = "",
        exit_code: int | None = None,
    ) -> None:
        """The same incarnation has come to another phase; what is known of it stays known."""
        self._set(
            msgspec.structs.replace(
                record,
                phase=phase,
                reason=reason,
                exit_code=record.exit_code if exit_code is None else exit_code,
                endpoints=[] if phase in FINISHED else record.endpoints,
                at_boot=now.boot,
                at_ms=now.boot_ms,
            ),
            now,
        )

    def _set(self, record: PhaseRecord, now: Instant) -> None:
        self._phase_seq += 1
        record = msgspec.structs.replace(record, seq=self._phase_seq, touched_s=now.wall_s)
        self.phases[record.allocation] = self._unkept_phases[record.allocation] = record
        self.news.append(record)
        log.info(
            "phase",
            extra={
                "node": self.name,
                "allocation": record.allocation,
                "incarnation": record.incarnation,
                "phase": record.phase,
                "reason": record.reason,
            },
        )
        self._keep(now)
        self.changed.set()

    # --- acting

    def _act(self, now: Instant) -> None:
        if self._lookout.is_blind:
            return
        reasons = self._local_ends(now)
        orders = [
            msgspec.structs.replace(order, want="stop")
            if order.want == "run" and order.allocation in reasons
            else order
            for order in self.orders
        ]
        finished = {
            (r.allocation, r.incarnation) for r in self.phases.values() if r.phase in FINISHED
        }
        gone = {r.allocation: r.incarnation for r in self.phases.values() if r.phase == "gone"}
        plan = reconcile.plan(
            sights=self.sights,
            orders=orders,
            residences=[] if self.desired is None else self.desired.residences,
            present={f.residence for f in self.residences if f.state == "present"},
            finished=finished,
            confirmed={o.allocation for o in orders if o.incarnation <= gone.get(o.allocation, 0)},
            busy={*self._tasks, *(k for k, at in self._retry_at.items() if at > now.boot_ms)},
            reasons=reasons,
        )
        if plan.unknown != self.unknown:
            self.unknown = plan.unknown
            self.changed.set()
        for action in plan.actions:
            self._begin(action, plan, now)
        by_allocation = {order.allocation: order for order in orders}
        for allocation, reason in plan.waiting.items():
            self._accept(by_allocation[allocation], reason, now)

    def _local_ends(self, now: Instant) -> dict[str, str]:
        """Allocations that this node ends by itself, link or no link, and why."""
        ends = {}
        for order in self.orders:
            meter = self.meters.get(order.run or "")
            record = self.phases.get(order.allocation)
            is_current = record is not None and record.incarnation == order.incarnation
            if meter is not None and order.stop_at_tick is not None and meter.boot == now.boot:
                if meter.age_ms(now) >= order.stop_at_tick * TICK_MS:
                    ends[order.allocation] = "stop_at_tick"
            elif record is not None and is_current and record.phase in ("pulling", "starting"):
                limit_ms = order.spec.start_timeout_s * 1000
                if record.at_boot == now.boot and now.boot_ms - record.at_ms >= limit_ms:
                    ends[order.allocation] = "start_timeout"
                    self._give_up(record, now)
            if record is not None and is_current and record.phase in ("stopping", *FINISHED):
                # Decided before; an agent that restarts half-way ends it all the same.
                ends.setdefault(order.allocation, record.reason)
        return ends

    def _give_up(self, record: PhaseRecord, now: Instant) -> None:
        """A start that ran out of time and has no container that could be ended has failed."""
        here = {sight.allocation for sight in self.sights}
        if record.allocation not in here and record.allocation not in self._tasks:
            detail = self._errors.pop(record.allocation, "")
            record = msgspec.structs.replace(record, detail=detail)
            self._move(record, "failed", now, reason="start_timeout")

    def _accept(self, order: Order, reason: str, now: Instant) -> None:
        record = self.phases.get(order.allocation)
        if (
            record is None
            or record.incarnation < order.incarnation
            or (record.phase in BEFORE_READY and record.reason != reason)
        ):
            self._reach(order, "accepted", now, reason=reason)

    def _begin(self, action: reconcile.Action, plan: reconcile.Plan, now: Instant) -> None:
        if isinstance(action, reconcile.Start):
            if not self._spool_is_well:
                plan.waiting[action.order.allocation] = "spool_full"
                return
            self._accept(action.order, "", now)
            labels = self._labels(action.order)
            self._starting[labels.allocation] = labels
            self._launch(labels.allocation, self._start(action.order, labels))
        elif isinstance(action, reconcile.Terminate):
            self._launch(action.allocation, self._terminate(action))
        elif isinstance(action, reconcile.Kill):
            self._launch(action.allocation, self.runtime.kill(action.container))
        elif isinstance(action, reconcile.Remove):
            self._launch(action.allocation, self.runtime.remove(action.container))
        elif isinstance(action, reconcile.Update):
            self._launch(action.order.allocation, self._update(action))
        elif isinstance(action, reconcile.ConfirmGone):
            self._launch(action.order.allocation, self._confirm_gone(action.order))
        else:
            self._launch(action.residence, self.runtime.wipe(action.residence))

    def _launch(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[key] = asyncio.ensure_future(self._run(key, work))

    async def _run(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """One action; the edge at which a failing driver stops and the next pass tries again."""
        try:
            await work
            self._retry_at.pop(key, None)
            self._errors.pop(key, None)
        except (DriverError, OSError, asyncio.TimeoutError) as error:
            log.warning("action.failed", extra={"node": self.name, "of": key, "error": repr(error)})
            self._errors[key] = str(error)
            self._retry_at[key] = self.clock.now().boot_ms + int(self.pace.retry * 1000)
        finally:
            self._tasks.pop(key, None)
            self._starting.pop(key, None)
            self.wake.set()

    def _labels(self, order: Order) -> Labels:
        return Labels(
            node=self.name,
            instance=order.instance,
            allocation=order.allocation,
            incarnation=order.incarnation,
            run=order.run or "",
            spec_rev=order.spec_rev,
            slices=tuple(order.slices),
        )

    async def _start(self, order: Order, labels: Labels) -> None:
        residences = [
            r
            for r in (self.desired.residences if self.desired else [])
            if r.instance == order.instance and r.want == "keep"
        ]
        limit_s = order.spec.start_timeout_s
        try:
            self._advance(order, "pulling")
            await asyncio.wait_for(self.runtime.pull(order.spec.image), limit_s)
            self._advance(order, "starting")
            await asyncio.wait_for(self.runtime.start(order, labels, residences), limit_s)
        except Unsupported as error:
            now = self.clock.now()
            self._reach(order, "failed", now, reason="start_failed", detail=str(error))

    def _advance(self, order: Order, phase: PhaseName) -> None:
        """A start that is tried again has been here before and says nothing."""
        record = self.phases[order.allocation]
        if BEFORE_READY.index(record.phase) < BEFORE_READY.index(phase):
            self._reach(order, phase, self.clock.now())

    async def _terminate(self, action: reconcile.Terminate) -> None:
        sight = self._lookout.sights[action.container]
        await asyncio.wait_for(self.runtime.terminate(action.container), self.pace.call)
        now = self.clock.now()
        self._ending[action.container] = now.boot_ms
        meter = self.meters.get(sight.run)
        if meter is not None:
            order = next((o for o in self.orders if o.run == sight.run), None)
            last_tick = None if order is None else order.stop_at_tick
            self._end_run(meter, meter.stop(now=now, last_tick=last_tick))
        self._reach(sight, "stopping", now, reason=action.reason)

    async def _update(self, action: reconcile.Update) -> None:
        order = action.order
        await asyncio.wait_for(
            self.runtime.update(action.container, order.spec, order.spec_rev), self.pace.call
        )
        record = self.phases.get(order.allocation)
        if record is not None and record.incarnation == order.incarnation:
            self._set(msgspec.structs.replace(record, spec_rev=order.spec_rev), self.clock.now())

    async def _confirm_gone(self, order: Order) -> None:
        await asyncio.to_thread(self.gpus.wipe, order.slices)
        now = self.clock.now()
        record = self.phases.get(order.allocation)
        if record is not None and record.incarnation >= order.incarnation:
            self._move(record, "gone", now, reason="ordered")
        else:
            self._reach(order, "gone", now, reason="ordered")

    # --- keeping

    def _keep(self, now: Instant) -> None:
        """Write what changed in one commit. A full disk is said, and tried again each pass."""
        if self._spool_is_well and not (self._unkept or self._unkept_runs or self._unkept_phases):
            return
        try:
            with self.spool.writing():
                if not self._spool_is_well and self.desired is not None:
                    self.spool.write_desired(self.desired)
                for meter in self._unkept_runs.values():
                    self.spool.write_run(meter, wall_s=now.wall_s)
                for meter, stretch in self._unkept.values():
                    self.spool.write_stretches(meter, [stretch], wall_s=now.wall_s)
                for record in self._unkept_phases.values():
                    self.spool.write_phase(record)
        except SpoolError as error:
            self._spool_failed(error)
            return
        self._unkept_runs.clear()
        self._unkept.clear()
        self._unkept_phases.clear()
        self._spool_is_well = True

    def _spool_failed(self, error: SpoolError) -> None:
        if self._spool_is_well:
            log.error("spool.full", extra={"node": self.name, "error": str(error)})
        self._spool_is_well = False

    def _prune(self, now: Instant) -> None:
        if self._pruned_ms is not None and now.boot_ms - self._pruned_ms < self.pace.prune * 1000:
            return
        self._pruned_ms = now.boot_ms
        listed = {order.allocation for order in self.orders} | {s.allocation for s in self.sights}
        old = [
            r.allocation
            for r in self.phases.values()
            if r.phase in FINISHED
            and r.allocation not in listed
            and now.wall_s - r.touched_s > KEEP_S
        ]
        try:
            self.spool.prune(wall_s=now.wall_s)
            self.spool.drop_phases(old)
        except SpoolError as error:
            self._spool_failed(error)
            return
        for allocation in old:
            del self.phases[allocation]
