"""
Observed against desired: what must be done now. Pure.

Absence is never an order: a container that no order names is reported as unknown and left alone.
A container whose state cannot be read ("unknown") is left alone too, and counts as alive for
everything that must not run beside it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agents.protocol import Order, ResidenceOrder, SliceSpec


@dataclass(frozen=True)
class Sight:
    """A container as seen now. ``ending_for_ms``: since when it has been asked to end, or None."""

    container: str
    allocation: str
    instance: str
    incarnation: int
    run: str
    state: Literal["alive", "ended", "unknown"]
    spec_rev: int = 0
    slices: tuple[SliceSpec, ...] = ()
    ending_for_ms: int | None = None

    @property
    def may_run(self) -> bool:
        return self.state != "ended"


@dataclass(frozen=True)
class Start:
    order: Order


@dataclass(frozen=True)
class Terminate:
    container: str
    allocation: str
    reason: str


@dataclass(frozen=True)
class Kill:
    container: str
    allocation: str


@dataclass(frozen=True)
class Remove:
    container: str
    allocation: str


@dataclass(frozen=True)
class Update:
    container: str
    order: Order


@dataclass(frozen=True)
class ConfirmGone:
    """Nothing of the allocation is left but its slices' memory: wipe that and say ``gone``."""

    order: Order


@dataclass(frozen=True)
class WipeResidence:
    residence: str
    instance: str


Action = Start | Terminate | Kill | Remove | Update | ConfirmGone | WipeResidence


@dataclass
class Plan:
    """``waiting``: orders that cannot start yet, with the reason word."""

    actions: list[Action] = field(default_factory=list)
    unknown: list[Sight] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)


def plan(
    *,
    sights: Sequence[Sight],
    orders: Sequence[Order],
    residences: Sequence[ResidenceOrder] = (),
    present: Collection[str] = (),
    finished: Collection[tuple[str, int]] = (),
    confirmed: Collection[str] = (),
    busy: Collection[str] = (),
    reasons: dict[str, str] | None = None,
) -> Plan:
    """
    Decide one pass. Each action brings the node nearer to the orders; when the orders are met
    there is none, so that converging twice is converging once.

    :param present: residences that have bytes here
    :param finished: (allocation, incarnation) that exited or failed: never started again
    :param confirmed: allocations already confirmed gone
    :param busy: allocations and residences with an action under way: nothing is decided for them
    :param reasons: why an allocation is to end, if not because the orders say so
    """
    result = Plan()
    by_allocation = {order.allocation: order for order in orders}
    reasons = reasons or {}

    for sight in sorted(sights, key=lambda s: s.container):
        order = by_allocation.get(sight.allocation)
        if order is None or (sight.incarnation > order.incarnation and order.want != "gone"):
            result.unknown.append(sight)
        elif sight.allocation not in busy:
            result.actions += _for_container(sight, order, reasons.get(sight.allocation))

    starting: list[Order] = []
    for order in orders:
        if order.allocation in busy or any(s.allocation == order.allocation for s in sights):
            continue
        if order.want == "gone":
            if order.allocation not in confirmed:
                result.actions.append(ConfirmGone(order))
        elif order.want == "run" and (order.allocation, order.incarnation) not in finished:
            reason = _obstacle(order, sights, by_allocation, starting)
            if reason is None:
                starting.append(order)
                result.actions.append(Start(order))
            else:
                result.waiting[order.allocation] = reason

    running = {s.instance for s in sights if s.may_run} | {o.instance for o in starting}
    result.actions += [
        WipeResidence(r.residence, r.instance)
        for r in residences
        if r.want == "gone"
        and r.residence in present
        and r.residence not in busy
        and r.instance not in running
    ]
    return result


def _for_container(sight: Sight, order: Order, reason: str | None) -> list[Action]:
    if sight.state == "unknown":
        return []
    is_current = sight.incarnation == order.incarnation
    if sight.state == "ended":
        # An ended container of the ordered incarnation is kept as the proof of how it ended.
        if order.want == "gone" or not is_current:
            return [Remove(sight.container, sight.allocation)]
        return []
    if order.want == "run" and is_current:
        if sight.spec_rev != order.spec_rev:
            return [Update(sight.container, order)]
        return []
    if sight.ending_for_ms is None:
        why = reason or ("ordered" if is_current else "replaced")
        return [Terminate(sight.container, sight.allocation, why)]
    if sight.ending_for_ms >= order.spec.grace_s * 1000:
        return [Kill(sight.container, sight.allocation)]
    return []


def _obstacle(
    order: Order, sights: Iterable[Sight], orders: dict[str, Order], starting: Sequence[Order]
) -> str | None:
    """Why the order cannot start now, or None."""
    if order.run is None:
        return "waits_for_run"
    for other in starting:
        if other.instance == order.instance:
            return "waits_for_instance"
        if _overlap(other.slices, order.slices):
            return "waits_for_slice"
    for sight in sights:
        # An ended container that nobody will remove (quarantined) stands in nobody's way.
        if sight.instance == order.instance and (sight.may_run or sight.allocation in orders):
            return "waits_for_instance"
        if sight.may_run and _overlap(sight.slices, order.slices):
            return "waits_for_slice"
    return None


def _overlap(held: Iterable[SliceSpec], wanted: Sequence[SliceSpec]) -> bool:
    return any(
        a.gpu_uuid == b.gpu_uuid and a.from_cell < b.until_cell and b.from_cell < a.until_cell
        for a in held
        for b in wanted
    )
