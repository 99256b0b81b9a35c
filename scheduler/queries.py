"""What other rooms read of the scheduler. Reads only."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final, Literal, TypeAlias

from django.conf import settings
from django.db.models import Count

from rental.records.ids import new_id
from scheduler.core.inventory import Inventory
from scheduler.core.placement import Ask, Place, count_places, plan, reserved_rows
from scheduler.core.shapes import Shape
from scheduler.core.turns import positions_of
from scheduler.models import Request
from scheduler.services.gangs import load_ends
from scheduler.services.inventory import (
    MOST,
    SHAPE_COLUMNS,
    load_capacity,
    load_inventory,
    load_waiting,
    shape_of,
)
from scheduler.services.rules import load_reserves, load_turns

__all__ = ["MOST_COUNTED", "Room", "Stock", "queue_places", "read_room", "stock_of"]

# Counting stops here: nobody chooses differently between 11 and 50, and each one costs a decision.
MOST_COUNTED: Final = 10
FEW: Final = 2
NEWCOMERS: Final = timedelta(seconds=1)
NOBODY: Final = uuid.UUID(int=0)  # whoever looks at the price page has no card of his own

StockWord: TypeAlias = Literal["ok", "low", "none", "absent"]
Wanted: TypeAlias = tuple[Shape, str]  # and a region


@dataclass(frozen=True, kw_only=True, slots=True)
class Stock:
    """
    ``available``: how many could be placed now, ``MOST_COUNTED`` at most. ``waiting``: requests
    for the same that wait. ``exists``: some node could hold one if nothing were sold.
    """

    available: int
    waiting: int
    exists: bool

    @property
    def word(self) -> StockWord:
        """``none``: all are taken, a request waits. ``absent``: no card here could ever hold it."""
        if not self.exists:
            return "absent"
        if self.available == 0:
            return "none"
        return "low" if self.available <= FEW else "ok"

    @property
    def is_at_least(self) -> bool:
        """True if there may be more than ``available``."""
        return self.available >= MOST_COUNTED


@dataclass(slots=True)
class _Seen:
    """What was read at ``at``, and what was counted in it since."""

    at: datetime
    free: Inventory
    empty: Inventory
    waiting: Mapping[Wanted, int]
    counts: dict[tuple[Wanted, uuid.UUID], Stock] = field(default_factory=dict)

    def stock(self, wanted: Wanted, tenant_id: uuid.UUID) -> Stock:
        shape, _region = wanted
        # A card of one tenant is open to that tenant alone; everything else is blind to tenants.
        key = (wanted, tenant_id if shape.mode == "share_tenant" else NOBODY)
        if key not in self.counts:
            self.counts[key] = self._count(wanted, key[1])
        return self.counts[key]

    def _count(self, wanted: Wanted, tenant_id: uuid.UUID) -> Stock:
        shape, region = wanted
        ask = Ask(id=NOBODY, tenant=tenant_id, shape=shape, region=region, disk_mib=shape.disk_mib)
        available = count_places(ask, self.free, most=MOST_COUNTED)
        return Stock(
            available=available,
            waiting=self.waiting.get(wanted, 0),
            exists=available > 0 or count_places(ask, self.empty, most=1) > 0,
        )


_seen: _Seen | None = None
_reading = Lock()  # of several threads one reads (150 ms for 320 cards) and the others wait for it


def stock_of(
    wanted: Sequence[Wanted], *, tenant_id: uuid.UUID | None = None, now: datetime
) -> list[Stock]:
    """
    Return for each (shape, region) how many could be placed now and how many requests wait.

    ``tenant_id``: whose cards count as open to shares of one tenant; None for nobody's. Five
    queries whatever the fleet, or none: each process keeps what it read for
    ``SCHEDULER_STOCK_KEPT``. Only a hint: placement decides on its own reading.
    """
    with _reading:
        seen = _look(now=now)
        return [seen.stock(one, tenant_id or NOBODY) for one in wanted]


def _look(*, now: datetime) -> _Seen:
    global _seen
    if _seen is None or abs(now - _seen.at) >= settings.SCHEDULER_STOCK_KEPT:
        free, empty = load_capacity()
        for row in reserved_rows(free, load_reserves()):
            free.hold(row)
        _seen = _Seen(at=now, free=free, empty=empty, waiting=_count_waiting(now=now))
    return _seen


def _count_waiting(*, now: datetime) -> dict[Wanted, int]:
    """Return how many requests wait for each shape in each region."""
    rows = (
        Request.objects.waiting()
        .filter(expires_at__gt=now)
        .order_by()
        .values("region_id", *SHAPE_COLUMNS)
        .annotate(requests=Count("id"))
        .values_list("region_id", *SHAPE_COLUMNS, "requests", named=True)
    )
    return {(shape_of(row), row.region_id): row.requests for row in rows}


@dataclass(frozen=True, slots=True)
class _Queue:
    """The place of each request in its region's queue, as read at ``at``."""

    at: datetime
    places: Mapping[uuid.UUID, int]


