"""The requests that are expected: how often each kind comes. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.core.kinds import WHOLE, Kind


@dataclass(frozen=True, slots=True)
class Forecast:
    """
    Kinds and their weights (any positive whole numbers), the most frequent first.

    Only the mix counts, not the amount: it says what an idle card will be asked for next.
    """

    kinds: tuple[Kind, ...]
    weights: tuple[int, ...]

    @classmethod
    def of(cls, counts: Mapping[Kind, int]) -> "Forecast":
        """Return the forecast of these counts, in an order that depends on nothing else."""
        ranked = sorted(counts, key=lambda kind: (-counts[kind], _rank(kind)))
        return cls(tuple(ranked), tuple(counts[kind] for kind in ranked))

    def typical(self, percent: int) -> "Forecast":
        """Return the most frequent kinds that make up this many of a hundred requests."""
        kinds, weights, left = [], [], sum(self.weights) * percent
        for kind, weight in zip(self.kinds, self.weights, strict=True):
            if left <= 0:
                break
            kinds.append(kind)
            weights.append(weight)
            left -= 100 * weight
        return Forecast(tuple(kinds), tuple(weights))

    @property
    def total_milli(self) -> int:
        """Thousandths of cards that one heap of ``sum(weights)`` requests asks for."""
        return sum(w * kind.total_milli for kind, w in self.pairs)

    @property
    def pairs(self) -> Iterable[tuple[Kind, int]]:
        return zip(self.kinds, self.weights, strict=True)

    def sets_of_models(self) -> list[frozenset[tuple[str, int]]]:
        """Return every set of models to which some kind is tied, in a fixed order."""
        return sorted({frozenset(kind.models) for kind in self.kinds if kind.models}, key=sorted)

    def large(self) -> list[Kind]:
        """Return the kinds of several whole cards, the largest first."""
        large = [kind for kind in self.kinds if kind.count > 1 and kind.milli == WHOLE]
        return sorted(large, key=lambda kind: (-kind.count, _rank(kind)))


def _rank(kind: Kind) -> tuple[object, ...]:
    return (
        kind.mode,
        kind.count,
        kind.milli,
        kind.cpu_milli,
        kind.ram_mib,
        sorted(kind.models),
        kind.vram_mib,
        kind.disk_mib,
        kind.width,
        str(kind.region),
        str(kind.zone),
        str(kind.node),
        str(kind.tenant),
    )
