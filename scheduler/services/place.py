"""
The pass that places: load, decide purely, commit in batches, explain what waits.

Any number of passes may run at once. A batch locks its requests and nodes, and commits only what
was decided on the nodes' present versions; the constraints of ``Slice`` and the counters refuse
what slips through. A pass that loaded before ``scheduler_epoch`` rose commits nothing.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction

from rental.records.ids import new_id
from scheduler.core.placement import Place, Wait, plan
from scheduler.models import (
    Allocation,
    ControlPlane,
    Node,
    Request,
    RequestState,
    Residence,
    ResidenceKind,
    Slice,
)
from scheduler.services.inventory import load_asks, load_inventory, load_waiting
from scheduler.services.liveness import mark_dirty
from scheduler.services.networks import networks_of

log = structlog.get_logger()

# Decisions are made again this often in one pass when some were dropped; then the next has them.
ROUNDS = 3

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    request_id: uuid.UUID
    instance_id: uuid.UUID
    tenant_id: uuid.UUID


@dataclass(slots=True)
class PassResult:
    """
    ``stale``: decisions dropped because a node had changed. ``refused``: those that PostgreSQL or
    the callback refused one by one. ``is_fenced``: another epoch began; nothing more was written.
    """

    placed: list[Placed] = field(default_factory=list)
    expired: list[Expired] = field(default_factory=list)
    waiting: int = 0
    stale: int = 0
    refused: int = 0
    rounds: int = 0
    is_fenced: bool = False


OnPlaced = Callable[[Sequence[Placed]], None]


class Fenced(Exception):
    """The scheduler's epoch rose since this pass loaded."""


def run_pass(*, now: datetime, on_placed: OnPlaced) -> PassResult:
    """
    Place what waits, first come first served, and store why the rest waits.

    ``on_placed`` runs inside each commit's transaction, after requests, allocations, nodes and
    GPUs are locked: it opens the runs, and must lock no instance or wallet (they come before). If
    it raises, nothing of its batch is placed, and the batch is halved down to whom it refuses.
    """
    result = PassResult()
    result.expired = expire_requests(now=now)
    skipped: set[uuid.UUID] = set()
    for _ in range(ROUNDS):
        result.rounds += 1
        dropped = _run_round(result, skipped, now=now, on_placed=on_placed)
        if not dropped or result.is_fenced:
            break
    if result.placed or result.expired or result.stale or result.refused:
        log.info(
            "scheduler.pass",
            placed=len(result.placed),
            waiting=result.waiting,
            stale=result.stale,
            refused=result.refused,
            expired=len(result.expired),
        )
    return result


def _run_round(
    result: PassResult, skipped: set[uuid.UUID], *, now: datetime, on_placed: OnPlaced
) -> int:
    """Load, decide and commit once; return how many decisions were stale or refused."""
    epoch = ControlPlane.load().scheduler_epoch
    requests = {request.id: request for request in load_waiting(now=now)}
    asks = [ask for ask in load_asks(requests.values()) if ask.id not in skipped]
    if not asks:
        return 0
    inventory = load_inventory()
    versions = {node.id: node.version for node in inventory.nodes}
    decisions = plan(asks, inventory)
    places = [decision for decision in decisions if isinstance(decision, Place)]
    waits = [decision for decision in decisions if isinstance(decision, Wait)]
    commit = _Commit(
        epoch=epoch, requests=requests, versions=versions, now=now, on_placed=on_placed
    )
    try:
        for start in range(0, len(places), settings.SCHEDULER_BATCH):
            commit.halving(places[start : start + settings.SCHEDULER_BATCH])
        waits += [Wait(ask=ask, reasons={"refused": 1}) for ask in commit.refused]
        store_reasons(waits, requests, epoch=epoch)
    except Fenced:
        result.is_fenced = True
        log.warning("scheduler.fenced", epoch=epoch)
    result.placed += commit.placed
    result.stale += commit.stale
    result.refused += len(commit.refused)
    skipped |= commit.refused
    result.waiting = len(asks) - len(commit.placed)
    # Who is refused kept a place from others: those are decided again, without him.
    return commit.stale + len(commit.refused)


