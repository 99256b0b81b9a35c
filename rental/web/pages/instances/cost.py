"""The cost tab: the explanation of billing, line by line, with the figures to recompute it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing.core.rating import TICKS_PER_HOUR, price_of_ticks
from billing.core.ticks import start_of_tick
from billing.explain import Explanation, Line, RunCost, join_lines
from rental.records.ids import to_text
from rental.web.exports import Cell, amount, moments
from rental.web.pages.instances.words import reason_words

# Runs shown one by one; of older ones the sum is shown, and the file has them all.
MOST_RUNS = 30

WHY_FREE: dict[str, Promise] = {
    "not_proven": _("Free: the node never reported these ticks."),
    "not_proven_yet": _(
        "Free as it stands: the node has not reported these ticks. A late report of a cut link "
        "may still prove them."
    ),
    "waived": _("Free: waived by the operator."),
    "after_stop": _("Free: the node obeyed after the stop was accepted."),
    "no_price": _("Not charged: no price is published for these ticks."),
}
KINDS: dict[str, Promise] = {
    "charged": _("Charged"),
    "estimate": _("Not yet charged"),
    "returned": _("Given back"),
    "free": _("Free"),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """
    A line as it is shown. Amounts in micro-units. ``low`` and ``high``: F of the ticks before and
    after; ``per_tick`` is rounded to a micro-unit, ``per_tick_is_exact`` says whether it had to be.
    """

    line: Line
    label: Promise
    from_at: datetime | None
    until_at: datetime | None
    why: Promise | str = ""
    per_hour: int | None = None
    per_tick: int | None = None
    per_tick_is_exact: bool = True
    share: str = ""
    low: int = 0
    high: int = 0

    @property
    def before(self) -> int:
        return self.line.before

    @property
    def after(self) -> int:
        return self.line.before + self.line.ticks

    @property
    def has_formula(self) -> bool:
        return self.line.kind in ("charged", "estimate")


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """A run: its rows, or in ``nothing`` why it cost nothing at all."""

    account: RunCost
    rows: list[Row]
    ended: str
    nothing: Promise | str = ""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """``older``: what the runs cost that are not shown, micro-units, and how many they are."""

    runs: list[RunRows]
    charged: int
    estimate: int
    total: int
    older: int
    older_count: int


def cost_of(explanation: Explanation) -> Cost:
    shown, rest = explanation.runs[:MOST_RUNS], explanation.runs[MOST_RUNS:]
    return Cost(
        runs=[_run_rows(account) for account in shown],
        charged=explanation.charged,
        estimate=explanation.estimate,
        total=explanation.total,
        older=sum(account.total for account in rest),
        older_count=len(rest),
    )


def _run_rows(account: RunCost) -> RunRows:
    run = account.run
    nothing: Promise | str = ""
    if run.started_at is None:
        nothing = (
            _("It is not ready yet: nothing is charged before it is.")
            if run.closed_at is None
            else _("It never became ready: a failed start costs nothing.")
        )
    elif not account.lines:
        nothing = _("No tick is reported yet.")
    return RunRows(
        account=account,
        rows=[_row(line, account) for line in join_lines(account.lines)],
        ended=reason_words(run.close_reason) if run.close_reason else "",
        nothing=nothing,
    )


def _row(line: Line, account: RunCost) -> Row:
    started = account.run.started_at
    from_at = until_at = None
    if started is not None:
        from_at = start_of_tick(started, line.from_tick)
        until_at = start_of_tick(started, line.until_tick)
    if line.price is None:
        return Row(
            line=line,
            label=KINDS[line.kind],
            from_at=from_at,
            until_at=until_at,
            why=WHY_FREE.get(line.free, ""),
        )
    price, share = line.price, line.share
    exact = price * share / TICKS_PER_HOUR
    return Row(
        line=line,
        label=KINDS[line.kind],
        from_at=from_at,
        until_at=until_at,
        per_hour=price,
        per_tick=price_of_ticks(1, price=price, share=share),
        per_tick_is_exact=exact.denominator == 1,
        share="" if share == 1 else str(share),
        low=price_of_ticks(line.before, price=price, share=share),
        high=price_of_ticks(line.before + line.ticks, price=price, share=share),
    )


# --- the same as a file

COLUMNS = (
    "run_id", "kind", "from_tick", "until_tick", "ticks", "from_local", "from", "until_local",
    "until", "price_per_hour", "share", "units_before", "amount", "currency", "free_because",
    "segment_id", "charge_id", "charged_at",
)  # fmt: skip


def csv_rows(explanation: Explanation, zone: ZoneInfo) -> Iterator[list[list[Cell]]]:
    """Yield the lines run by run, the newest first, each charge apart; the amounts add up."""
    for account in explanation.runs:
        yield [_cells(line, account, zone) for line in account.lines]


def _cells(line: Line, account: RunCost, zone: ZoneInfo) -> list[Cell]:
    row = _row(line, account)
    return [
        to_text("run", account.run.id),
        line.kind,
        line.from_tick,
        line.until_tick,
        line.ticks,
        *_moments(row.from_at, zone),
        *_moments(row.until_at, zone),
        None if line.price is None else amount(line.price),
        None if line.price is None else str(line.share),
        line.before if row.has_formula else None,
        amount(line.amount),
        line.currency,
        line.free,
        None if line.segment_id is None else to_text("seg", line.segment_id),
        None if line.charge_id is None else to_text("chg", line.charge_id),
        _moments(line.created_at, zone)[1],
    ]


def _moments(at: datetime | None, zone: ZoneInfo) -> tuple[Cell, Cell]:
    return (None, None) if at is None else moments(at, zone)
