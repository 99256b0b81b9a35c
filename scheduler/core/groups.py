"""The gangs of one pass: who belongs together, and where labels lie. Pure."""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.core.board import Board
from scheduler.core.fits import Sieve
from scheduler.core.gangs import Seat, seat
from scheduler.core.kinds import Kind

if TYPE_CHECKING:
    from scheduler.core.placement import Ask


class Groups:
    """
    Who waits together with whom. Follows where labels were put in this pass, and remembers what
    was refused: within a pass room only shrinks, so an equal gang fits no better.
    """

    def __init__(self, asks: Sequence["Ask"]) -> None:
        self._members: defaultdict[uuid.UUID, list[Ask]] = defaultdict(list)
        for ask in asks:
            if ask.bond is not None:
                self._members[ask.bond.group].append(ask)
        self._labelled: defaultdict[tuple[uuid.UUID, str], set[uuid.UUID]] = defaultdict(set)
        self._refused: dict[object, dict[str, int]] = {}

    def of(self, ask: "Ask") -> Sequence["Ask"]:
        """Return all members of its gang that wait, itself among them."""
        return [ask] if ask.bond is None else self._members[ask.bond.group]

    def missing(self, ask: "Ask") -> int:
        """Return how many members are not there yet."""
        members = self.of(ask)
        return max((one.bond.size for one in members if one.bond), default=1) - len(members)

    def place(
        self, ask: "Ask", board: Board, *, is_again: bool = False
    ) -> tuple[list[Seat] | None, dict[str, int]]:
        """
        Seat the gang of ``ask``: return a seat a member in the order of ``of``, or why not.
        ``is_again``: look though it was refused, for there is more room.
        """
        members, bond = self.of(ask), ask.bond
        if bond is None:
            raise ValueError("no member of a gang")
        if (missing := self.missing(ask)) > 0:
            return None, {"incomplete": missing}
        if any(member.is_releasing for member in members):
            return None, {"releasing": 1}
        kinds = [member.kind for member in members]
        key = bond.terms and (bond.terms, tuple(sorted(kinds, key=repr)))
        shut = self.shut(ask, board)
        if key is None or key not in self._refused or is_again:
            found = seat(kinds, bond, board, shut=shut)
            if found.seats is not None:
                self._note(ask, [board.room.nodes[row].id for row, _ in found.seats])
                return found.seats, {}
            reasons = why(found.lacking, board, found.best, shut)
            if key is None:
                return None, reasons
            self._refused[key] = reasons
        return None, self._refused[key]

    def shut(self, ask: "Ask", board: Board) -> list[int]:
        """Return the rows of the nodes on which the label of ``ask`` lies already."""
        bond, rows = ask.bond, board.room.row_of_node
        if bond is None or not bond.apart:
            return []
        nodes = bond.avoided | self._labelled[ask.tenant, bond.apart]
        return sorted(rows[node] for node in nodes if node in rows)

    def _note(self, ask: "Ask", nodes: Sequence[uuid.UUID]) -> None:
        if ask.bond and ask.bond.apart:
            self._labelled[ask.tenant, ask.bond.apart].update(nodes)


def why(kind: Kind, board: Board, best: int, shut: Sequence[int]) -> dict[str, int]:
    """Return the nodes per dimension that refuse a member, and how many would have got in."""
    reasons = Sieve(kind, board.room).count_reasons()
    if shut:
        reasons["apart"] = len(shut)
    return reasons | {"gang": best}