@transaction.atomic
def expire_requests(*, now: datetime) -> list[Expired]:
    """End the requests that waited too long."""
    late = Request.objects.waiting().filter(expires_at__lte=now).order_by("id")
    rows = list(late.select_for_update(no_key=True, skip_locked=True))
    Request.objects.filter(id__in=[row.id for row in rows]).update(
        state=RequestState.EXPIRED, decided_at=now
    )
    return [
        Expired(request_id=row.id, instance_id=row.instance_id, tenant_id=row.tenant_id)
        for row in rows
    ]


def _hold_epoch(epoch: int) -> None:
    """Keep the epoch from rising until this transaction ends. :raises Fenced: if it has risen"""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM scheduler_controlplane WHERE scheduler_epoch = %s FOR SHARE", [epoch]
        )
        if cursor.fetchone() is None:
            raise Fenced


class _Commit:
    """Writes decisions. ``versions`` follows this pass's own commits; nobody else's."""

    def __init__(
        self,
        *,
        epoch: int,
        requests: Mapping[uuid.UUID, Request],
        versions: dict[uuid.UUID, int],
        now: datetime,
        on_placed: OnPlaced,
    ) -> None:
        self.epoch = epoch
        self.requests = requests
        self.versions = versions
        self.now = now
        self.on_placed = on_placed
        self.placed: list[Placed] = []
        self.refused: set[uuid.UUID] = set()
        self.stale = 0

    def halving(self, places: Sequence[Place]) -> None:
        """
        Commit the places in one transaction; what PostgreSQL or the callback refuses rolls back
        and is tried again in halves, so that one refusal costs the others log2(n) transactions.

        :raises Fenced: if the epoch has risen
        :raises OperationalError, InterfaceError: if the database is away; some may be committed
        """
        try:
            with transaction.atomic():
                placed, stale = self._write(places)
        except (Fenced, OperationalError, InterfaceError):
            raise
        except Exception as error:
            if len(places) == 1:
                self.refused.add(places[0].ask)
                log.warning("scheduler.refused", request=str(places[0].ask), error=str(error))
                return
            middle = len(places) // 2
            self.halving(places[:middle])
            self.halving(places[middle:])
            return
        self.placed += placed
        self.stale += stale
        for node_id in {one.node_id for one in placed}:
            self.versions[node_id] += 1

    def _write(self, places: Sequence[Place]) -> tuple[list[Placed], int]:
        _hold_epoch(self.epoch)
        free = self._lock_requests([place.ask for place in places])
        present = self._lock_nodes({place.node for place in places if place.ask in free})
        fresh, stale = [], 0
        for place in places:
            if place.ask not in free:
                continue  # another pass has it, or it was cancelled
            if present.get(place.node) == self.versions[place.node]:
                fresh.append(place)
            else:
                stale += 1
        if not fresh:
            return [], stale
        placed = self._insert(fresh)
        self.on_placed(placed)
        return placed, stale

    def _lock_requests(self, ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        rows = Request.objects.waiting().filter(id__in=ids, expires_at__gt=self.now).order_by("id")
        locked = rows.select_for_update(no_key=True, skip_locked=True)
        specs = dict(locked.values_list("id", "spec"))
        for request_id, spec in specs.items():
            # It may have been changed since the pass read it; from now on it cannot be.
            self.requests[request_id].spec = spec
        return set(specs)

    def _lock_nodes(self, ids: set[uuid.UUID]) -> dict[uuid.UUID, int]:
        rows = Node.objects.filter(id__in=ids).order_by("id").select_for_update(no_key=True)
        return dict(rows.values_list("id", "version"))

    def _insert(self, places: Sequence[Place]) -> list[Placed]:
        allocations, slices = [], []
        for place in places:
            request = self.requests[place.ask]
            allocation = Allocation(
                request=request,
                tenant_id=request.tenant_id,
                instance_id=request.instance_id,
                node_id=place.node,
                cpu_milli=request.cpu_milli,
                ram_mib=request.ram_mib,
                run_id=new_id(),
                spec=request.spec,
                created_at=self.now,
            )
            allocations.append(allocation)
            slices += [
                Slice(
                    gpu_id=part.gpu,
                    allocation=allocation,
                    tenant_id=request.tenant_id,
                    mode=request.mode,
                    cells=((part.from_cell, part.until_cell),),
                    vram_mib=part.vram_mib,
                    created_at=self.now,
                )
                for part in place.parts
            ]
        Allocation.objects.bulk_create(allocations)
        Slice.objects.bulk_create(slices)
        residences = self._new_residences(places)
        Residence.objects.bulk_create(residences)
        Request.objects.filter(id__in=[place.ask for place in places]).update(
            state=RequestState.PLACED, decided_at=self.now, reasons={}
        )
        take_from_nodes(allocations, residences)
        take_from_gpus(slices)
        asked = [self.requests[place.ask] for place in places]
        networks_of({(one.tenant_id, one.region_id) for one in asked}, now=self.now)
        mark_dirty([allocation.id for allocation in allocations], now=self.now)
        return [
            Placed(
                request_id=allocation.request_id,
                allocation_id=allocation.id,
                instance_id=allocation.instance_id,
                tenant_id=allocation.tenant_id,
                node_id=allocation.node_id,
                run_id=allocation.run_id,
            )
            for allocation in allocations
        ]

    def _homeless(self, places: Sequence[Place]) -> list[Place]:
        """Return those whose instance has no disks yet."""
        instances = [self.requests[place.ask].instance_id for place in places]
        homes = set(
            Residence.objects.filter(instance_id__in=instances, wiped_at=None).values_list(
                "instance_id", flat=True
            )
        )
        return [place for place in places if self.requests[place.ask].instance_id not in homes]

    def _new_residences(self, places: Sequence[Place]) -> list[Residence]:
        residences = []
        for place in self._homeless(places):
            request = self.requests[place.ask]
            system_mib = request.disk_mib // SYSTEM_DISK_PART
            for kind, disk_mib in (
                (ResidenceKind.SYSTEM, system_mib),
                (ResidenceKind.WORKSPACE, request.disk_mib - system_mib),
            ):
                residences.append(
                    Residence(
                        instance_id=request.instance_id,
                        tenant_id=request.tenant_id,
                        node_id=place.node,
                        kind=kind,
                        disk_mib=disk_mib,
                        created_at=self.now,
                    )
                )
        return residences


def take_from_nodes(allocations: Sequence[Allocation], residences: Sequence[Residence]) -> None:
    """Take what these hold out of their nodes' counters and raise the versions, once a node."""
    needs: defaultdict[uuid.UUID, list[int]] = defaultdict(lambda: [0, 0, 0])
    for allocation in allocations:
        needs[allocation.node_id][0] += allocation.cpu_milli
        needs[allocation.node_id][1] += allocation.ram_mib
    for residence in residences:
        needs[residence.node_id][2] += residence.disk_mib
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
            [nodes, *([needs[node][i] for node in nodes] for i in range(3))],
        )


