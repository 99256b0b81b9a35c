"""What refuses a kind of request on which node, and which cards could be given. Pure."""

from typing import Final

import numpy as np

from scheduler.core.cells import HOLES, TILES
from scheduler.core.inventory import IDLE, MODE_CODES, Bools, Ints, Inventory
from scheduler.core.kinds import Kind

# Every dimension that can refuse a node, in the order in which one node is asked: it is counted
# under the first that refuses it. Those up to "isolation" do not change within a pass.
DIMENSIONS: Final = (
    "releasing",  # the instance's last allocation is not released yet
    "residence",  # the instance's disks are on another node
    "region",
    "zone",
    "cordoned",
    "silent",
    "cleaning",  # something is still there that was abandoned when the node was lost
    "model",
    "health",
    "mig",  # no card here can be cut so
    "isolation",  # strangers may not share a card here
    "held",  # kept for a large request that has waited long (queue.py)
    "gpu",
    "vram",
    "cpu",
    "ram",
    "disk",
)
FITS: Final = -1


class Sieve:
    """
    One kind against one inventory. ``cards``: the healthy cards of the right models. ``fixed``:
    what refuses each node whatever happens in this pass.

    What cannot change within a pass is looked at once; ``look`` asks the rest.
    """

    def __init__(self, kind: Kind, room: Inventory) -> None:
        self.kind, self._room = kind, room
        self.fixed = np.full(len(room.nodes), FITS, dtype=np.int64)
        self._ask_nodes()
        self.cards: Bools = self._ask_cards()

    def look(self, rows: Ints) -> tuple[Ints, Bools]:
        """
        Return for each of these nodes what refuses it (index into DIMENSIONS, or FITS), and which
        of its cards could be given: nodes by columns, meaningless where the node is refused.
        """
        kind, room = self.kind, self._room
        reason = self.fixed[rows]  # a copy
        _refuse(reason, "held", room.is_held[rows])
        cards: Bools = self.cards[rows]
        if kind.count:
            cards = cards & self._has_cells(rows)
            _refuse(reason, "gpu", self._lacking(cards, rows))
            cards = cards & self._has_memory(rows)
            _refuse(reason, "vram", self._lacking(cards, rows))
        _refuse(reason, "cpu", room.cpu[rows] < kind.cpu_milli)
        _refuse(reason, "ram", room.ram[rows] < kind.ram_mib)
        _refuse(reason, "disk", room.disk[rows] < kind.disk_mib)
        return reason, cards

    def count_reasons(self) -> dict[str, int]:
        """Return how many nodes each dimension refuses now."""
        reason, _ = self.look(np.arange(len(self._room.nodes)))
        counts = np.bincount(reason[reason >= 0], minlength=len(DIMENSIONS))
        return {DIMENSIONS[i]: int(count) for i, count in enumerate(counts) if count}

    def _ask_nodes(self) -> None:
        kind, room = self.kind, self._room
        if kind.node is not None:
            home = np.arange(len(room.nodes)) == room.row_of_node.get(kind.node, -1)
            _refuse(self.fixed, "residence", ~home)
        if kind.region is not None:
            _refuse(self.fixed, "region", room.region != room.regions.find(kind.region))
        if kind.zone is not None:
            _refuse(self.fixed, "zone", room.zone != room.zones.find(kind.zone))
        _refuse(self.fixed, "cordoned", room.is_cordoned)
        _refuse(self.fixed, "silent", ~room.is_live)
        _refuse(self.fixed, "cleaning", room.is_cleaning)

    def _ask_cards(self) -> Bools:
        kind, room = self.kind, self._room
        cards = room.exists
        if not kind.count:
            return cards
        if kind.models:
            cards = cards & np.isin(room.model, [room.models.find(model) for model in kind.models])
        _refuse(self.fixed, "model", cards.sum(axis=1) == 0)
        cards = cards & room.is_healthy
        _refuse(self.fixed, "health", cards.sum(axis=1) == 0)
        if kind.mode == "mig":
            cards = cards & (room.choices(kind).start[room.table, 0] >= 0)
            _refuse(self.fixed, "mig", cards.sum(axis=1) == 0)
        if kind.mode == "share_shared":
            _refuse(self.fixed, "isolation", ~room.allows_strangers)
        return cards

    def _has_cells(self, rows: Ints) -> Bools:
        """Return the cards with the cells, in the mode and beside the tenants that are allowed."""
        kind, room = self.kind, self._room
        mode, free = room.mode[rows], room.free[rows]
        fits: Bools = mode == IDLE
        if kind.mode == "mig":
            fits |= mode == MODE_CODES["mig"]
            fits &= room.choices(kind).start[room.states(rows)] >= 0
        if kind.is_share:
            is_open = mode == MODE_CODES[kind.mode]
            if kind.mode == "share_tenant":
                is_open &= room.tenant[rows] == room.tenants.find(kind.tenant)
            else:
                is_open &= room.tile[rows] == kind.width
                is_open &= (room.tile_vram[rows] == kind.vram_mib) | (kind.width == 0)
            fits = (fits | is_open) & (free >= kind.milli)
            if kind.width:
                table = HOLES if kind.mode == "share_tenant" else TILES
                fits &= table[kind.width][room.taken[rows]] >= 0
        return fits

    def _has_memory(self, rows: Ints) -> Bools:
        kind, room = self.kind, self._room
        need: Ints | int = kind.vram_mib
        if kind.mode == "mig":
            need = room.choices(kind).vram_mib[room.states(rows)]
        # A whole card by its model's nominal memory: what drivers report differs by a few MiB.
        have = room.memory if kind.mode == "whole" else room.vram
        fits: Bools = have[rows] >= need
        return fits

    def _lacking(self, cards: Bools, rows: Ints) -> Bools:
        """Return the nodes without ``count`` of these cards of one model."""
        if not self._room.is_mixed or self.kind.count == 1:
            lacks: Bools = cards.sum(axis=1) < self.kind.count
            return lacks
        model = self._room.model[rows]
        enough = np.zeros(len(rows), dtype=np.bool_)
        for code in range(len(self._room.models)):
            enough |= (cards & (model == code)).sum(axis=1) >= self.kind.count
        return ~enough


def _refuse(reason: Ints, dimension: str, nodes: Bools) -> None:
    reason[(reason == FITS) & nodes] = DIMENSIONS.index(dimension)
