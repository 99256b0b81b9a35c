"""What a month was charged for: grouped, and each charge with the figures to recompute it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any, Final, get_args
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext as _

from billing.core.rating import price_of_ticks
from billing.core.split import period_of
from billing.core.ticks import start_of_tick
from billing.models import Charge, Reversal, Run
from billing.month import (
    Chosen,
    Group,
    Grouping,
    billing_zone,
    group_month,
    list_month,
    list_returns,
)
from billing.services.due import unposted_by_period
from rental.instances.models import Instance
from rental.records import ids
from rental.records.paging import ForeignCursor, Key, take_page
from rental.tenants.models import Project
from rental.web.pages.billing.tabs import Tab, tabs_of
from rental.web.periods import months_back, read_month
from rental.web.visit import Visit, page

PAGE_ROWS: Final = 50
MOST_RETURNS: Final = 50
NEWEST: Final[Key] = ("id",)
GROUPINGS: Final[tuple[Grouping, ...]] = get_args(Grouping)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What the address asks for. ``period``: the first day of the month."""

    period: date
    by: Grouping
    instance_id: uuid.UUID | None
    project_id: uuid.UUID | None

    def query(self, **more: str) -> str:
        chosen = {
            "month": f"{self.period:%Y-%m}",
            "by": self.by if self.by != "instance" else "",
            "instance": ids.to_text("ins", self.instance_id) if self.instance_id else "",
            "project": ids.to_text("prj", self.project_id) if self.project_id else "",
            **more,
        }
        return "?" + urlencode({name: value for name, value in chosen.items() if value})

    def of(self, tenant_id: uuid.UUID) -> Chosen:
        return {
            "tenant_id": tenant_id,
            "period": self.period,
            "instance_id": self.instance_id,
            "project_id": self.project_id,
        }


@dataclass(frozen=True, kw_only=True)
class GroupShown:
    """A line of the month: a name, where it leads, and its figures."""

    group: Group
    name: str
    text_id: str
    url: str
    cost_url: str = ""

    @property
    def seconds(self) -> int:
        return self.group.ticks * 6


@dataclass(frozen=True, kw_only=True)
class ChargeShown:
    """
    A charge with all that its amount is made of. ``low`` and ``high``: F of the ticks before and
    after, whose difference is the amount; ``price`` is 0 where a reservation covers it.
    """

    charge: Charge
    name: str
    project: str
    from_at: datetime
    until_at: datetime
    ticks: int
    before: int
    after: int
    price: int
    share: str
    low: int
    high: int
    cost_url: str
    text_id: str
    is_covered: bool


@dataclass(frozen=True, kw_only=True)
class ReturnShown:
    """A part of a charge that was given back."""

    reversal: Reversal
    name: str
    ticks: int
    cost_url: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    label: str
    url: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class ChargesContext:
    """``estimate``: used in this month and not charged yet, of everything; None when narrowed."""

    groups: list[GroupShown]
    total: int
    charged: int
    returned: int
    seconds: int
    estimate: int | None
    rows: list[ChargeShown]
    returns: list[ReturnShown]
    filters: Filters
    months: list[tuple[date, str, bool]]
    groupings: list[Choice]
    narrowed_to: str
    all_url: str
    next: str
    first: str
    csv: str
    zone: str
    tabs: list[Tab]
    tab: str = "charges"
    nav: str = "billing"


def read_filters(visit: Visit) -> Filters:
    query = visit.request.GET
    by = query.get("by", "")
    return Filters(
        period=read_month(query.get("month", ""), otherwise=period_of(visit.now, billing_zone())),
        by=next((known for known in GROUPINGS if known == by), "instance"),
        instance_id=_read_id("ins", query.get("instance", "")),
        project_id=_read_id("prj", query.get("project", "")),
    )


def _read_id(prefix: str, text: str) -> uuid.UUID | None:
    try:
        return ids.from_text(prefix, text)
    except ids.MalformedId:
        return None


@page("billing:read")
def show_charges(visit: Visit) -> HttpResponse:
    filters = read_filters(visit)
    chosen = filters.of(visit.tenant.id)
    cursor = visit.request.GET.get("after") or None
    try:
        found = take_page(
            list_month(**chosen),
            key=NEWEST,
            descending=True,
            limit=PAGE_ROWS,
            cursor=cursor,
            scope=f"console:charges:{visit.tenant.id}:{filters.query()}",
        )
    except ForeignCursor:  # a link of another month or filter
        return visit.redirect(f"{visit.home}billing/charges{filters.query()}")
    groups = group_month(by=filters.by, **chosen)
    returns = list(list_returns(**chosen)[:MOST_RETURNS])
    names = _Names(visit, groups, [*found.rows, *returns], filters)
    here = f"{visit.home}billing/charges"
    return visit.render(
        "web/billing/charges.html",
        ChargesContext(
            groups=[names.of_group(group, filters) for group in groups],
            total=sum(group.total for group in groups),
            charged=sum(group.charged for group in groups),
            returned=sum(group.returned for group in groups),
            seconds=sum(group.ticks for group in groups) * 6,
            estimate=_estimate(visit, filters),
            rows=[names.of_charge(charge) for charge in found.rows],
            returns=[names.of_return(one) for one in returns],
            filters=filters,
            months=_months(visit, filters),
            groupings=_groupings(here, filters),
            narrowed_to=names.narrowed_to(filters),
            all_url=here + _wide(filters).query(),
            next=here + filters.query(after=found.next_cursor) if found.next_cursor else "",
            first=here + filters.query() if cursor else "",
            csv=f"{here}.csv{filters.query()}",
            zone=settings.BILLING_TIME_ZONE,
            tabs=tabs_of(visit),
        ),
    )


