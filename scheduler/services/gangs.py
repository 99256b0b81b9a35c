"""Reading what ties requests together: gangs, labels, and when things end. Reads only."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from scheduler.core.bonds import Bond
from scheduler.core.cells import bits_of
from scheduler.core.placement import Ask
from scheduler.core.queue import HOLD_AFTER, HOLD_FOR
from scheduler.core.shadow import End
from scheduler.errors import UnknownAllocation
from scheduler.models import Allocation, Request, Slice, Want

BOND_COLUMNS: Final = (
    "group_id",
    "group_size",
    "group_placed",
    "together",
    "spread_skew",
    "apart_label",
    "one_per_node",
)


def bond_of(row: Any) -> Bond | None:
    """Return what ties a row with ``BOND_COLUMNS`` to others, None if nothing does."""
    if row.group_size == 1 and not row.group_placed and not row.apart_label:
        return None
    return _bond(row)


def _bond(row: Any) -> Bond:
    return Bond(
        group=row.group_id,
        size=row.group_size,
        placed=row.group_placed,
        together=row.together,  # a CHECK keeps it to Together
        spread_skew=row.spread_skew,
        apart=row.apart_label,
        one_per_node=row.one_per_node,
    )


def with_neighbours(asks: Sequence[Ask]) -> list[Ask]:
    """
    Return the asks with the nodes on which the rest of their gangs and their labels lie: a query
    if some gang runs in part, another if some ask has a label.
    """
    bonds = [ask.bond for ask in asks if ask.bond is not None]
    mates = _nodes_of_groups({bond.group for bond in bonds if bond.is_replacement})
    avoided = _nodes_of_labels(
        {(ask.tenant, ask.bond.apart) for ask in asks if ask.bond and ask.bond.apart}
    )
    if not mates and not avoided:
        return list(asks)
    return [
        ask
        if ask.bond is None
        else replace(
            ask,
            bond=replace(
                ask.bond,
                mates=tuple(sorted(mates.get(ask.bond.group, ()))),
                avoided=frozenset(avoided.get((ask.tenant, ask.bond.apart), ())),
            ),
        )
        for ask in asks
    ]


def _nodes_of_groups(groups: Collection[uuid.UUID]) -> Mapping[uuid.UUID, list[uuid.UUID]]:
    nodes: defaultdict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
    if groups:
        living = Allocation.objects.residing().exclude(want=Want.GONE)
        rows = living.filter(request__group_id__in=groups)
        for group, node in rows.values_list("request__group_id", "node_id"):
            nodes[group].append(node)
    return nodes


def _nodes_of_labels(
    labels: Collection[tuple[uuid.UUID, str]],
) -> Mapping[tuple[uuid.UUID, str], set[uuid.UUID]]:
    """Return where each tenant's label lies; what is not released yet lies there still."""
    nodes: defaultdict[tuple[uuid.UUID, str], set[uuid.UUID]] = defaultdict(set)
    if labels:
        rows = Allocation.objects.held().filter(
            tenant_id__in={tenant for tenant, _ in labels},
            apart_label__in={label for _, label in labels},
        )
        rows = rows.exclude(apart_label="")  # said again for the index
        for tenant, label, node in rows.values_list("tenant_id", "apart_label", "node_id"):
            nodes[tenant, label].add(node)
    return nodes


def load_ends(asks: Sequence[Ask], *, now: datetime) -> tuple[End, ...]:
    """
    Return what is known to end, and when; nothing, and no query, while no gang has waited long.
    What should have ended a quarter of an hour ago is not known to end any more.
    """
    if not any(ask.bond is not None and ask.waited_s >= HOLD_AFTER for ask in asks):
        return ()
    parts: defaultdict[uuid.UUID, list[Any]] = defaultdict(list)
    slices = Slice.objects.filter(released_at=None, allocation__ends_at__isnull=False)
    for row in slices.values_list(
        "allocation_id", "gpu_id", "mode", "cells", "vram_mib", named=True
    ):
        parts[row.allocation_id].append(row)
    latest = now - timedelta(seconds=HOLD_FOR)
    held = Allocation.objects.residing().filter(ends_at__gt=latest)
    rows = held.order_by("ends_at", "id").values_list(
        "id", "ends_at", "node_id", "cpu_milli", "ram_mib", named=True
    )
    return tuple(
        End(
            at_s=max(0, int((row.ends_at - now).total_seconds())),
            node=row.node_id,
            mode=parts[row.id][0].mode,
            cpu_milli=row.cpu_milli,
            ram_mib=row.ram_mib,
            parts=tuple((one.gpu_id, bits_of(one.cells), one.vram_mib) for one in parts[row.id]),
        )
        for row in rows
        if parts[row.id] and row.ends_at is not None
    )


def gang_of(allocation_id: uuid.UUID) -> list[uuid.UUID]:
    """
    Return the allocations of all members of a gang that live, itself among them: whoever ends one
    of them ends the work of all. Of what is in no gang, itself alone; nothing if it is going.
    """
    living = Allocation.objects.residing().exclude(want=Want.GONE)
    own = Allocation.objects.filter(id=allocation_id).values("request__group_id")
    rows = living.filter(Q(id=allocation_id) | Q(request__group_id__in=own))
    return list(rows.order_by("id").values_list("id", flat=True))


def bond_of_replacement(*, allocation_id: uuid.UUID, lost: int = 1) -> Bond:
    """
    Return the bond with which the ``lost`` members of a gang that are asked for anew wait: they
    keep its rules, and go before fresh requests while others of it run.

    :raises UnknownAllocation: if there is none
    """
    members = Request.objects.filter(allocations=allocation_id)
    if (row := members.values_list(*BOND_COLUMNS, named=True).first()) is None:
        raise UnknownAllocation(allocation_id)
    living = Allocation.objects.residing().exclude(want=Want.GONE)
    placed = living.filter(request__group_id=row.group_id).exclude(id=allocation_id).count()
    return replace(_bond(row), size=lost, placed=placed)
