"""Runs: opened by rental.instances when it commits a placement, closed once."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.db import connection, transaction
from django.db.models import Max
from psycopg.types.multirange import Int8Multirange
from psycopg.types.range import Int8Range

from billing.core.ticks import TICK, tick_at
from billing.errors import UnknownRun
from billing.models import Run, Segment, Stretch, Tally, Waiver
from rental.records.audit import Actor, record_event
from rental.records.ids import to_text


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOpening:
    """A run to open. ``reporter``: the node. ``share``: the part of the offer that is sold."""

    run_id: uuid.UUID
    tenant_id: uuid.UUID
    project_id: uuid.UUID
    instance_id: uuid.UUID
    allocation_id: uuid.UUID
    reporter: uuid.UUID
    session: int
    price_key: str
    market: str
    share: Fraction
    opened_at: datetime


@transaction.atomic
def open_runs(openings: Sequence[RunOpening]) -> None:
    """
    Open runs, each with one segment. Call it in the transaction that commits the placement.

    Takes no lock of a wallet (the caller holds nodes, which come later in the lock order): the
    wallet's ``exhausts_at`` follows within seconds, by ``close_exhausted``. Until then the
    tenant's hold stands for the money.
    """
    Run.objects.bulk_create(
        [
            Run(
                id=opening.run_id,
                tenant_id=opening.tenant_id,
                project_id=opening.project_id,
                instance_id=opening.instance_id,
                allocation_id=opening.allocation_id,
                reporter=opening.reporter,
                session=opening.session,
                opened_at=opening.opened_at,
            )
            for opening in openings
        ]
    )
    Segment.objects.bulk_create(
        [
            Segment(
                run_id=opening.run_id,
                tenant_id=opening.tenant_id,
                project_id=opening.project_id,
                price_key=opening.price_key,
                market=opening.market,
                share_numerator=opening.share.numerator,
                share_denominator=opening.share.denominator,
            )
            for opening in openings
        ]
    )
    Tally.objects.bulk_create(
        [Tally(run_id=opening.run_id, charged=Int8Multirange()) for opening in openings]
    )


@transaction.atomic
def close_run(*, run_id: uuid.UUID, at: datetime, reason: str) -> None:
    """
    Close the run at the instant: its ticks from ``ceil((at − started_at) / 6 s)`` on are never
    charged, whatever is reported later; all of them if it never started. The first close wins.

    What was charged above is given back by the next settle. Locks the run alone.

    :raises UnknownRun: if there is none
    """
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise UnknownRun(run_id)
    if run.closed_at is None:
        close_locked(run, at=at, reason=reason)


@transaction.atomic
def close_at_proof(*, run_id: uuid.UUID, reason: str) -> None:
    """
    Close the run behind its last proven tick; before its first one if nothing is proven. For runs
    whose node is lost: what it may prove later above that was not the customer's use.

    :raises UnknownRun: if there is none
    """
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise UnknownRun(run_id)
    if run.closed_at is not None:
        return
    until = Stretch.objects.filter(run_id=run_id).aggregate(last=Max("until_tick"))["last"]
    at = run.opened_at
    if run.started_at is not None and until is not None:
        at = run.started_at + until * TICK
    close_locked(run, at=at, reason=reason)


def close_locked(run: Run, *, at: datetime, reason: str) -> None:
    """Close a run whose row the caller holds and has seen open."""
    run.closed_at = max(at, run.opened_at)
    run.closed_at_tick = 0 if run.started_at is None else tick_at(run.started_at, at)
    run.close_reason = reason
    run.reckoned = False
    run.save(update_fields=["closed_at", "closed_at_tick", "close_reason", "reckoned"])


@transaction.atomic
def waive(
    *, run_id: uuid.UUID, from_tick: int, until_tick: int, reason: str, actor: Actor, now: datetime
) -> Waiver:
    """
    Make ticks [from_tick, until_tick) of the run free. What was charged of them is given back by
    the next settle, by transfers that name the charges.

    :raises ValueError: if there is no reason
    :raises UnknownRun: if there is no such run
    """
    if not reason.strip():
        raise ValueError("a waiver has a reason")
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise UnknownRun(run_id)
    run.settled = run.reckoned = False
    run.save(update_fields=["settled", "reckoned"])
    waiver: Waiver = Waiver.objects.create(
        tenant_id=run.tenant_id,
        run=run,
        ticks=Int8Range(from_tick, until_tick),
        reason=reason,
        created_at=now,
    )
    record_event(
        tenant_id=run.tenant_id,
        actor=actor,
        verb="run.waived",
        subject=to_text("run", run.id),
        after={"from_tick": from_tick, "until_tick": until_tick, "reason": reason},
        now=now,
    )
    return waiver


def lock_unsettled(tenant_ids: Sequence[uuid.UUID]) -> None:
    """Lock the unsettled runs of the tenants by id. Their wallets are locked before."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM billing_run WHERE tenant_id = ANY(%s) AND NOT settled"
            " ORDER BY id FOR NO KEY UPDATE",
            [list(tenant_ids)],
        )
