"""How many requests of one kind each node could hold together. Pure, and exact."""

from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.core.cells import ALL_CELLS, HOLES, TILES
from scheduler.core.fits import FITS, Sieve
from scheduler.core.inventory import Bools, Ints, Inventory
from scheduler.core.kinds import Kind
from scheduler.core.mig import MASKS
from scheduler.core.shapes import CELLS

PLENTY: Final = 1 << 20  # of what is not asked for
MOST_PARTS: Final = 10  # of one card


def _packs(starts: npt.NDArray[np.int8]) -> Ints:
    """Return how often a share of each width finds a place on a card with these cells taken."""
    found = np.zeros((CELLS + 1, ALL_CELLS + 1), dtype=np.int64)
    for width in range(1, CELLS + 1):
        taken = np.arange(ALL_CELLS + 1)
        for _ in range(MOST_PARTS):
            start = starts[width][taken].astype(np.int64)
            fits = start >= 0
            found[width] += fits
            taken = np.where(fits, taken | ((1 << width) - 1) << np.maximum(start, 0), taken)
    return found


PACKS: Final = {"share_tenant": _packs(HOLES), "share_shared": _packs(TILES)}


def slots_of(kind: Kind, room: Inventory) -> Ints:
    """Return for each node how many of this kind fit on it, one after another; 0 for none."""
    rows = np.arange(len(room.nodes))
    reason, cards = Sieve(kind, room).look(rows)
    slots = np.full(len(rows), PLENTY, dtype=np.int64)
    for have, need in (
        (room.cpu, kind.cpu_milli),
        (room.ram, kind.ram_mib),
        (room.disk, kind.disk_mib),
    ):
        if need:
            slots = np.minimum(slots, have // need)
    if kind.count:
        slots = np.minimum(slots, _by_cards(kind, room, rows, cards))
    return np.where(reason == FITS, slots, 0)


def _by_cards(kind: Kind, room: Inventory, rows: Ints, cards: Bools) -> Ints:
    if kind.mode == "mig":
        return _by_mig(kind, room, rows, cards)
    if not kind.is_share:
        return _by_sets(kind, room, cards)
    if kind.width:
        parts = PACKS[kind.mode][kind.width][room.taken]
    else:
        parts = room.free // max(kind.milli, 1)
    if kind.vram_mib:
        parts = np.minimum(parts, room.vram // kind.vram_mib)
    found: Ints = (parts * cards).sum(axis=1)
    return found


def _by_sets(kind: Kind, room: Inventory, cards: Bools) -> Ints:
    """The cards of one set are of one model."""
    found = np.zeros(len(cards), dtype=np.int64)
    for code in range(len(room.models)):
        found += (cards & (room.model == code)).sum(axis=1) // kind.count
    return found


def _by_mig(kind: Kind, room: Inventory, rows: Ints, cards: Bools) -> Ints:
    """Cut each card again and again, as placement would."""
    choices = room.choices(kind)
    table, taken = room.table[rows], room.taken[rows] % MASKS
    media, vram = room.has_media[rows].copy(), room.vram[rows].copy()
    found = np.zeros_like(taken)
    open_ = cards.copy()
    for _ in range(MOST_PARTS):
        at = table, taken + media * MASKS
        start, need = choices.start[at].astype(np.int64), choices.vram_mib[at]
        open_ &= (start >= 0) & (vram >= need)
        mask = ((1 << choices.size[at].astype(np.int64)) - 1) << np.maximum(start, 0)
        taken = np.where(open_, taken | mask, taken)
        media = np.where(open_ & kind.is_media, 1, media)
        vram = np.where(open_, vram - need, vram)
        found += open_
    total: Ints = found.sum(axis=1)
    return total
