"""Which whole cards of a node go together: inside one NVLink group if one can. Pure."""

from dataclasses import dataclass

import numpy as np

from scheduler.core.inventory import Bools, Ints, Inventory


@dataclass(frozen=True, slots=True)
class Sets:
    """
    For each node that fits, the card from which its best set is taken.

    ``first``: its column. ``is_linked``: the set lies in one NVLink group. ``spare``: idle cards
    of the group (of the model, where no group can) before; ``idle``: of the model on the node.
    """

    first: Ints
    is_linked: Bools
    spare: Ints
    idle: Ints


def best_sets(room: Inventory, rows: Ints, cards: Bools, count: int) -> Sets:
    """
    Return the best set of ``count`` of these cards on each of these nodes, all of which have one:
    of the least memory, then where the fewest are left over (of the group, then of the model).
    """
    model, link = room.model[rows], room.link[rows]
    same_model = cards[:, None, :] & (model[:, None, :] == model[:, :, None])
    in_model = same_model.sum(axis=2)
    in_group = (same_model & (link[:, None, :] == link[:, :, None])).sum(axis=2)
    in_a_group = cards & (in_group >= count)
    is_linked = in_a_group.any(axis=1)
    eligible = np.where(is_linked[:, None], in_a_group, cards & (in_model >= count))
    spare = np.where(is_linked[:, None], in_group, in_model)
    first = least(eligible, room.memory[rows], spare, in_model)
    at = np.arange(len(rows)), first
    return Sets(first, is_linked, spare[at], in_model[at])


def columns_of(room: Inventory, row: int, cards: Bools, count: int) -> list[int]:
    """Return the columns of one node's best set. ``cards``: of this node alone."""
    sets = best_sets(room, np.array([row]), cards[None, :], count)
    first = int(sets.first[0])
    columns = [
        int(c) for c in np.flatnonzero(cards) if room.model[row, c] == room.model[row, first]
    ]
    group_of = {column: int(room.link[row, column]) for column in columns}
    if sets.is_linked[0]:
        return [c for c in columns if group_of[c] == group_of[first]][:count]
    # No group is large enough: break the smallest ones.
    size = {c: sum(group_of[other] == group_of[c] for other in columns) for c in columns}
    return sorted(sorted(columns, key=lambda column: (size[column], column))[:count])


def least(cards: Bools, *keys: Ints) -> Ints:
    """Return for each node the column with the least keys, the first key first, among its cards."""
    left = cards
    for key in keys:
        lowest = np.where(left, key, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        left = left & (key == lowest)
    columns: Ints = left.argmax(axis=1)
    return columns
