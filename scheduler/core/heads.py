"""
For whom nodes are kept free: one request or gang a region, the head. Pure.

A gang that has waited half an hour is kept nodes from the moment at which it will fit on them
(shadow.py), and until then whoever is over by then may use them. Where nobody knows when anything
ends, nodes are kept for a quarter of an hour at a time, see queue.py.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scheduler.core.board import Board
from scheduler.core.gangs import nodes_to_hold
from scheduler.core.groups import Groups
from scheduler.core.inventory import Inventory
from scheduler.core.queue import HOLD_AFTER, is_hour_to_hold, may_hold
from scheduler.core.shadow import End, Shadow, shadow_of

if TYPE_CHECKING:
    from scheduler.core.placement import Ask


class Heads:
    def __init__(self, room: Inventory, groups: Groups, ends: Sequence[End]) -> None:
        self._room, self._groups, self._ends = room, groups, ends
        self._shadows: dict[str, Shadow] = {}  # by region

    def of(self, asks: Sequence["Ask"]) -> list["Ask"]:
        """Return the oldest in each region that may hold nodes, if it does not fit."""
        heads: dict[str, Ask] = {}
        for ask in asks:
            if ask.region not in heads and not ask.is_releasing and self._may_head(ask):
                heads[ask.region] = ask
        return list(heads.values())

    def _may_head(self, ask: "Ask") -> bool:
        if ask.bond is None:
            return may_hold(ask)
        if ask.market != "on_demand" or self._groups.missing(ask) > 0:
            return False
        return ask.waited_s >= HOLD_AFTER if self._ends else is_hour_to_hold(ask.waited_s)

    def hold_for(self, ask: "Ask", board: Board) -> None:
        """Keep nodes for a head that was refused."""
        if ask.bond is None:
            row = board.emptiest(ask.kind)
            if row is not None:
                self._room.hold(row)
            return
        kinds = [member.kind for member in self._groups.of(ask)]
        shut = self._groups.shut(ask, board)
        shadow = shadow_of(kinds, ask.bond, self._room, self._ends, shut=shut)
        if shadow is not None:
            self._shadows[ask.region] = shadow
            rows: Sequence[int] = shadow.rows
        elif is_hour_to_hold(ask.waited_s):
            rows = nodes_to_hold(kinds, ask.bond, self._room, shut=shut)
        else:
            return
        for row in rows:
            self._room.hold(row)

    def may_pass(self, asks: Sequence["Ask"]) -> bool:
        """Return whether all of these are over before the head of their region can begin."""
        shadow = self._shadows.get(asks[0].region)
        return shadow is not None and all(
            ask.lasts_s is not None and ask.lasts_s <= shadow.at_s for ask in asks
        )

    @contextmanager
    def lifted(self, region: str) -> Iterator[None]:
        """Open the nodes that are kept for the head of a region."""
        rows = self._shadows[region].rows
        for row in rows:
            self._room.lift(row)
        try:
            yield
        finally:
            for row in rows:
                self._room.hold(row)
