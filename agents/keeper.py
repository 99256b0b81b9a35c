"""Brings what changed into the spool: normally once a pass, later while the disk is full."""

import logging
from collections.abc import Collection, Iterable

from agents.clock import Instant
from agents.meter import RunMeter, Stretch
from agents.protocol import Desired
from agents.spool import PhaseRecord, Spool, SpoolError

log = logging.getLogger("agents.keeper")


class Keeper:
    """
    Rows wait here until they are in the spool. ``is_well``: the last write of all of them reached
    the disk; nothing new is started while it did not.
    """

    def __init__(self, spool: Spool, *, node: str) -> None:
        self._spool = spool
        self._node = node
        self._desired: Desired | None = None
        self._runs: dict[str, RunMeter] = {}
        self._stretches: dict[tuple[str, int], tuple[RunMeter, Stretch]] = {}
        self._phases: dict[str, PhaseRecord] = {}
        self.is_well = True

    def note_run(self, meter: RunMeter) -> None:
        self._runs[meter.run] = meter

    def note_stretches(self, meter: RunMeter, stretches: Iterable[Stretch]) -> None:
        for stretch in stretches:
            self._stretches[meter.run, stretch.from_tick] = (meter, stretch)

    def note_phase(self, record: PhaseRecord) -> None:
        self._phases[record.allocation] = record

    def keep_desired(self, desired: Desired) -> None:
        """Write an obeyed set at once: an agent that restarts goes on with it."""
        try:
            self._spool.write_desired(desired)
        except SpoolError as error:
            self._failed(error)
            self._desired = desired
        else:
            self._desired = None

    def keep(self, now: Instant) -> None:
        """Write what changed in one commit. A full disk is said, and tried again each pass."""
        if self.is_well and not (self._stretches or self._runs or self._phases):
            return
        try:
            with self._spool.writing():
                if self._desired is not None:
                    self._spool.write_desired(self._desired)
                for meter in self._runs.values():
                    self._spool.write_run(meter, wall_s=now.wall_s)
                for meter, stretch in self._stretches.values():
                    self._spool.write_stretches(meter, [stretch], wall_s=now.wall_s)
                for record in self._phases.values():
                    self._spool.write_phase(record)
        except SpoolError as error:
            self._failed(error)
            return
        self._desired = None
        self._runs.clear()
        self._stretches.clear()
        self._phases.clear()
        self.is_well = True

    def prune(self, now: Instant, *, old: Collection[str]) -> bool:
        """Drop what is past its time and the ``old`` allocations' phases. Return whether it did."""
        try:
            self._spool.prune(wall_s=now.wall_s)
            self._spool.drop_phases(old)
        except SpoolError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: SpoolError) -> None:
        if self.is_well:
            log.error("spool.full", extra={"node": self._node, "error": str(error)})
        self.is_well = False
