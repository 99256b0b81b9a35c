"""
What placements write, for many at once: one statement a table.

Rows are made inside PostgreSQL out of the requests, so specs are not carried back and forth. The
models say which columns there are, and what stands in those that are not given here.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

from django.db import connection, models
from django.db.models import NOT_PROVIDED

from rental.records.ids import new_id
from scheduler.core.placement import Part
from scheduler.models import Allocation, RequestState, Residence, ResidenceKind, Slice

# The system disk's part of an instance's disk: a fifth; the workspace has the rest.
SYSTEM_DISK_PART = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An instance found its place; ``run_id`` is minted here, the run is opened above."""

    request_id: uuid.UUID
    allocation_id: uuid.UUID
    instance_id: uuid.UUID
    tenant_id: uuid.UUID
    node_id: uuid.UUID
    run_id: uuid.UUID


Holding: TypeAlias = tuple[Placed, Sequence[Part]]


def write(holdings: Sequence[Holding], *, now: datetime) -> None:
    """
    Write what these hold, and take it out of the counters of their nodes and GPUs. The caller
    holds the requests, which wait, and the nodes; versions rise by one a node.
    """
    placed = [one for one, _ in holdings]
    needs: defaultdict[uuid.UUID, list[int]] = defaultdict(lambda: [0, 0, 0])
    for node_id, cpu_milli, ram_mib in _insert_allocations(placed, now=now):
        needs[node_id][0] += cpu_milli
        needs[node_id][1] += ram_mib
    _insert_slices(holdings, now=now)
    for node_id, disk_mib in _insert_residences(placed, now=now):
        needs[node_id][2] += disk_mib
    _decide_requests(placed, now=now)
    _take_from_nodes(needs)
    _take_from_gpus([part for _, parts in holdings for part in parts])


def _insert_allocations(
    placed: Sequence[Placed], *, now: datetime
) -> list[tuple[uuid.UUID, int, int]]:
    """Return node, CPU and RAM of each."""
    statement, defaults = _insert_into(
        Allocation,
        id="chosen.id",
        request_id="request.id",
        tenant_id="request.tenant_id",
        instance_id="request.instance_id",
        node_id="chosen.node_id",
        cpu_milli="request.cpu_milli",
        ram_mib="request.ram_mib",
        incarnation="request.incarnation",
        run_id="chosen.run_id",
        spec="request.spec",
        apart_label="request.apart_label",
        ends_at="%(now)s + request.lasts_s * interval '1 second'",
        created_at="%(now)s",
    )
    source = """
        FROM unnest(%(ids)s::uuid[], %(requests)s::uuid[], %(nodes)s::uuid[], %(runs)s::uuid[])
            AS chosen (id, request_id, node_id, run_id)
        JOIN scheduler_request AS request ON request.id = chosen.request_id
        RETURNING node_id, cpu_milli, ram_mib
    """
    return _fetch(
        statement + source,
        defaults,
        now=now,
        ids=array_of(one.allocation_id for one in placed),
        requests=array_of(one.request_id for one in placed),
        nodes=array_of(one.node_id for one in placed),
        runs=array_of(one.run_id for one in placed),
    )


def _insert_slices(holdings: Sequence[Holding], *, now: datetime) -> None:
    statement, defaults = _insert_into(
        Slice,
        id="part.id",
        gpu_id="part.gpu_id",
        allocation_id="part.allocation_id",
        tenant_id="request.tenant_id",
        mode="request.mode",
        cells="int4multirange(int4range(part.from_cell, part.until_cell))",
        vram_mib="part.vram_mib",
        created_at="%(now)s",
    )
    source = """
        FROM unnest(%(ids)s::uuid[], %(allocations)s::uuid[], %(requests)s::uuid[],
                    %(gpus)s::uuid[], %(firsts)s::int[], %(untils)s::int[], %(vram)s::int[])
            AS part (id, allocation_id, request_id, gpu_id, from_cell, until_cell, vram_mib)
        JOIN scheduler_request AS request ON request.id = part.request_id
        RETURNING 1
    """
    parts = [(one, part) for one, parts in holdings for part in parts]
    _fetch(
        statement + source,
        defaults,
        now=now,
        ids=array_of(new_id() for _ in parts),
        allocations=array_of(one.allocation_id for one, _ in parts),
        requests=array_of(one.request_id for one, _ in parts),
        gpus=array_of(part.gpu for _, part in parts),
        firsts=array_of(part.from_cell for _, part in parts),
        untils=array_of(part.until_cell for _, part in parts),
        vram=array_of(part.vram_mib for _, part in parts),
    )


