"""The meters of a node's open runs: what of what is seen is proven."""

from collections.abc import Callable, Collection, Iterable, Mapping

from agents.clock import Instant
from agents.drivers.base import Container
from agents.keeper import Keeper
from agents.meter import RunMeter, Stretch
from agents.reconcile import Sight


class Metering:
    """
    ``meters`` by run. ``is_due``: usage should be told at once.

    :param tell: called when there is something to say
    """

    def __init__(
        self, meters: dict[str, RunMeter], *, keeper: Keeper, tell: Callable[[], None]
    ) -> None:
        self.meters = meters
        self.is_due = False
        self._keeper = keeper
        self._tell = tell

    def of(self, run: str | None) -> RunMeter | None:
        return self.meters.get(run or "")

    def see(
        self,
        sights: Iterable[Sight],
        containers: Mapping[str, Container],
        *,
        lost_gpus: Collection[str],
        now: Instant,
    ) -> None:
        """Take one look: what is alive proves its ticks, what ended or is missing ends its run."""
        by_run = {sight.run: sight for sight in sights if sight.state != "ended"}
        for run, meter in list(self.meters.items()):
            sight = by_run.get(run)
            if sight is None:
                self._end(meter, meter.lose())
            elif sight.state == "alive":
                container = containers[sight.container]
                changed = meter.see(
                    life=container.life,
                    now=now,
                    traffic=container.traffic,
                    is_healthy=not any(part.gpu_uuid in lost_gpus for part in sight.slices),
                )
                self._keeper.note_stretches(meter, changed)

    def begin(self, sight: Sight, container: Container, now: Instant) -> None:
        """The container is ready: tick 0 of its run begins, unless it began before."""
        if not sight.run or sight.run in self.meters:
            return
        meter = RunMeter.begin(
            run=sight.run,
            allocation=sight.allocation,
            life=container.life,
            now=now,
            traffic=container.traffic,
        )
        self.meters[sight.run] = meter
        self._keeper.note_run(meter)
        self.is_due = True

    def stop(self, run: str, *, now: Instant, last_tick: int | None) -> None:
        """We end the container of the run now."""
        meter = self.meters.get(run)
        if meter is not None:
            self._end(meter, meter.stop(now=now, last_tick=last_tick))

    def _end(self, meter: RunMeter, stretches: list[Stretch]) -> None:
        self._keeper.note_run(meter)
        self._keeper.note_stretches(meter, stretches)
        self.meters.pop(meter.run, None)
        self.is_due = True
        self._tell()
