"""What ties requests together: the members of a gang, and where they may lie. Pure."""

import uuid
from dataclasses import dataclass
from typing import Literal, TypeAlias

Together: TypeAlias = Literal["", "rack", "zone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bond:
    """
    The rules of one member, equal for all members of its group.

    ``size``: members that wait and are placed at once, or not at all. ``placed``: how many of the
    group have a place already; then these replace members that were lost. ``together``: all lie in
    one rack or zone. ``spread_skew``: the zones with most and fewest members differ by so many at
    the most. ``apart``: no two of this tenant with this label lie on one node.

    ``mates``: the nodes of those that have a place. ``avoided``: where the label lies already.
    """

    group: uuid.UUID
    size: int = 1
    placed: int = 0
    together: Together = ""
    spread_skew: int | None = None
    apart: str = ""
    one_per_node: bool = False
    mates: tuple[uuid.UUID, ...] = ()
    avoided: frozenset[uuid.UUID] = frozenset()

    @property
    def is_replacement(self) -> bool:
        return self.placed > 0

    @property
    def is_alone_on_a_node(self) -> bool:
        return self.one_per_node or bool(self.apart)

    @property
    def terms(self) -> tuple[object, ...] | None:
        """What two gangs that are equal to the scheduler have in common; None if nobody is."""
        if self.mates or self.apart:
            return None
        return self.together, self.spread_skew, self.one_per_node