def _estimate(visit: Visit, filters: Filters) -> int | None:
    if filters.instance_id or filters.project_id:
        return None
    return unposted_by_period(tenant_id=visit.tenant.id).get(filters.period, 0)


def _wide(filters: Filters) -> Filters:
    return Filters(period=filters.period, by=filters.by, instance_id=None, project_id=None)


def _months(visit: Visit, filters: Filters) -> list[tuple[date, str, bool]]:
    """The months since the tenant began, as choices: day, value, whether it is shown."""
    latest = period_of(visit.now, billing_zone())
    months = months_back(latest, since=period_of(visit.tenant.created_at, billing_zone()))
    if filters.period not in months:
        months.append(filters.period)
    return [(month, f"{month:%Y-%m}", month == filters.period) for month in months]


def _groupings(here: str, filters: Filters) -> list[Choice]:
    labels = {"instance": _("By instance"), "project": _("By project"), "day": _("By day")}
    return [
        Choice(label=label, url=here + filters.query(by=by), is_chosen=by == filters.by)
        for by, label in labels.items()
    ]


class _Names:
    """Names of the instances and projects on a page. Two queries."""

    def __init__(
        self,
        visit: Visit,
        groups: Sequence[Group],
        lines: Sequence[Charge | Reversal],
        filters: Filters,
    ) -> None:
        self.home = visit.home
        keys = {group.key for group in groups if isinstance(group.key, uuid.UUID)}
        keys |= {line.run.instance_id for line in lines}
        keys |= {key for key in (filters.instance_id, filters.project_id) if key}
        self.instances = names_of_instances(visit.tenant.id, keys)
        self.projects = names_of_projects(visit.tenant.id)

    def cost_url(self, instance_id: uuid.UUID) -> str:
        return f"{self.home}instances/{ids.to_text('ins', instance_id)}?tab=cost"

    def of_group(self, group: Group, filters: Filters) -> GroupShown:
        here = f"{self.home}billing/charges"
        if filters.by == "day":
            return GroupShown(group=group, name="", text_id="", url="")
        if filters.by == "project":
            text = ids.to_text("prj", group.key)
            narrowed = here + filters.query(project=text, by="")
            name = self.projects.get(group.key, text)
            return GroupShown(group=group, name=name, text_id=text, url=narrowed)
        text = ids.to_text("ins", group.key)
        return GroupShown(
            group=group,
            name=self.instances.get(group.key, text),
            text_id=text,
            url=here + filters.query(instance=text, by="day"),
            cost_url=self.cost_url(group.key),
        )

    def of_charge(self, charge: Charge) -> ChargeShown:
        segment, started = charge.segment, start_of(charge.run)
        share = Fraction(segment.share_numerator, segment.share_denominator)
        price = 0 if segment.cover is not None else charge.price_version.price
        ticks = charge.units.upper - charge.units.lower
        after = charge.units_before + ticks
        return ChargeShown(
            charge=charge,
            name=self.instances.get(charge.run.instance_id, ""),
            project=self.projects.get(charge.project_id, ""),
            from_at=start_of_tick(started, charge.units.lower),
            until_at=start_of_tick(started, charge.units.upper),
            ticks=ticks,
            before=charge.units_before,
            after=after,
            price=price,
            share="" if share == 1 else str(share),
            low=price_of_ticks(charge.units_before, price=price, share=share),
            high=price_of_ticks(after, price=price, share=share),
            cost_url=self.cost_url(charge.run.instance_id),
            text_id=ids.to_text("chg", charge.id),
            is_covered=segment.cover is not None,
        )

    def of_return(self, reversal: Reversal) -> ReturnShown:
        instance_id = reversal.run.instance_id
        return ReturnShown(
            reversal=reversal,
            name=self.instances.get(instance_id, ""),
            ticks=reversal.units.upper - reversal.units.lower,
            cost_url=self.cost_url(instance_id),
        )

    def narrowed_to(self, filters: Filters) -> str:
        if filters.instance_id:
            return self.instances.get(filters.instance_id, ids.to_text("ins", filters.instance_id))
        if filters.project_id:
            return self.projects.get(filters.project_id, ids.to_text("prj", filters.project_id))
        return ""


def start_of(run: Run) -> datetime:
    """Return the start of tick 0, which every run has that was charged."""
    if run.started_at is None:
        raise ValueError(f"the run {run.id} was charged and never started")
    return run.started_at


def names_of_instances(tenant_id: uuid.UUID, keys: set[Any]) -> dict[uuid.UUID, str]:
    found = Instance.objects.of(tenant_id).filter(pk__in=keys)
    return dict(found.values_list("pk", "name"))


def names_of_projects(tenant_id: uuid.UUID) -> dict[uuid.UUID, str]:
    return dict(Project.objects.of(tenant_id).values_list("pk", "name"))
