"""The place of each request in its region's queue, in the order in which a pass serves. Pure."""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler.core.groups import Groups
from scheduler.core.heads import Heads
from scheduler.core.inventory import Inventory
from scheduler.core.placement import Ask, Rules
from scheduler.core.queue import Line


def positions_of(asks: Sequence[Ask], rules: Rules) -> dict[uuid.UUID, int]:
    """
    Return which place each has in the queue of its region, from 1: as a pass would serve them if
    all before it got what they want. Members of a gang are served at once and share a place; who
    comes behind counts them all.

    ``asks``: as for ``plan``, first come first. Shares are those of the whole fleet, so what is
    placed in one region may turn the order of tenants in another.
    """
    groups, before, positions = Groups(asks), Counter[str](), dict[uuid.UUID, int]()
    for ask in _served(asks, rules, groups):
        members = groups.of(ask)
        position = before[ask.region] + 1
        for member in members:
            positions[member.id] = position
        before[ask.region] += len(members)
    return positions


def _served(asks: Sequence[Ask], rules: Rules, groups: Groups) -> Iterator[Ask]:
    """Yield one of each gang and all others, as ``plan`` asks them when all are placed."""
    done: set[uuid.UUID] = set()

    def serve(ask: Ask) -> Iterator[Ask]:
        done.update(member.id for member in groups.of(ask))
        yield ask

    def in_line(waiting: Sequence[Ask]) -> Iterator[Ask]:
        line = Line(waiting, held=rules.held, total=rules.total, weights=rules.weights)
        for index in line:
            ask = waiting[index]
            if ask.id not in done:
                yield from serve(ask)
                for member in groups.of(ask):
                    line.placed(member)

    yield from in_line([ask for ask in asks if ask.is_failover])
    yield from in_line([ask for ask in asks if ask.is_promised and ask.id not in done])
    heads = Heads(Inventory([]), groups, rules.ends)
    for head in heads.of([ask for ask in asks if ask.id not in done]):
        yield from serve(head)
    yield from in_line([ask for ask in asks if ask.id not in done])