def take_from_gpus(slices: Sequence[Slice]) -> None:
    """Take the slices' memory out of their GPUs' counters. Their nodes are locked already."""
    needs: defaultdict[uuid.UUID, int] = defaultdict(int)
    for part in slices:
        needs[part.gpu_id] += part.vram_mib
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduler_gpu AS gpu SET vram_free_mib = vram_free_mib - need.vram
            FROM unnest(%s::uuid[], %s::bigint[]) AS need (id, vram) WHERE gpu.id = need.id
            """,
            [list(needs), list(needs.values())],
        )


@transaction.atomic
def store_reasons(
    waits: Sequence[Wait], requests: Mapping[uuid.UUID, Request], *, epoch: int
) -> None:
    """Write why requests wait, where that has changed."""
    changed = {
        wait.ask: wait.reasons for wait in waits if requests[wait.ask].reasons != wait.reasons
    }
    if not changed:
        return
    _hold_epoch(epoch)
    rows = Request.objects.waiting().filter(id__in=changed).order_by("id")
    ids = list(rows.select_for_update(no_key=True, skip_locked=True).values_list("id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduler_request AS request SET reasons = fresh.reasons
            FROM unnest(%s::uuid[], %s::jsonb[]) AS fresh (id, reasons)
            WHERE request.id = fresh.id
            """,
            [ids, [json.dumps(changed[request_id]) for request_id in ids]],
        )
