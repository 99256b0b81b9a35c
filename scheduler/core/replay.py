"""What would have been: arrivals replayed against one fleet under one policy. Pure."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from scheduler.core.board import Board
from scheduler.core.kinds import Kind


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that comes at ``at`` and would leave at ``until``, if it is placed at once."""

    at: float
    until: float
    kind: Kind


@dataclass(slots=True)
class Outcome:
    """
    Percentages: ``allocated`` of the cards over the window; ``refused`` of the GPU time that was
    asked for in it, and of that of jobs of several cards (``refused_large``).
    """

    allocated: float
    refused: float
    refused_large: float
    visits: int


def replay(board: Board, visits: Iterable[Visit], *, begin: float, end: float) -> Outcome:
    """
    Place visits in their order, each at once or never. Nothing waits: who fits less is refused
    more. Measures [begin, end); what comes earlier fills the fleet. Writes into the inventory.

    :param visits: sorted by ``at``
    """
    room = board.room
    capacity = int(room.free.sum())
    leaving: list[tuple[float, int, tuple[Kind, int, Any]]] = []
    order = count()
    given, area, last = 0, 0.0, begin
    asked, refused = {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}
    seen = 0

    def move_to(now: float) -> None:
        nonlocal area, last
        now = min(max(now, begin), end)
        area, last = area + given * (now - last), now

    for visit in visits:
        while leaving and leaving[0][0] <= visit.at:
            at, _, held = heapq.heappop(leaving)
            move_to(at)
            room.give_back(*held)
            given -= held[0].total_milli
        move_to(visit.at)
        is_counted, is_large = begin <= visit.at < end, visit.kind.count > 1
        size = visit.kind.total_milli * (visit.until - visit.at) if is_counted else 0.0
        asked[is_large] += size
        seen += is_counted
        if (chosen := board.choose(visit.kind)) is None:
            refused[is_large] += size
            continue
        given += visit.kind.total_milli
        held = visit.kind, chosen[0], room.take(visit.kind, *chosen)
        heapq.heappush(leaving, (visit.until, next(order), held))
    while leaving and leaving[0][0] <= end:
        at, _, held = heapq.heappop(leaving)
        move_to(at)
        given -= held[0].total_milli
    move_to(end)
    return Outcome(
        allocated=_percent(area, capacity * (end - begin)),
        refused=_percent(sum(refused.values()), sum(asked.values())),
        refused_large=_percent(refused[True], asked[True]),
        visits=seen,
    )


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
