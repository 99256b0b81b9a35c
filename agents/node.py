"""
One node: looks at what runs, compares it with what is ordered, acts, meters, remembers.

``step`` is one pass, called every second and more often while something moves. Nothing here knows
whether there is a link: ``agents.report`` tells the server what happens.
"""

import asyncio
import logging

import msgspec

from agents import reconcile
from agents.clock import Clock, Instant
from agents.drivers.base import DriverError, GpuDriver, Labels, Runtime
from agents.hands import Hands
from agents.judge import Judge
from agents.keeper import Keeper
from agents.ledger import BEFORE_READY, Ledger
from agents.limits import Limits
from agents.lookout import Lookout
from agents.metering import Metering
from agents.pace import Pace
from agents.protocol import Desired, Facts, Order, ResidenceFact
from agents.reconcile import Sight
from agents.spool import Spool
from agents.standing import StandingOrders

log = logging.getLogger("agents.node")


class Node:
    """
    ``ledger`` and ``metering`` are what the reporter tells. ``changed``: set when there is
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
        self.unknown: list[Sight] = []
        self.residences: list[ResidenceFact] = []
        self._pruned_ms: int | None = None

        self._keeper = Keeper(spool, node=name)
        self._standing = StandingOrders(spool.read_desired(), node=name, keeper=self._keeper)
        self.ledger = Ledger(
            spool.read_phases(),
            node=name,
            # A spool that is new begins above whatever an earlier one of this node has said: the
            # server takes a lower seq for old news, and would never believe that anything is gone.
            seq=spool.read_fact("phase_seq", clock.now().wall_s * 1000),
            keeper=self._keeper,
            tell=self._tell,
        )
        self.metering = Metering(spool.read_meters(), keeper=self._keeper, tell=self._tell)
        self._limits = Limits(self._standing, metering=self.metering, ledger=self.ledger)
        self._lookout = Lookout(runtime, deadline_s=self.pace.inspect)
        self._judge = Judge(
            ledger=self.ledger,
            lookout=self._lookout,
            metering=self.metering,
            runtime=runtime,
            clock=clock,
            probe_s=self.pace.inspect,
        )
        self._hands = Hands(
            node=name,
            runtime=runtime,
            gpus=gpus,
            clock=clock,
            pace=self.pace,
            standing=self._standing,
            ledger=self.ledger,
            metering=self.metering,
            lookout=self._lookout,
            wake=self.wake.set,
        )
        self.facts = self._read_facts(None)

    def _tell(self) -> None:
        # Not bound once: whoever speaks for several nodes gives them an event of his own.
        self.changed.set()

    # --- orders

    @property
    def desired(self) -> Desired | None:
        return self._standing.desired

    @property
    def orders(self) -> list[Order]:
        return self._standing.orders

    @property
    def sights(self) -> list[Sight]:
        return list(self._lookout.sights.values())

    def obey(self, desired: Desired) -> bool:
        """Take a desired set, unless it is older than the one obeyed last."""
        if self._standing.is_old(desired):
            return False
        if self._standing.take(desired):
            self.wake.set()
        return True

    # --- one pass

    async def step(self) -> None:
        """See, meter, decide, act. An action is a task; its allocation is left alone meanwhile."""
        self.facts = self._read_facts(self.facts)
        await self._lookout.look(
            now=self.clock.now(),
            ending=self._hands.ending,
            starting=self._hands.starting.values(),
            remember=self._remember,
        )
        now = self.clock.now()
        if not self._lookout.is_blind:
            self._hands.forget_ended(self._lookout.sights)
            self._meter(now)
            self._judge.judge(now, busy=self._hands.tasks)
            await self._judge.probe(ending=self._hands.ending)
        self._keeper.keep(now)
        if not self._lookout.is_blind:
            self._act(self.clock.now())
        await self._list_residences()
        self._prune(now)

    def pause_s(self) -> float:
        """How long the next pass may wait: at most to the instant of a stop_at_tick."""
        if self._hands.tasks or any(self._moves(sight) for sight in self.sights):
            return self.pace.hurry
        next_end_s = self._limits.next_end_s(self.clock.now())
        return self.pace.look if next_end_s is None else min(self.pace.look, next_end_s)

    def _moves(self, sight: Sight) -> bool:
        record = self.ledger.get(sight.allocation)
        is_young = record is not None and record.phase in BEFORE_READY
        return sight.state == "alive" and (is_young or sight.container in self._hands.ending)

    async def settle(self) -> None:
        """Wait until every action under way has ended."""
        await self._hands.settle()

    async def close(self) -> None:
        """Leave; what runs goes on running."""
        await self._hands.close()
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
        record = self.ledger.get(allocation)
        is_it = record is not None and record.incarnation == incarnation
        order = self._standing.of_allocation(allocation)
        return Labels(
            node=self.name,
            instance=record.instance if record is not None else "",
            allocation=allocation,
            incarnation=incarnation,
            run=(record.run or "") if record is not None and is_it else "",
            slices=tuple(order.slices) if order is not None else (),
        )

    def _meter(self, now: Instant) -> None:
        lost = {gpu.uuid for gpu in self.facts.gpus if not gpu.healthy}
        self.metering.see(self.sights, self._lookout.containers, lost_gpus=lost, now=now)

    async def _list_residences(self) -> None:
        try:
            found = await asyncio.wait_for(self.runtime.list_residences(), self.pace.call)
        except (DriverError, asyncio.TimeoutError) as error:
            log.warning("residences.unreadable", extra={"node": self.name, "error": repr(error)})
            return
        present = {fact.residence for fact in found}
        wiped = [
            ResidenceFact(residence=r.residence, instance=r.instance, kind=r.kind, state="wiped")
            for r in self._standing.residences
            if r.want == "gone" and r.residence not in present
        ]
        if found + wiped != self.residences:
            self.residences = found + wiped
            self.changed.set()
            self.wake.set()

    # --- acting

    def _act(self, now: Instant) -> None:
        for record in self._limits.late_starts(now):
            self._hands.give_up(record, now)
        plan = self._plan(now)
        if plan.unknown != self.unknown:
            self.unknown = plan.unknown
            self.changed.set()
        for action in plan.actions:
            if isinstance(action, reconcile.Start) and not self._keeper.is_well:
                plan.waiting[action.order.allocation] = "spool_full"
            else:
                self._hands.begin(action, now)
        by_allocation = {order.allocation: order for order in self.orders}
        for allocation, reason in plan.waiting.items():
            self.ledger.accept(by_allocation[allocation], reason, now)

    def _plan(self, now: Instant) -> reconcile.Plan:
        reasons = self._limits.ends(now)
        orders = [
            msgspec.structs.replace(order, want="stop")
            if order.want == "run" and order.allocation in reasons
            else order
            for order in self.orders
        ]
        return reconcile.plan(
            sights=self.sights,
            orders=orders,
            residences=self._standing.residences,
            present={f.residence for f in self.residences if f.state == "present"},
            finished=self.ledger.finished(),
            confirmed=self.ledger.confirmed(orders),
            busy=self._hands.busy(now),
            reasons=reasons,
        )

    def _prune(self, now: Instant) -> None:
        if self._pruned_ms is not None and now.boot_ms - self._pruned_ms < self.pace.prune * 1000:
            return
        self._pruned_ms = now.boot_ms
        listed = {order.allocation for order in self.orders} | {s.allocation for s in self.sights}
        old = self.ledger.old(listed=listed, now=now)
        if self._keeper.prune(now, old=old):
            self.ledger.forget(old)
