"""The ledger of phases: where each allocation of a node stands, numbered, kept and told."""

import logging
from collections.abc import Callable, Iterable

import msgspec

from agents.clock import Instant
from agents.drivers.base import Labels
from agents.keeper import Keeper
from agents.protocol import EndpointFact, Order, PhaseName
from agents.reconcile import Sight
from agents.spool import KEEP_S, PhaseRecord

log = logging.getLogger("agents.ledger")

BEFORE_READY = ("accepted", "pulling", "starting")
FINISHED = ("exited", "failed", "gone")


class Ledger:
    """
    ``records`` by allocation. ``news``: phases reached and not taken by the reporter yet.

    :param tell: called when there is something to say
    :param seq: the number of the last phase said
    """

    def __init__(
        self,
        records: dict[str, PhaseRecord],
        *,
        node: str,
        seq: int,
        keeper: Keeper,
        tell: Callable[[], None],
    ) -> None:
        self.records = records
        self.news: list[PhaseRecord] = []
        self._node = node
        self._seq = seq
        self._keeper = keeper
        self._tell = tell

    # --- reading

    def get(self, allocation: str) -> PhaseRecord | None:
        return self.records.get(allocation)

    def is_young(self, sight: Sight) -> bool:
        """What is seen has been started and is not ready yet, as far as is known."""
        record = self.records.get(sight.allocation)
        return (
            record is not None
            and record.incarnation == sight.incarnation
            and record.phase in BEFORE_READY
        )

    def finished(self) -> set[tuple[str, int]]:
        return {(r.allocation, r.incarnation) for r in self.records.values() if r.phase in FINISHED}

    def confirmed(self, orders: Iterable[Order]) -> set[str]:
        """The allocations whose wipe has been confirmed for the incarnation that is ordered."""
        gone = {r.allocation: r.incarnation for r in self.records.values() if r.phase == "gone"}
        return {o.allocation for o in orders if o.incarnation <= gone.get(o.allocation, 0)}

    def old(self, *, listed: set[str], now: Instant) -> list[str]:
        """Finished allocations that nobody lists and of which nobody can want to hear any more."""
        return [
            r.allocation
            for r in self.records.values()
            if r.phase in FINISHED
            and r.allocation not in listed
            and now.wall_s - r.touched_s > KEEP_S
        ]

    # --- writing

    def reach(
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

    def move(
        self,
        record: PhaseRecord,
        phase: PhaseName,
        now: Instant,
        *,
        reason: str = "",
        detail: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        """The same incarnation has come to another phase; what is known of it stays known."""
        self._set(
            msgspec.structs.replace(
                record,
                phase=phase,
                reason=reason,
                detail=record.detail if detail is None else detail,
                exit_code=record.exit_code if exit_code is None else exit_code,
                endpoints=[] if phase in FINISHED else record.endpoints,
                at_boot=now.boot,
                at_ms=now.boot_ms,
            ),
            now,
        )

    def accept(self, order: Order, reason: str, now: Instant) -> None:
        """The order is taken; ``reason`` says for what it waits, and is said once."""
        record = self.records.get(order.allocation)
        if (
            record is None
            or record.incarnation < order.incarnation
            or (record.phase in BEFORE_READY and record.reason != reason)
        ):
            self.reach(order, "accepted", now, reason=reason)

    def advance(self, order: Order, phase: PhaseName, now: Instant) -> None:
        """A start that is tried again has been here before and says nothing."""
        record = self.records[order.allocation]
        if BEFORE_READY.index(record.phase) < BEFORE_READY.index(phase):
            self.reach(order, phase, now)

    def update(self, order: Order, now: Instant) -> None:
        """The container runs by the ordered revision of its spec."""
        record = self.records.get(order.allocation)
        if record is not None and record.incarnation == order.incarnation:
            self._set(msgspec.structs.replace(record, spec_rev=order.spec_rev), now)

    def confirm_gone(self, order: Order, now: Instant) -> None:
        record = self.records.get(order.allocation)
        if record is not None and record.incarnation >= order.incarnation:
            self.move(record, "gone", now, reason="ordered")
        else:
            self.reach(order, "gone", now, reason="ordered")

    def forget(self, allocations: Iterable[str]) -> None:
        for allocation in allocations:
            del self.records[allocation]

    def _set(self, record: PhaseRecord, now: Instant) -> None:
        self._seq += 1
        record = msgspec.structs.replace(record, seq=self._seq, touched_s=now.wall_s)
        self.records[record.allocation] = record
        self._keeper.note_phase(record)
        self.news.append(record)
        log.info(
            "phase",
            extra={
                "node": self._node,
                "allocation": record.allocation,
                "incarnation": record.incarnation,
                "phase": record.phase,
                "reason": record.reason,
            },
        )
        self._keeper.keep(now)
        self._tell()
