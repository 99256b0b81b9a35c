"""
The pass that places: load, decide purely, commit in batches, explain what waits.

Any number of passes may run at once. A batch locks its requests and nodes, and commits only what
was decided on the nodes' present versions; the constraints of ``Slice`` and the counters refuse
what slips through. A pass that loaded before ``scheduler_epoch`` rose commits nothing.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Q

from rental.records.ids import new_id
from scheduler.core.placement import Place, Wait, plan
from scheduler.models import ControlPlane, Request, RequestState
from scheduler.services.gangs import load_ends
from scheduler.services.inventory import (
    Waiting,
    collector_paused,
    load_inventory,
    load_waiting,
)
from scheduler.services.liveness import mark_dirty
from scheduler.services.networks import networks_of
from scheduler.services.rules import load_rules
from scheduler.services.write import Placed, array_of, write

__all__ = ["Expired", "PassResult", "Placed", "run_pass"]

log = structlog.get_logger()

# Decisions are made again this often in one pass when some were dropped; then the next has them.
ROUNDS = 3


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


# Written at once or not at all: one place, or those of a gang.
Unit: TypeAlias = tuple[Place, ...]

OnPlaced = Callable[[Sequence[Placed]], None]


class Fenced(Exception):
    """The scheduler's epoch rose since this pass loaded."""


def run_pass(*, now: datetime, on_placed: OnPlaced) -> PassResult:
    """
    Place what waits, each in its turn (scheduler.core.queue), and store why the rest waits.

    ``on_placed`` runs inside each commit's transaction, after requests, allocations, nodes and
    GPUs are locked: it opens the runs, and must lock no instance or wallet (they come before). If
    it raises, nothing of its batch is placed, and the batch is halved down to whom it refuses.
    """
    result = PassResult()
    result.expired = expire_requests(now=now)
    skipped: set[uuid.UUID] = set()
    for _ in range(ROUNDS):
        result.rounds += 1
        with collector_paused():
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
    waiting = load_waiting(now=now)
    asks = [one.ask for one in waiting.values() if one.ask.id not in skipped]
    if not asks:
        return 0
    inventory = load_inventory()
    versions = {node.id: node.version for node in inventory.nodes}
    rules = replace(load_rules(now=now), ends=load_ends(asks, now=now))
    decisions = plan(asks, inventory, rules)
    units = units_of([one for one in decisions if isinstance(one, Place)], waiting)
    waits = [decision for decision in decisions if isinstance(decision, Wait)]
    commit = _Commit(epoch=epoch, waiting=waiting, versions=versions, now=now, on_placed=on_placed)
    try:
        for batch in batches_of(units, most=settings.SCHEDULER_BATCH):
            commit.halving(batch)
        waits += [Wait(ask=ask, reasons={"refused": 1}) for ask in commit.refused]
        store_reasons(waits, waiting, epoch=epoch)
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
    """End the requests that waited too long; of a gang all, when one did."""
    late = Request.objects.waiting().filter(expires_at__lte=now)
    gangs = late.filter(group_size__gt=1).values("group_id")
    ending = Q(expires_at__lte=now) | Q(group_size__gt=1, group_id__in=gangs)
    ended = Request.objects.waiting().filter(ending).order_by("id")
    rows = list(ended.select_for_update(no_key=True, skip_locked=True))
    Request.objects.filter(id__in=[row.id for row in rows]).update(
        state=RequestState.EXPIRED, decided_at=now
    )
    return [
        Expired(request_id=row.id, instance_id=row.instance_id, tenant_id=row.tenant_id)
        for row in rows
    ]


def units_of(places: Sequence[Place], waiting: Mapping[uuid.UUID, Waiting]) -> list[Unit]:
    """Return what is written at once or not at all: gangs, and each of the others by itself."""
    units: dict[uuid.UUID, list[Place]] = {}
    for place in places:
        bond = waiting[place.ask].ask.bond
        units.setdefault(place.ask if bond is None else bond.group, []).append(place)
    return [tuple(unit) for unit in units.values()]


