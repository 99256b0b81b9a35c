"""How nodes are rated for a request. One interface, a file a policy; chosen by name."""

from typing import Protocol

from scheduler.core.inventory import Bools, Ints
from scheduler.core.kinds import Kind
from scheduler.core.sets import Sets


class Policy(Protocol):
    """
    Rates nodes that fit for a kind of request: whole numbers between -2^40 and 2^40, higher is
    better; equal nodes are taken in the order of the inventory. Equal inputs, equal ratings.
    """

    def rate_bare(self, kind: Kind, rows: Ints) -> Ints:
        """Rate nodes for work without GPU."""

    def rate_whole(self, kind: Kind, rows: Ints, sets: Sets) -> Ints:
        """Rate nodes, each for the set of whole cards that would be taken."""

    def rate_share(self, kind: Kind, rows: Ints, cards: Bools) -> Ints:
        """Rate every card for a share, nodes by columns; what ``cards`` excludes is not read."""

    def note(self, kind: Kind, rows: Ints, columns: Ints) -> None:
        """Hear which card (of a set: the first) each node would give, after it was rated."""

    def prices(self, kind: Kind) -> Ints | None:
        """Return what is taken off every node's rating as the whole fleet stands, or None."""


class Plain:
    """A policy without prices and without a word on what it does not rate."""

    def rate_bare(self, kind: Kind, rows: Ints) -> Ints:
        return rows * 0

    def rate_whole(self, kind: Kind, rows: Ints, sets: Sets) -> Ints:
        return rows * 0

    def rate_share(self, kind: Kind, rows: Ints, cards: Bools) -> Ints:
        return cards * 0

    def note(self, kind: Kind, rows: Ints, columns: Ints) -> None:
        pass

    def prices(self, kind: Kind) -> Ints | None:
        return None
