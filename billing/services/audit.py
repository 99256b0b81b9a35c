"""
The nightly audit: re-derives money from what was proven, and compares. Reads only.

Invariants by their numbers in docs/pricing.md ("what the audit checks"). Runs are re-derived with
the pure core and not with settle's SQL, so that one mistake cannot hide in both.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection, transaction

from billing.core.money import format_micro
from billing.core.rating import price_between, price_of_ticks
from billing.core.split import Ticks, count, meet, period_of, subtract, union
from billing.core.ticks import start_of_tick, tick_at
from billing.models import Charge, PriceVersion, Reversal, Run, Segment, Stretch, Tally, Waiver

BATCH: Final = 1_000  # runs in memory at a time


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, in words an operator can act on."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


def find_errors(*, now: datetime) -> list[Finding]:
    """Return everything that is wrong; an empty list is the only good answer."""
    del now  # the audit judges rows, not the moment
    with transaction.atomic():
        with connection.cursor() as cursor:
            # One snapshot for all of it: a settle that commits meanwhile is no error.
            if not connection.savepoint_ids and len(connection.atomic_blocks) == 1:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return [*_find_in_ledger(), *_find_in_runs()]


# --- the ledger: each query returns words, one row an error

_LEDGER: Final = {
    "I1": """
        SELECT format('transfer %s joins accounts of %s and %s', t.id, d.currency, c.currency)
        FROM billing_transfer t
        LEFT JOIN billing_account d ON d.id = t.debit_id
        LEFT JOIN billing_account c ON c.id = t.credit_id
        WHERE d.currency IS DISTINCT FROM c.currency OR d.id IS NULL OR t.amount <= 0
           OR t.debit_id = t.credit_id
    """,
    "I2": """
        SELECT format('the wallet of tenant %s says %s, its transfers say %s',
                      w.tenant_id, w.posted, moved.balance)
        FROM billing_wallet w, LATERAL (
            SELECT COALESCE((SELECT sum(amount) FROM billing_transfer
                             WHERE credit_id = w.account_id), 0)
                 - COALESCE((SELECT sum(amount) FROM billing_transfer
                             WHERE debit_id = w.account_id), 0) AS balance) moved
        WHERE w.posted <> moved.balance OR w.posted < -w.credit_limit
    """,
    "I3": """
        SELECT format('the wallet of tenant %s holds %s, its pending holds are %s',
                      w.tenant_id, w.held, COALESCE(h.amount, 0))
        FROM billing_wallet w
        LEFT JOIN (SELECT tenant_id, sum(amount) AS amount FROM billing_hold
                   WHERE state = 'pending' GROUP BY tenant_id) h ON h.tenant_id = w.tenant_id
        WHERE w.kind = 'cash' AND w.held <> COALESCE(h.amount, 0)
    """,
    # Nothing was charged outside of a posting, and a posting took what its charges say: a task
    # that ran twice would show here.
    "I20": """
        SELECT format('posting %s is %s, its charges are %s, its transfers %s',
                      p.id, p.total, COALESCE(c.amount, 0), COALESCE(t.amount, 0))
        FROM billing_posting p
        LEFT JOIN (SELECT posting_id, sum(amount) AS amount FROM billing_charge
                   GROUP BY posting_id) c ON c.posting_id = p.id
        LEFT JOIN LATERAL (SELECT sum(amount) AS amount FROM billing_transfer
                   WHERE id IN (p.transfer_id, p.arrears_id)) t ON true
        WHERE p.total <> COALESCE(c.amount, 0) OR p.total <> COALESCE(t.amount, 0)
        UNION ALL
        SELECT format('charge %s has no posting, run or segment of its tenant', c.id)
        FROM billing_charge c
        LEFT JOIN billing_posting p ON p.id = c.posting_id AND p.tenant_id = c.tenant_id
        LEFT JOIN billing_run r ON r.id = c.run_id AND r.tenant_id = c.tenant_id
        LEFT JOIN billing_segment g ON g.id = c.segment_id AND g.run_id = c.run_id
            AND g.project_id = c.project_id
        WHERE p.id IS NULL OR r.id IS NULL OR g.id IS NULL
        UNION ALL
        SELECT format('usage transfer %s belongs to no posting', t.id)
        FROM billing_transfer t
        LEFT JOIN billing_posting p ON t.id IN (p.transfer_id, p.arrears_id)
        WHERE t.code IN ('usage', 'usage_arrears') AND p.id IS NULL
        UNION ALL
        SELECT format('reversal %s is %s, its transfer %s', r.id, r.amount, COALESCE(t.amount, 0))
        FROM billing_reversal r LEFT JOIN billing_transfer t ON t.id = r.transfer_id
        WHERE r.amount <> COALESCE(t.amount, 0)
        UNION ALL
        SELECT format('run %s has no tally', r.id)
        FROM billing_run r LEFT JOIN billing_tally t ON t.run_id = r.id WHERE t.run_id IS NULL
    """,
    "I11": """
        SELECT format('the guard %%s of table %%s is missing or switched off',
                      guard.name, guard.tab)
        FROM unnest(%(tables)s::text[], %(guards)s::text[]) AS guard(tab, name)
        LEFT JOIN pg_trigger t ON t.tgrelid = guard.tab::regclass
            AND t.tgname LIKE 'pgtrigger_' || guard.name || '\\_%%' AND t.tgenabled IN ('O', 'A')
        WHERE t.oid IS NULL
    """,
}


def _guards() -> tuple[list[str], list[str]]:
    """Return tables and trigger names that must stand: those of every guarded model of ours."""
    from django.apps import apps

    pairs = [
        (model._meta.db_table, trigger.name)
        for model in apps.get_app_config("billing").get_models()
        for trigger in getattr(model._meta, "triggers", [])
    ]
    return [table for table, _ in pairs], [name for _, name in pairs]


def _find_in_ledger() -> Iterator[Finding]:
    tables, guards = _guards()
    with connection.cursor() as cursor:
        for invariant, query in _LEDGER.items():
            if invariant == "I11":
                cursor.execute(query, {"tables": tables, "guards": guards})
            else:
                cursor.execute(query)
            for (text,) in cursor.fetchall():
                yield Finding(invariant, text)


# --- the runs, each from its own rows


@dataclass(slots=True)
class _Run:
    """A run with all its rows."""

    run: Run
    charged: list[Ticks]
    stretches: Sequence[Stretch]
    waived: list[Ticks]
    segments: dict[uuid.UUID, Segment]
    charges: Sequence[Charge]
    reversals: Sequence[Reversal]


def _ticks(field: Any) -> Ticks:
    return field.lower, field.upper


def _grouped(rows: Iterable[Any]) -> defaultdict[uuid.UUID, list[Any]]:
    groups: defaultdict[uuid.UUID, list[Any]] = defaultdict(list)
    for row in rows:
        groups[row.run_id].append(row)
    return groups


def _load(runs: Sequence[Run]) -> Iterator[_Run]:
    ids = [run.id for run in runs]
    tallies = {tally.run_id: tally for tally in Tally.objects.filter(run_id__in=ids)}
    stretches = _grouped(Stretch.objects.filter(run_id__in=ids))
    waivers = _grouped(Waiver.objects.filter(run_id__in=ids))
    segments = _grouped(Segment.objects.filter(run_id__in=ids))
    charges = _grouped(Charge.objects.ticks_of(ids))
    reversals = _grouped(Reversal.objects.filter(run_id__in=ids))
    for run in runs:
        tally = tallies.get(run.id)
        yield _Run(
            run=run,
            charged=[_ticks(part) for part in tally.charged] if tally else [],
            stretches=stretches[run.id],
            waived=[_ticks(waiver.ticks) for waiver in waivers[run.id]],
            segments={segment.id: segment for segment in segments[run.id]},
            charges=charges[run.id],
            reversals=reversals[run.id],
        )


def _find_in_runs() -> Iterator[Finding]:
    versions = {version.id: version for version in PriceVersion.objects.all()}
    runs = Run.objects.order_by("id").iterator(chunk_size=BATCH)
    while batch := list(islice(runs, BATCH)):
        for loaded in _load(batch):
            yield from _check_ticks(loaded)
            if loaded.run.started_at is not None:
                yield from _check_charges(loaded, loaded.run.started_at, versions)


def _check_ticks(loaded: _Run) -> Iterator[Finding]:
    """I4 and I5: what is charged is what the rows say, was proven, and is all there is."""
    run = loaded.run
    rows = union(_ticks(charge.units) for charge in loaded.charges)
    rows = subtract(rows, (_ticks(reversal.units) for reversal in loaded.reversals))
    if rows != union(loaded.charged):
        yield Finding("I4", f"run {run.id}: charges cover {rows}, the tally {loaded.charged}")
    if run.started_at is None:
        if rows or loaded.stretches:
            yield Finding("I4", f"run {run.id} never started, but has charges or stretches")
        return
    proven = union((s.from_tick, s.until_tick) for s in loaded.stretches)
    if unproven := subtract(rows, proven):
        yield Finding("I4", f"run {run.id}: ticks {unproven} are charged and were never proven")
    if run.settled and run.closed_at_tick is not None:
        allowed = subtract([(0, run.closed_at_tick)] if run.closed_at_tick else [], loaded.waived)
        if wrong := subtract(rows, allowed):
            yield Finding("I4", f"run {run.id}: ticks {wrong} are charged beyond its end or waiver")
        owed = subtract([r for p in proven for a in allowed if (r := meet(p, a))], rows)
        if owed:
            yield Finding("I20", f"run {run.id} is settled, but ticks {owed} are still due")
    for stretch in loaded.stretches:
        if stretch.until_tick > tick_at(run.started_at, stretch.received_at):
            yield Finding(
                "I5",
                f"run {run.id}: tick {stretch.until_tick} was stored before it can have ended",
            )


def _check_charges(
    loaded: _Run, started_at: datetime, versions: dict[uuid.UUID, PriceVersion]
) -> Iterator[Finding]:
    """I6, I9 and I10: each charge has the right price, and together they are F of their ticks."""
    zone = ZoneInfo(settings.BILLING_TIME_ZONE)
    ticks: Counter[tuple[uuid.UUID, uuid.UUID]] = Counter()
    amounts: Counter[tuple[uuid.UUID, uuid.UUID]] = Counter()
    for charge in loaded.charges:
        segment = loaded.segments.get(charge.segment_id)
        version = versions.get(charge.price_version_id)
        if segment is None or version is None:
            yield Finding("I9", f"charge {charge.id} names a segment or price that is not there")
            continue
        first, last = _ticks(charge.units)
        n = last - first
        key = (charge.segment_id, charge.price_version_id)
        ticks[key] += n
        amounts[key] += charge.amount
        price, share = _terms(segment, version)
        right = price_between(
            charge.units_before, charge.units_before + n, price=price, share=share
        )
        if right != charge.amount:
            yield Finding(
                "I6",
                f"charge {charge.id} is {format_micro(charge.amount)}, its price says "
                f"{format_micro(right)}",
            )
        yield from _check_time(charge, segment, version, started_at, zone)
    for reversal in loaded.reversals:
        key = (reversal.segment_id, reversal.price_version_id)
        ticks[key] -= reversal.units.upper - reversal.units.lower
        amounts[key] -= reversal.amount
    for key, n in ticks.items():
        price, share = _terms(loaded.segments[key[0]], versions[key[1]])
        right = price_of_ticks(max(0, n), price=price, share=share)
        if right != amounts[key]:
            yield Finding(
                "I6",
                f"run {loaded.run.id}: {n} ticks cost {format_micro(amounts[key])} in all, "
                f"their price says {format_micro(right)}",
            )


def _terms(segment: Segment, version: PriceVersion) -> tuple[int, Fraction]:
    price = version.price if segment.cover is None else 0
    return price, Fraction(segment.share_numerator, segment.share_denominator)


def _check_time(
    charge: Charge, segment: Segment, version: PriceVersion, started_at: datetime, zone: ZoneInfo
) -> Iterator[Finding]:
    first, last = _ticks(charge.units)
    begins, ends = start_of_tick(started_at, first), start_of_tick(started_at, last - 1)
    until = version.during.upper
    reach = meet((first, last), (segment.from_tick, segment.until_tick))
    if (
        version.price_key != segment.price_key
        or begins < version.during.lower
        or (until is not None and ends >= until)
        or count([reach] if reach else []) != last - first
    ):
        yield Finding("I9", f"charge {charge.id} has a price that does not hold for its ticks")
    if not charge.period == period_of(begins, zone) == period_of(ends, zone):
        yield Finding("I10", f"charge {charge.id} is booked in {charge.period}, not in its month")