def _insert_residences(placed: Sequence[Placed], *, now: datetime) -> list[tuple[uuid.UUID, int]]:
    """Make the disks of instances that have none yet; return node and MiB of each."""
    statement, defaults = _insert_into(
        Residence,
        id="disk.id",
        instance_id="request.instance_id",
        tenant_id="request.tenant_id",
        node_id="chosen.node_id",
        kind="disk.kind",
        disk_mib="disk.mib",
        created_at="%(now)s",
    )
    source = """
        FROM unnest(%(requests)s::uuid[], %(nodes)s::uuid[], %(systems)s::uuid[],
                    %(workspaces)s::uuid[]) AS chosen (request_id, node_id, system_id, workspace_id)
        JOIN scheduler_request AS request ON request.id = chosen.request_id
        CROSS JOIN LATERAL (VALUES
            (chosen.system_id, %(system)s, request.disk_mib / %(part)s),
            (chosen.workspace_id, %(workspace)s, request.disk_mib - request.disk_mib / %(part)s)
        ) AS disk (id, kind, mib)
        WHERE NOT EXISTS (SELECT FROM scheduler_residence AS home
                          WHERE home.instance_id = request.instance_id
                            AND home.wiped_at IS NULL AND home.abandoned_at IS NULL)
        RETURNING node_id, disk_mib
    """
    return _fetch(
        statement + source,
        defaults,
        now=now,
        requests=array_of(one.request_id for one in placed),
        nodes=array_of(one.node_id for one in placed),
        systems=array_of(new_id() for _ in placed),
        workspaces=array_of(new_id() for _ in placed),
        system=ResidenceKind.SYSTEM.value,
        workspace=ResidenceKind.WORKSPACE.value,
        part=SYSTEM_DISK_PART,
    )


def _decide_requests(placed: Sequence[Placed], *, now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_request SET state = %s, decided_at = %s, reasons = '{}'"
            " WHERE id = ANY(%s::uuid[])",
            [RequestState.PLACED.value, now, array_of(one.request_id for one in placed)],
        )


def _take_from_nodes(needs: Mapping[uuid.UUID, Sequence[int]]) -> None:
    """Lower the counters (CPU, RAM, disk) and raise the versions of locked nodes."""
    nodes = sorted(needs)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduler_node AS node
            SET version = version + 1,
                cpu_milli_free = cpu_milli_free - need.cpu,
                ram_mib_free = ram_mib_free - need.ram,
                disk_mib_free = disk_mib_free - need.disk
            FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[])
                AS need (id, cpu, ram, disk)
            WHERE node.id = need.id
            """,
            [array_of(nodes), *(array_of(needs[node][i] for node in nodes) for i in range(3))],
        )


def _take_from_gpus(parts: Sequence[Part]) -> None:
    """Take the parts' memory out of their GPUs' counters. Their nodes are locked already."""
    needs: defaultdict[uuid.UUID, int] = defaultdict(int)
    for part in parts:
        needs[part.gpu] += part.vram_mib
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduler_gpu AS gpu SET vram_free_mib = vram_free_mib - need.vram
            FROM unnest(%s::uuid[], %s::bigint[]) AS need (id, vram) WHERE gpu.id = need.id
            """,
            [array_of(needs), array_of(needs.values())],
        )


def array_of(values: Iterable[uuid.UUID | int]) -> str:
    """Return an array as PostgreSQL reads it: psycopg, which looks into each, takes ten times."""
    return "{" + ",".join(map(str, values)) + "}"


@cache
def _insert_into(model: type[models.Model], **given: str) -> tuple[str, dict[str, Any]]:
    """
    Return ``INSERT INTO table (columns) SELECT expressions``, which wants a FROM, and its
    parameters: each column as given, or the default of its field.
    """
    columns, values, defaults = [], [], {}
    for field in model._meta.concrete_fields:
        if field.attname in given:
            value = given.pop(field.attname)
        elif not field.has_default() and field.db_default is not NOT_PROVIDED:
            continue  # the database has one
        else:
            value = f"%(default_{field.attname})s::{field.db_type(connection)}"
            defaults[f"default_{field.attname}"] = field.get_db_prep_save(
                field.get_default(), connection
            )
        columns.append(f'"{field.column}"')
        values.append(value)
    if given:
        raise TypeError(f"{model.__name__} has no {sorted(given)}")
    table = model._meta.db_table
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}", defaults


def _fetch(statement: str, defaults: Mapping[str, Any], **parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {**defaults, **parameters})
        rows: list[Any] = cursor.fetchall()
    return rows
