"""What is alike is computed once: equal cards of a node, equal nodes of a fleet. Pure."""

from collections.abc import Callable

import numpy as np

from scheduler.core.inventory import Bools, Ints


def first_alike(cards: Bools, left: Ints, model: Ints) -> Ints:
    """
    Return for each card the first column of its node with as much left and of the same model,
    among ``cards``; meaningless for what ``cards`` excludes.
    """
    same = (left[:, :, None] == left[:, None, :]) & (model[:, :, None] == model[:, None, :])
    first: Ints = (same & cards[:, None, :]).argmax(axis=2)
    return first


def keys_of(cpu: Ints, ram: Ints, left: Ints, model: Ints) -> Ints:
    """
    Return a row of numbers a node that is equal for equal nodes, in whatever order their cards
    are: CPU, memory, then ``left << 8 | model + 1`` of each card, sorted; 0 where nothing is left.
    """
    cards = np.sort(np.where(left > 0, left << 8 | (model + 1), 0), axis=1)
    return np.concatenate((cpu[:, None], ram[:, None], cards), axis=1)


class Known:
    """Values of nodes that were computed before. ``compute`` takes keys and must be pure."""

    def __init__(self, compute: Callable[[Ints], Ints]) -> None:
        self._compute = compute
        self._values: dict[bytes, int] = {}

    def of(self, keys: Ints) -> Ints:
        """Return the value of each row of keys."""
        size = keys.shape[1] * keys.itemsize
        heap = keys.tobytes()
        texts = [heap[at : at + size] for at in range(0, len(heap), size)]
        fresh = {text: at for at, text in enumerate(texts) if text not in self._values}
        if fresh:
            values = self._compute(keys[np.array(list(fresh.values()))])
            self._values.update(zip(fresh, values.tolist(), strict=True))
        return np.array([self._values[text] for text in texts], dtype=np.int64)
