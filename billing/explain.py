"""
What an instance cost, tick by tick, so that its owner can recompute every figure. Reads only.

The amounts are those of the charges, of their reversals and of the statement behind the estimate
(``services.due``); nothing is priced here. What was free is named with its reason.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Literal

from django.db import connection

from billing.core.split import Ticks, meet, subtract, union
from billing.models import Charge, PriceVersion, Reversal, Run, Segment, Stretch, Waiver
from billing.services.due import DUE, LIVE, PIECES, parameters

Kind = Literal["charged", "estimate", "returned", "free"]
# Why ticks are free: seen by nobody (and may still be reported), never ready, waived, after the
# accepted stop, or without a published price (those stay due).
Free = Literal["", "not_proven", "not_proven_yet", "waived", "after_stop", "no_price"]
_FOREVER = 2**62


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """
    Ticks [from_tick, until_tick) of a run. Amounts in micro-units, negative where money came back.

    ``before``: ticks counted earlier under the same segment and price version, so that
    amount = F(before + n) − F(before), F(n) = round_half_up(n * price * share / 600).
    ``rows``: how many charges (or pieces of the estimate) the line stands for.
    """

    kind: Kind
    from_tick: int
    until_tick: int
    amount: int = 0
    before: int = 0
    price: int | None = None
    share: Fraction = Fraction(1)
    currency: str = ""
    free: Free = ""
    segment_id: uuid.UUID | None = None
    version_id: uuid.UUID | None = None
    charge_id: uuid.UUID | None = None
    created_at: datetime | None = None
    rows: int = 1

    @property
    def ticks(self) -> int:
        return self.until_tick - self.from_tick


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCost:
    """A run with its lines in order of ticks. ``charged``: less what was given back."""

    run: Run
    lines: list[Line]
    charged: int
    estimate: int

    @property
    def total(self) -> int:
        return self.charged + self.estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """All runs of an instance, the newest first. ``total`` is what it has cost up to now."""

    runs: list[RunCost]
    charged: int
    estimate: int

    @property
    def total(self) -> int:
        return self.charged + self.estimate


def explain_instance(*, tenant_id: uuid.UUID, instance_id: uuid.UUID) -> Explanation:
    """Return what the tenant's instance cost, a fixed number of queries however old it is."""
    runs = list(
        Run.objects.of(tenant_id).filter(instance_id=instance_id).order_by("-opened_at", "-id")
    )
    # The estimate is read first: what a settle charges meanwhile is then seen twice and not
    # missed, and the pieces that are charged by now are dropped.
    pieces = _pieces(tenant_id, instance_id) if runs else {}
    facts = _read_facts([run.id for run in runs]) if runs else _Facts({}, {}, {}, {})
    accounts = [_account_of(run, facts, pieces.get(run.id, [])) for run in runs]
    return Explanation(
        runs=accounts,
        charged=sum(account.charged for account in accounts),
        estimate=sum(account.estimate for account in accounts),
    )


def join_lines(lines: Sequence[Line]) -> list[Line]:
    """Join lines that continue each other under one price; hourly charges become one figure."""
    joined: list[Line] = []
    for line in lines:
        if joined and _continues(joined[-1], line):
            last = joined[-1]
            joined[-1] = replace(
                last,
                until_tick=line.until_tick,
                amount=last.amount + line.amount,
                rows=last.rows + line.rows,
            )
        else:
            joined.append(line)
    return joined


def _continues(last: Line, line: Line) -> bool:
    same = (last.kind, last.segment_id, last.version_id, last.until_tick, last.before + last.ticks)
    priced = line.kind in ("charged", "estimate")
    return priced and same == (
        line.kind,
        line.segment_id,
        line.version_id,
        line.from_tick,
        line.before,
    )


@dataclass(frozen=True)
class _Facts:
    charges: dict[uuid.UUID, list[Line]]
    returns: dict[uuid.UUID, list[Line]]
    seen: dict[uuid.UUID, list[Ticks]]
    waived: dict[uuid.UUID, list[Ticks]]


