"""
Best fit: the fullest card, the node with the fewest cards left over. Pure.

Keeps empty cards and complete NVLink groups for those who need them. Knows nothing of CPU.
"""

from scheduler.core.board import fullness
from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import Kind
from scheduler.core.policies import Plain
from scheduler.core.sets import Sets

CARDS_BITS = 5  # of a count of cards on one node


class BestFit(Plain):
    def __init__(self, room: Inventory) -> None:
        self._room = room

    def rate_whole(self, kind: Kind, rows: Ints, sets: Sets) -> Ints:
        return -(sets.spare << CARDS_BITS | sets.idle)

    def rate_share(self, kind: Kind, rows: Ints, cards: Bools) -> Ints:
        return -fullness(self._room, rows)
