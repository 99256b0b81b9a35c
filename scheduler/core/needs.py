"""What several kinds ask for, as arrays. Pure."""

from collections.abc import Sequence

import numpy as np

from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import Kind


class Needs:
    """
    One row a kind: ``count`` cards, ``milli`` of each (0 without cards), ``cpu``, ``ram``.
    ``accepts``: kinds by the inventory's models; the last column is for a place without a card,
    whose model is -1. ``table``: the four numbers side by side.
    """

    def __init__(self, kinds: Sequence[Kind], room: Inventory) -> None:
        self.table: Ints = np.array(
            [
                (kind.count, kind.milli if kind.count else 0, kind.cpu_milli, kind.ram_mib)
                for kind in kinds
            ],
            dtype=np.int64,
        ).reshape(len(kinds), 4)
        self.accepts: Bools = np.zeros((len(kinds), len(room.models) + 1), dtype=np.bool_)
        for row, kind in enumerate(kinds):
            for code, model in enumerate(room.models):
                self.accepts[row, code] = not kind.models or model in kind.models
        self.count, self.milli, self.cpu, self.ram = self.table.T
