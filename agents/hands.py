"""
The hands of a node: they pull, start, end, remove and wipe what a plan says.

Each action is a task under the name of its allocation or residence, which is "busy" meanwhile and
for a moment after a failure; nothing here decides what is to be done.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from agents import reconcile
from agents.clock import Clock, Instant
from agents.drivers.base import DriverError, GpuDriver, Labels, Runtime, Unsupported
from agents.ledger import Ledger
from agents.lookout import Lookout
from agents.metering import Metering
from agents.pace import Pace
from agents.protocol import Order
from agents.spool import PhaseRecord
from agents.standing import StandingOrders

log = logging.getLogger("agents.hands")


class Hands:
    """
    ``tasks``: actions under way. ``ending``: since when (BOOTTIME ms) containers have been asked
    to end. ``starting``: labels of what is being started and may not be listed yet.

    :param wake: called when an action has ended, since the next pass need not wait
    """

    def __init__(
        self,
        *,
        node: str,
        runtime: Runtime,
        gpus: GpuDriver,
        clock: Clock,
        pace: Pace,
        standing: StandingOrders,
        ledger: Ledger,
        metering: Metering,
        lookout: Lookout,
        wake: Callable[[], None],
    ) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ending: dict[str, int] = {}
        self.starting: dict[str, Labels] = {}
        self._retry_at: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self._node = node
        self._runtime = runtime
        self._gpus = gpus
        self._clock = clock
        self._pace = pace
        self._standing = standing
        self._ledger = ledger
        self._metering = metering
        self._lookout = lookout
        self._wake = wake

    # --- what is under way

    def busy(self, now: Instant) -> set[str]:
        """Allocations and residences with an action under way, or one that failed just now."""
        return {*self.tasks, *(k for k, at in self._retry_at.items() if at > now.boot_ms)}

    def forget_ended(self, present: Collection[str]) -> None:
        self.ending = {name: at for name, at in self.ending.items() if name in present}

    def give_up(self, record: PhaseRecord, now: Instant) -> None:
        """A start that ran out of time and has no container that could be ended has failed."""
        here = {sight.allocation for sight in self._lookout.sights.values()}
        if record.allocation not in here and record.allocation not in self.tasks:
            detail = self._errors.pop(record.allocation, "")
            self._ledger.move(record, "failed", now, reason="start_timeout", detail=detail)

    async def settle(self) -> None:
        """Wait until every action under way has ended."""
        while self.tasks:
            await asyncio.wait(list(self.tasks.values()))
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Leave every action where it is."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    # --- beginning

    def begin(self, action: reconcile.Action, now: Instant) -> None:
        if isinstance(action, reconcile.Start):
            self._ledger.accept(action.order, "", now)
            labels = self._labels(action.order)
            self.starting[labels.allocation] = labels
            self._launch(labels.allocation, self._start(action.order, labels))
        elif isinstance(action, reconcile.Terminate):
            self._launch(action.allocation, self._terminate(action))
        elif isinstance(action, reconcile.Kill):
            self._launch(action.allocation, self._runtime.kill(action.container))
        elif isinstance(action, reconcile.Remove):
            self._launch(action.allocation, self._runtime.remove(action.container))
        elif isinstance(action, reconcile.Update):
            self._launch(action.order.allocation, self._update(action))
        elif isinstance(action, reconcile.ConfirmGone):
            self._launch(action.order.allocation, self._confirm_gone(action.order))
        else:
            self._launch(action.residence, self._runtime.wipe(action.residence))

    def _launch(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        self.tasks[key] = asyncio.ensure_future(self._run(key, work))

    async def _run(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """One action; the edge at which a failing driver stops and the next pass tries again."""
        try:
            await work
            self._retry_at.pop(key, None)
            self._errors.pop(key, None)
        except (DriverError, OSError, asyncio.TimeoutError) as error:
            log.warning(
                "action.failed", extra={"node": self._node, "of": key, "error": repr(error)}
            )
            self._errors[key] = str(error)
            self._retry_at[key] = self._clock.now().boot_ms + int(self._pace.retry * 1000)
        finally:
            self.tasks.pop(key, None)
            self.starting.pop(key, None)
            self._wake()

    # --- the actions

    def _labels(self, order: Order) -> Labels:
        return Labels(
            node=self._node,
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
            for r in self._standing.residences
            if r.instance == order.instance and r.want == "keep"
        ]
        limit_s = order.spec.start_timeout_s
        try:
            self._ledger.advance(order, "pulling", self._clock.now())
            await asyncio.wait_for(self._runtime.pull(order.spec.image), limit_s)
            self._ledger.advance(order, "starting", self._clock.now())
            await asyncio.wait_for(self._runtime.start(order, labels, residences), limit_s)
        except Unsupported as error:
            now = self._clock.now()
            self._ledger.reach(order, "failed", now, reason="start_failed", detail=str(error))

    async def _terminate(self, action: reconcile.Terminate) -> None:
        sight = self._lookout.sights[action.container]
        await asyncio.wait_for(self._runtime.terminate(action.container), self._pace.call)
        now = self._clock.now()
        self.ending[action.container] = now.boot_ms
        order = self._standing.of_run(sight.run)
        last_tick = None if order is None else order.stop_at_tick
        self._metering.stop(sight.run, now=now, last_tick=last_tick)
        self._ledger.reach(sight, "stopping", now, reason=action.reason)

    async def _update(self, action: reconcile.Update) -> None:
        order = action.order
        await asyncio.wait_for(
            self._runtime.update(action.container, order.spec, order.spec_rev), self._pace.call
        )
        self._ledger.update(order, self._clock.now())

    async def _confirm_gone(self, order: Order) -> None:
        await asyncio.to_thread(self._gpus.wipe, order.slices)
        self._ledger.confirm_gone(order, self._clock.now())