def batches_of(units: Sequence[Unit], *, most: int) -> Iterator[list[Unit]]:
    """Yield batches of at most so many places; a gang of more is one by itself."""
    batch: list[Unit] = []
    size = 0
    for unit in units:
        if batch and size + len(unit) > most:
            yield batch
            batch, size = [], 0
        batch.append(unit)
        size += len(unit)
    if batch:
        yield batch


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
        waiting: Mapping[uuid.UUID, Waiting],
        versions: dict[uuid.UUID, int],
        now: datetime,
        on_placed: OnPlaced,
    ) -> None:
        self.epoch = epoch
        self.waiting = waiting
        self.versions = versions
        self.now = now
        self.on_placed = on_placed
        self.placed: list[Placed] = []
        self.refused: set[uuid.UUID] = set()
        self.stale = 0
        self.networks: set[tuple[uuid.UUID, str]] = set()  # given for certain

    def halving(self, units: Sequence[Unit]) -> None:
        """
        Commit the units in one transaction. If PostgreSQL or the callback refuses it, do it in a
        second one, which writes halves of halves under savepoints down to whom they refuse: each
        of the others is written again log2(n) times at the most, and nothing is locked anew.

        :raises Fenced: if the epoch has risen
        :raises OperationalError, InterfaceError: if the database is away; some may be committed
        """
        try:
            with transaction.atomic():
                fresh, stale = self._lock(units)
                written = [self._write(fresh)] if fresh else []
            refused: set[uuid.UUID] = set()
        except (Fenced, OperationalError, InterfaceError):
            raise
        except Exception:
            written, refused = [], set()
            with transaction.atomic():
                fresh, stale = self._lock(units)
                self._halve(fresh, written, refused)
        self.stale += stale
        self.refused |= refused
        for placed in written:
            self.placed += placed
            for node_id in {one.node_id for one in placed}:
                self.versions[node_id] += 1
            self.networks |= {self.waiting[one.request_id].network for one in placed}

    def _halve(
        self, units: Sequence[Unit], written: list[list[Placed]], refused: set[uuid.UUID]
    ) -> None:
        """Add what was placed to ``written``, once a raise of versions, and who was refused."""
        if not units:
            return
        try:
            with transaction.atomic():
                placed = self._write(units)
                _check_now()
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            if len(units) == 1:
                [unit] = units
                refused.update(place.ask for place in unit)
                log.warning("scheduler.refused", request=str(unit[0].ask), error=str(error))
                return
            middle = len(units) // 2
            self._halve(units[:middle], written, refused)
            self._halve(units[middle:], written, refused)
            return
        written.append(placed)

    def _lock(self, units: Sequence[Unit]) -> tuple[list[Unit], int]:
        """Lock requests and nodes; return what can be written, and how many have become stale."""
        _hold_epoch(self.epoch)
        free = self._lock_requests([place.ask for unit in units for place in unit])
        # What another pass has, or was cancelled, is no more ours; of a gang one is enough.
        ours = [unit for unit in units if all(place.ask in free for place in unit)]
        present = self._lock_nodes({place.node for unit in ours for place in unit})
        fresh = [
            unit
            for unit in ours
            if all(present.get(place.node) == self.versions[place.node] for place in unit)
        ]
        return fresh, sum(map(len, ours)) - sum(map(len, fresh))

    def _lock_requests(self, ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        """Its spec may have been changed since the pass read it; from now on it cannot be."""
        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT id FROM scheduler_request
                WHERE id = ANY(%s::uuid[]) AND state = 'waiting' AND expires_at > %s
                ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
                """,
                [array_of(ids), self.now],
            )
            return {request_id for (request_id,) in cursor.fetchall()}

    def _lock_nodes(self, ids: set[uuid.UUID]) -> dict[uuid.UUID, int]:
        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT id, version FROM scheduler_node
                WHERE id = ANY(%s::uuid[]) ORDER BY id FOR NO KEY UPDATE
                """,
                [array_of(ids)],
            )
            return dict(cursor.fetchall())

    def _write(self, units: Sequence[Unit]) -> list[Placed]:
        """Write allocations and all that they hold; have the runs opened."""
        holdings = [(self._placed(place), place.parts) for unit in units for place in unit]
        placed = [one for one, _ in holdings]
        write(holdings, now=self.now)
        wanted = {self.waiting[one.request_id].network for one in placed} - self.networks
        if wanted:
            networks_of(wanted, now=self.now)
        mark_dirty([one.allocation_id for one in placed], now=self.now)
        self.on_placed(placed)
        return placed

    def _placed(self, place: Place) -> Placed:
        waiting = self.waiting[place.ask]
        return Placed(
            request_id=place.ask,
            allocation_id=new_id(),
            instance_id=waiting.instance_id,
            tenant_id=waiting.ask.tenant,
            node_id=place.node,
            run_id=new_id(),
        )


def _check_now() -> None:
    """Check what is checked at commit now, while a savepoint can still take it back."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


@transaction.atomic
def store_reasons(
    waits: Sequence[Wait], waiting: Mapping[uuid.UUID, Waiting], *, epoch: int
) -> None:
    """Write why requests wait, where that has changed."""
    changed = {
        wait.ask: wait.reasons for wait in waits if waiting[wait.ask].reasons != wait.reasons
    }
    if not changed:
        return
    _hold_epoch(epoch)
    texts = {json.dumps(reasons): None for reasons in changed.values()}  # few, for thousands
    numbers = {text: number for number, text in enumerate(texts, start=1)}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH fresh AS (
                SELECT * FROM unnest(%s::uuid[], %s::int[]) AS fresh (id, number)
            ), held AS (
                SELECT request.id FROM scheduler_request AS request
                WHERE request.id IN (SELECT id FROM fresh) AND request.state = 'waiting'
                ORDER BY request.id FOR NO KEY UPDATE SKIP LOCKED
            )
            UPDATE scheduler_request AS request SET reasons = (%s::jsonb[])[fresh.number]
            FROM fresh JOIN held ON held.id = fresh.id WHERE request.id = fresh.id
            """,
            [
                array_of(changed),
                array_of(numbers[json.dumps(reasons)] for reasons in changed.values()),
                list(texts),
            ],
        )
