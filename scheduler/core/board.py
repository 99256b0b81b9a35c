"""
Decisions: for every kind what each node is worth, looked at again only where a node has moved.
Pure. Cost of a decision: O(nodes) comparisons and a rating of the nodes that changed since.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.core.fits import FITS, Sieve
from scheduler.core.inventory import IDLE, Bools, Ints, Inventory
from scheduler.core.kinds import Kind
from scheduler.core.policies import Policy
from scheduler.core.sets import best_sets, columns_of

REFUSED: Final = -(1 << 62)
# A set inside one NVLink group goes before any other, then the card with the least memory; only
# among those the policy chooses. Its ratings have 41 bits, memory in MiB has 20.
TIER: Final = 1 << 41
LINKED: Final = 1 << 20
MOST_MEMORY: Final = LINKED - 1
FREE_BITS: Final = 1 << 20  # room for the free thousandths of a node


@dataclass(slots=True)
class Sheet:
    """What each node is worth to one kind: ``score``, and which card it would give (``column``)."""

    sieve: Sieve
    score: Ints
    column: Ints
    seen: int = 0  # entries of the inventory's log of changes
    is_new: bool = field(default=True)


class Board:
    """Sheets of one inventory under one policy. Whoever writes the inventory uses its ``take``."""

    def __init__(self, room: Inventory, policy: Policy) -> None:
        self.room, self.policy = room, policy
        self._sheets: dict[Kind, Sheet] = {}

    def choose(self, kind: Kind) -> tuple[int, list[int]] | None:
        """Return the row and the columns that a request of this kind should get, None for none."""
        sheet = self._sheet(kind)
        if not sheet.score.size:
            return None
        prices = self.policy.prices(kind)
        worth = sheet.score if prices is None else sheet.score - prices
        row = int(worth.argmax())
        if sheet.score[row] == REFUSED:
            return None
        return row, self._columns(kind, sheet, row)

    def choose_among(self, kind: Kind, rows: Bools) -> tuple[int, list[int]] | None:
        """Choose as ``choose`` does, of these nodes alone. ``rows``: of all nodes."""
        sheet = self._sheet(kind)
        prices = self.policy.prices(kind)
        worth = sheet.score if prices is None else sheet.score - prices
        fitting = np.flatnonzero(rows & (sheet.score != REFUSED))
        if not fitting.size:
            return None
        row = int(fitting[worth[fitting].argmax()])
        return row, self._columns(kind, sheet, row)

    def emptiest(self, kind: Kind) -> int | None:
        """
        Return the node that has most of what a request of this kind needs, of those that nothing
        but time keeps from it: idle cards of its models, then free thousandths. None for none.
        """
        sieve = Sieve(kind, self.room)
        rows = np.flatnonzero((sieve.fixed == FITS) & (sieve.cards.sum(axis=1) >= kind.count))
        if not rows.size:
            return None
        cards = sieve.cards[rows]
        idle = (cards & (self.room.mode[rows] == IDLE)).sum(axis=1)
        free = (cards * self.room.free[rows]).sum(axis=1)
        return int(rows[(idle * FREE_BITS + free).argmax()])

    def count_reasons(self, kind: Kind) -> dict[str, int]:
        """Return how many nodes each dimension refuses to this kind now."""
        return self._sheet(kind).sieve.count_reasons()

    def _columns(self, kind: Kind, sheet: Sheet, row: int) -> list[int]:
        if not kind.count:
            return []
        if kind.is_share or kind.count == 1:
            return [int(sheet.column[row])]
        _, cards = sheet.sieve.look(np.array([row]))
        return columns_of(self.room, row, cards[0], kind.count)

    def _sheet(self, kind: Kind) -> Sheet:
        if (sheet := self._sheets.get(kind)) is None:
            nodes = len(self.room.nodes)
            sheet = self._sheets[kind] = Sheet(
                sieve=Sieve(kind, self.room),
                score=np.full(nodes, REFUSED, dtype=np.int64),
                column=np.zeros(nodes, dtype=np.int64),
            )
        if sheet.is_new:
            self._rate(kind, sheet, np.arange(len(self.room.nodes)))
        elif sheet.seen < len(self.room.changed):
            self._rate(kind, sheet, _distinct(self.room.changed[sheet.seen :]))
        sheet.is_new, sheet.seen = False, len(self.room.changed)
        return sheet

    def _rate(self, kind: Kind, sheet: Sheet, rows: Ints) -> None:
        reason, cards = sheet.sieve.look(rows)
        sheet.score[rows] = REFUSED
        fitting = reason == FITS
        rows, cards = rows[fitting], cards[fitting]
        if not rows.size:
            return
        if not kind.count:
            sheet.score[rows] = self.policy.rate_bare(kind, rows)
        elif kind.mode == "mig":
            sheet.score[rows], sheet.column[rows] = self._rate_mig(kind, rows, cards)
            return  # the same under every policy, which hears nothing of it and asks no price
        elif kind.is_share:
            sheet.score[rows], sheet.column[rows] = self._rate_share(kind, rows, cards)
        else:
            sheet.score[rows], sheet.column[rows] = self._rate_whole(kind, rows, cards)
        self.policy.note(kind, rows, sheet.column[rows])

    def _rate_whole(self, kind: Kind, rows: Ints, cards: Bools) -> tuple[Ints, Ints]:
        sets = best_sets(self.room, rows, cards, kind.count)
        tier = sets.is_linked * LINKED + (MOST_MEMORY - self.room.memory[rows, sets.first])
        return tier * TIER + self.policy.rate_whole(kind, rows, sets), sets.first

    def _rate_share(self, kind: Kind, rows: Ints, cards: Bools) -> tuple[Ints, Ints]:
        tier = MOST_MEMORY - self.room.memory[rows]
        score = tier * TIER + self.policy.rate_share(kind, rows, cards)
        score = np.where(cards, score, REFUSED)
        best = score.max(axis=1)
        tied = score == best[:, None]
        columns = np.where(tied, fullness(self.room, rows), np.iinfo(np.int64).max).argmin(axis=1)
        return best, columns

    def _rate_mig(self, kind: Kind, rows: Ints, cards: Bools) -> tuple[Ints, Ints]:
        """The part with the least memory, on a card that is cut before an idle one; see mig.py."""
        room, choices = self.room, self.room.choices(kind)
        at = room.states(rows)
        cost = (room.mode[rows] == IDLE) << 36
        cost += (choices.cost[at] << 26) + idle_in_group(room, rows)
        score = (MOST_MEMORY - choices.vram_mib[at]) * TIER - cost
        score = np.where(cards, score, REFUSED)
        return score.max(axis=1), score.argmax(axis=1)


def fullness(room: Inventory, rows: Ints) -> Ints:
    """
    Return how little a share should like each card, nodes by columns: already cut rather than
    idle, the fullest, with the least memory left, with the most broken NVLink group.
    """
    is_idle = room.mode[rows] == IDLE
    key: Ints = (is_idle << 36) + (room.free[rows] << 26) + (room.vram[rows] << 5)
    return key + idle_in_group(room, rows)


def idle_in_group(room: Inventory, rows: Ints) -> Ints:
    """Return how many idle cards the NVLink group of each card has, nodes by columns."""
    is_idle, link = room.mode[rows] == IDLE, room.link[rows]
    count: Ints = ((link[:, None, :] == link[:, :, None]) & is_idle[:, None, :]).sum(axis=2)
    return count


def _distinct(rows: Sequence[int]) -> Ints:
    return np.array(sorted(set(rows)), dtype=np.int64)