_queue: _Queue | None = None
_counting = Lock()


def queue_places(request_ids: Sequence[uuid.UUID], *, now: datetime) -> dict[uuid.UUID, int]:
    """
    Return which place each waiting request has in its region's queue, from 1: in the order in
    which a pass serves, so by class, age and share. What does not fit holds up nobody behind it: a
    place tells how many go before, not how long it takes. Who is not in the queue is left out, and
    so is who comes after the MOST that a pass looks at.

    The whole queue is read, in a fixed number of queries, and each process keeps it for
    ``SCHEDULER_STOCK_KEPT``, or a second where somebody is asked for who is not in it.
    """
    global _queue
    if not request_ids:
        return {}
    with _counting:
        if _queue is None or not _is_fresh(_queue, request_ids, now):
            asks = [one.ask for one in load_waiting(now=now).values()]
            rules = replace(load_turns(), ends=load_ends(asks, now=now))
            _queue = _Queue(now, positions_of(asks, rules))
        places = _queue.places
    return {one: places[one] for one in request_ids if one in places}


def _is_fresh(queue: _Queue, request_ids: Sequence[uuid.UUID], now: datetime) -> bool:
    kept = settings.SCHEDULER_STOCK_KEPT
    is_whole = len(queue.places) < MOST
    if is_whole and not all(one in queue.places for one in request_ids):
        kept = min(kept, NEWCOMERS)
    return abs(now - queue.at) < kept


class Room:
    """
    What is free now, for who asks whether he would find a place before he gives his up. Those who
    have given theirs up already are served first. A hint: others may be quicker.
    """

    def __init__(self, free: Inventory, before: Sequence[Ask]) -> None:
        self._asks = list(before)
        self._free = free
        self._refused: set[tuple[Wanted, uuid.UUID]] = set()

    def take(self, shape: Shape, *, region: str, tenant_id: uuid.UUID) -> bool:
        """Return whether one more finds a place, and keep that place for it."""
        wanted = (shape, region), tenant_id
        if wanted in self._refused:
            return False  # room only shrinks
        ask = Ask(
            id=new_id(),
            tenant=tenant_id,
            shape=shape,
            region=region,
            disk_mib=shape.disk_mib,
            is_failover=True,
        )
        room = Inventory(self._free.nodes)
        decision = plan([*self._asks, ask], room)[-1]
        if not isinstance(decision, Place):
            self._refused.add(wanted)
            return False
        self._asks.append(ask)
        return True


def read_room(*, now: datetime) -> Room:
    """Read what is free and who goes first anyway; two queries, whatever the fleet."""
    waiting = [one.ask for one in load_waiting(now=now).values() if one.ask.is_failover]
    free = [replace(ask, is_releasing=False) for ask in waiting]
    return Room(load_inventory(), free)