def _read_facts(run_ids: Sequence[uuid.UUID]) -> _Facts:
    charges: defaultdict[uuid.UUID, list[Line]] = defaultdict(list)
    priced = Charge.objects.ticks_of(run_ids).select_related("segment", "price_version")
    for charge in priced:
        charges[charge.run_id].append(
            _priced(
                Line(
                    kind="charged",
                    from_tick=charge.units.lower,
                    until_tick=charge.units.upper,
                    amount=charge.amount,
                    before=charge.units_before,
                    charge_id=charge.id,
                    created_at=charge.created_at,
                ),
                charge.segment,
                charge.price_version,
            )
        )
    returns: defaultdict[uuid.UUID, list[Line]] = defaultdict(list)
    reversals = Reversal.objects.filter(run_id__in=run_ids)
    for reversal in reversals.select_related("segment", "price_version"):
        returns[reversal.run_id].append(
            _priced(
                Line(
                    kind="returned",
                    from_tick=reversal.units.lower,
                    until_tick=reversal.units.upper,
                    amount=-reversal.amount,
                    charge_id=reversal.charge_id,
                    created_at=reversal.created_at,
                ),
                reversal.segment,
                reversal.price_version,
            )
        )
    seen: defaultdict[uuid.UUID, list[Ticks]] = defaultdict(list)
    stretches = Stretch.objects.filter(run_id__in=run_ids)
    for run_id, first, last in stretches.values_list("run_id", "from_tick", "until_tick"):
        seen[run_id].append((first, last))
    waived: defaultdict[uuid.UUID, list[Ticks]] = defaultdict(list)
    for waiver in Waiver.objects.filter(run_id__in=run_ids):
        waived[waiver.run_id].append((waiver.ticks.lower, waiver.ticks.upper))
    return _Facts(charges, returns, seen, waived)


def _priced(line: Line, segment: Segment, version: PriceVersion) -> Line:
    return replace(
        line,
        segment_id=segment.id,
        version_id=version.id,
        price=0 if segment.cover is not None else version.price,
        share=Fraction(segment.share_numerator, segment.share_denominator),
        currency=version.currency,
    )


def _pieces(tenant_id: uuid.UUID, instance_id: uuid.UUID) -> dict[uuid.UUID, list[Line]]:
    """Return what is proven and not charged yet, as settle would cut and price it, by run."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {LIVE}, {DUE}, {PIECES}"
            " SELECT p.run_id, lower(p.ticks), upper(p.ticks), p.amount, p.units_before,"
            " p.segment_id, p.version_id, CASE WHEN g.cover IS NULL THEN v.price ELSE 0 END,"
            " g.share_numerator, g.share_denominator, v.currency"
            " FROM priced p JOIN billing_segment g ON g.id = p.segment_id"
            " JOIN billing_priceversion v ON v.id = p.version_id"
            " WHERE p.instance_id = %(instance)s",
            parameters([tenant_id]) | {"instance": instance_id},
        )
        rows = cursor.fetchall()
    pieces: defaultdict[uuid.UUID, list[Line]] = defaultdict(list)
    for run_id, first, last, amount, before, segment, version, price, top, bottom, money in rows:
        pieces[run_id].append(
            Line(
                kind="estimate",
                from_tick=first,
                until_tick=last,
                amount=int(amount),
                before=before,
                price=price,
                share=Fraction(top, bottom),
                currency=money,
                segment_id=segment,
                version_id=version,
            )
        )
    return pieces


def _account_of(run: Run, facts: _Facts, pieces: Sequence[Line]) -> RunCost:
    charges, returns = facts.charges.get(run.id, []), facts.returns.get(run.id, [])
    charged = subtract(_ranges(charges), _ranges(returns))
    estimates = [piece for piece in pieces if subtract(_ranges([piece]), charged)]
    paid = union(charged + _ranges(estimates))
    free = _free_of(
        run, seen=union(facts.seen.get(run.id, [])), waived=facts.waived.get(run.id, []), paid=paid
    )
    lines = [*charges, *returns, *estimates, *free]
    return RunCost(
        run=run,
        lines=sorted(lines, key=lambda line: (line.from_tick, line.until_tick, line.kind)),
        charged=sum(line.amount for line in [*charges, *returns]),
        estimate=sum(line.amount for line in estimates),
    )


def _ranges(lines: Iterable[Line]) -> list[Ticks]:
    return [(line.from_tick, line.until_tick) for line in lines]


def _free_of(
    run: Run, *, seen: list[Ticks], waived: Sequence[Ticks], paid: list[Ticks]
) -> list[Line]:
    """Name every tick of the run that costs nothing, and why."""
    closed = run.closed_at_tick
    end = closed if closed is not None else max((last for _, last in seen), default=0)
    window: list[Ticks] = [(0, end)] if end else []
    unseen: Free = "not_proven" if run.settled else "not_proven_yet"
    late = [part for r in seen if closed is not None and (part := meet(r, (closed, _FOREVER)))]
    proven = [part for r in seen if (part := meet(r, (0, end)))]
    forgiven = [part for r in waived if (part := meet(r, (0, end)))]
    groups: list[tuple[Free, list[Ticks]]] = [
        (unseen, subtract(window, [*proven, *forgiven, *paid])),
        ("waived", subtract(union(forgiven), paid)),
        ("after_stop", subtract(late, paid)),
        ("no_price", subtract(proven, [*forgiven, *paid])),
    ]
    return [
        Line(kind="free", free=reason, from_tick=first, until_tick=last)
        for reason, ranges in groups
        for first, last in ranges
    ]
