"""
Whose turn it is. Pure.

Classes go one after another: what lost its place with its node, on demand, spot. Within a class
what replaces a lost member of a gang that runs goes first: without it the gang does no work, and
its tenant's share, which is large for that very reason, must not put it behind others. After that
whoever has waited longer by whole steps of five minutes goes first, until half an hour; within a
step the tenant with the smallest share of the fleet (dominant resource fairness: the largest of
his parts of cards, their memory, CPU and RAM, over his weight); within a tenant first come, first
served. Each placement raises a share, so tenants take turns within one pass.

So nobody overtakes for ever: whoever waits is half an hour old at last, and among those shares
decide, which only rise by being served.

Source: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011.
"""

import heapq
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from scheduler.core.kinds import WHOLE, Kind

AGE_STEP: Final = 300  # s
OLDEST: Final = 6  # steps; who waits longer is not preferred any more
CLASSES: Final = ("failover", "on_demand", "spot")
HOLD_AFTER, HOLD_FOR = 1_800, 900  # s
MILLIONTHS: Final = 1_000_000
COMPUTE_SLICES: Final = 7  # of a card that is cut by MIG


@dataclass(frozen=True, slots=True)
class Use:
    """What is held, or what there is: thousandths of cards, their MiB, milli-cores, MiB of RAM."""

    milli: int = 0
    vram_mib: int = 0
    cpu_milli: int = 0
    ram_mib: int = 0

    def plus(self, kind: Kind) -> "Use":
        return Use(
            self.milli + milli_of(kind),
            self.vram_mib + kind.vram_mib * max(kind.count, 1),
            self.cpu_milli + kind.cpu_milli,
            self.ram_mib + kind.ram_mib,
        )

    def share_of(self, total: "Use", weight: int) -> int:
        """Return the largest part of ``total``, over ``weight`` (thousandths), in millionths."""
        parts = (
            (self.milli, total.milli),
            (self.vram_mib, total.vram_mib),
            (self.cpu_milli, total.cpu_milli),
            (self.ram_mib, total.ram_mib),
        )
        return max(
            (MILLIONTHS * 1_000 * mine // (all_ * weight) for mine, all_ in parts if all_),
            default=0,
        )


def milli_of(kind: Kind) -> int:
    """
    Return what a request counts for in thousandths of cards: of a MIG instance its compute slices,
    one where it asks for memory alone and no profile.
    """
    if kind.mode != "mig":
        return kind.total_milli
    compute = int(kind.profile[0]) if kind.profile else 1
    return kind.count * compute * WHOLE // COMPUTE_SLICES


class Waiting(Protocol):
    """What the queue must know of a request."""

    @property
    def tenant(self) -> uuid.UUID: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def market(self) -> str: ...
    @property
    def is_failover(self) -> bool: ...
    @property
    def waited_s(self) -> int: ...
    @property
    def is_replacement(self) -> bool: ...


W = TypeVar("W", bound=Waiting)


def class_of(one: Waiting) -> int:
    """Return which class it waits in; lower ones go first."""
    return CLASSES.index("failover" if one.is_failover else one.market)


def may_hold(one: Waiting) -> bool:
    """
    Return whether a node is kept free for this request now, if it fits nowhere: a whole card or
    more, on demand, that has waited half an hour; for a quarter of an hour at a time, then again
    after 1, 2, 4, 8 … hours. So small requests cannot starve a large one for ever, and one that
    nobody makes room for does not keep a room empty.
    """
    if one.market != "on_demand" or one.kind.total_milli < WHOLE:
        return False
    return is_hour_to_hold(one.waited_s)


def is_hour_to_hold(waited_s: int) -> bool:
    """Return whether somebody who has waited so long may keep nodes free just now."""
    if waited_s < HOLD_AFTER:
        return False
    began = HOLD_AFTER << ((waited_s // HOLD_AFTER).bit_length() - 1)
    return waited_s - began < HOLD_FOR


class Line:
    """
    The requests of one pass in their turn. Iterate, and call ``placed`` for those that got what
    they wanted before the next is asked for.

    ``waiting``: first come first. ``held``: what each tenant has; ``total``: what there is.
    ``weights``: in thousandths, 1,000 for tenants without.
    """

    def __init__(
        self,
        waiting: Sequence[W],
        *,
        held: Mapping[uuid.UUID, Use],
        total: Use,
        weights: Mapping[uuid.UUID, int] | None = None,
    ) -> None:
        self._waiting = waiting
        self._held = dict(held)
        self._total, self._weights = total, weights or {}

    def placed(self, one: Waiting) -> None:
        self._held[one.tenant] = self._held.get(one.tenant, Use()).plus(one.kind)

    def __iter__(self) -> Iterator[int]:
        """Yield indices into ``waiting``."""
        steps: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for index, one in enumerate(self._waiting):
            age = min(one.waited_s // AGE_STEP, OLDEST)
            age = OLDEST + 1 if one.is_replacement else age
            steps[class_of(one), -age].append(index)
        for step in sorted(steps):
            yield from self._in_turns(steps[step])

    def _in_turns(self, indices: Sequence[int]) -> Iterator[int]:
        """Yield indices of one step: of the tenant with the least share, his oldest first."""
        queues: defaultdict[uuid.UUID, list[int]] = defaultdict(list)
        for index in reversed(indices):
            queues[self._waiting[index].tenant].append(index)
        heap = [(self._share(tenant), queue[-1], tenant) for tenant, queue in queues.items()]
        heapq.heapify(heap)
        while heap:
            _, index, tenant = heapq.heappop(heap)
            queues[tenant].pop()
            yield index
            if queues[tenant]:
                heapq.heappush(heap, (self._share(tenant), queues[tenant][-1], tenant))

    def _share(self, tenant: uuid.UUID) -> int:
        held = self._held.get(tenant, Use())
        return held.share_of(self._total, self._weights.get(tenant, 1_000))
