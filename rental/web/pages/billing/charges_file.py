"""The charges of a month as a file: what was charged, then what was given back."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import chain
from typing import Final
from zoneinfo import ZoneInfo

from django.http import HttpResponse

from billing.core.ticks import start_of_tick
from billing.models import Charge, Reversal
from billing.month import list_month, list_returns
from rental.records import ids
from rental.web.exports import Cell, amount, csv_answer, moments, read_all
from rental.web.pages.billing.charges import (
    NEWEST,
    names_of_instances,
    names_of_projects,
    read_filters,
    start_of,
)
from rental.web.visit import Visit, page

COLUMNS: Final = (
    "kind", "from", "from_utc", "until", "until_utc", "instance", "instance_id", "project",
    "project_id", "ticks", "units_before", "price_per_hour", "share", "amount", "currency",
    "period", "run_id", "from_unit", "until_unit", "charge_id", "created_at_utc",
)  # fmt: skip


@page("billing:read")
def download_charges(visit: Visit) -> HttpResponse:
    """
    Each charge of the month a line, then what was given back, negative: the amounts add up to the
    total of the page.
    """
    filters = read_filters(visit)
    chosen = filters.of(visit.tenant.id)
    file = _File(visit, filters.period)
    return csv_answer(
        visit.request,
        name=f"charges-{visit.tenant.slug}-{filters.period:%Y-%m}.csv",
        header=COLUMNS,
        batches=chain(
            map(file.charged, read_all(list_month(**chosen), key=NEWEST)),
            map(file.returned, read_all(list_returns(**chosen), key=NEWEST)),
        ),
    )


class _File:
    """Charges and reversals as lines of the file. One query for the names of each batch."""

    def __init__(self, visit: Visit, period: date) -> None:
        self.tenant_id = visit.tenant.id
        self.zone = ZoneInfo(visit.tenant.time_zone)
        self.period = period
        self.projects = names_of_projects(visit.tenant.id)

    def charged(self, batch: Sequence[Charge]) -> Iterator[list[Cell]]:
        names = names_of_instances(self.tenant_id, {line.run.instance_id for line in batch})
        for line in batch:
            yield [
                "charged",
                *self._where(line, names),
                line.units_before,
                *self._price(line),
                amount(line.amount),
                *self._ids(line, line.id),
            ]

    def returned(self, batch: Sequence[Reversal]) -> Iterator[list[Cell]]:
        names = names_of_instances(self.tenant_id, {line.run.instance_id for line in batch})
        for line in batch:
            yield [
                "returned",
                *self._where(line, names),
                "",
                *self._price(line),
                amount(-line.amount),
                *self._ids(line, line.charge_id),
            ]

    def _where(self, line: Charge | Reversal, names: dict[uuid.UUID, str]) -> list[Cell]:
        run, units = line.run, line.units
        project_id = line.segment.project_id
        return [
            *moments(start_of_tick(start_of(run), units.lower), self.zone),
            *moments(start_of_tick(start_of(run), units.upper), self.zone),
            names.get(run.instance_id, ""),
            ids.to_text("ins", run.instance_id),
            self.projects.get(project_id, ""),
            ids.to_text("prj", project_id),
            units.upper - units.lower,
        ]

    def _price(self, line: Charge | Reversal) -> list[Cell]:
        segment = line.segment
        return [
            amount(line.price_version.price if segment.cover is None else 0),
            f"{segment.share_numerator}/{segment.share_denominator}",
        ]

    def _ids(self, line: Charge | Reversal, charge_id: uuid.UUID) -> list[Cell]:
        return [
            line.price_version.currency,
            f"{self.period:%Y-%m}",
            ids.to_text("run", line.run_id),
            line.units.lower,
            line.units.upper,
            ids.to_text("chg", charge_id),
            moments(line.created_at, self.zone)[1],
        ]
