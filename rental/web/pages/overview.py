"""The overview: what runs, what it costs, until when the money lasts, and what happens next."""

import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q
from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.month import Spending, spend_month
from billing.services.wallets import Balance
from rental.instances.models import Instance, Notice, NoticeKind, Operation, OperationState
from rental.instances.queries import InstanceRow, list_for_page
from rental.instances.states import RESTING, StateWord
from rental.records.audit import AuditEvent
from rental.records.ids import to_text
from rental.web.amounts import MINUS
from rental.web.audit_words import say_events
from rental.web.onboarding import Checklist, checklist_of
from rental.web.pages.billing.balance import Money, read_money
from rental.web.visit import Visit, page

MOST_INSTANCES: Final = 8
MOST_EVENTS: Final = 6
MOST_COMING: Final = 5
MOST_NAMED: Final = 3
LIVE: Final = (
    StateWord.WAITING.value,
    StateWord.STARTING.value,
    StateWord.RUNNING.value,
    StateWord.STOPPING.value,
)


@dataclass(frozen=True, kw_only=True)
class LiveShown:
    """An instance that runs or is about to. ``url``: its page."""

    row: InstanceRow
    url: str


@dataclass(frozen=True, kw_only=True)
class Coming:
    """Something will happen at ``at``; ``names`` says to whom, the first few."""

    at: datetime
    words: str
    names: str
    url: str
    is_bad: bool


@dataclass(frozen=True, kw_only=True)
class Happened:
    """Something was done. ``who`` is empty where that is not for this reader."""

    at: datetime
    what: str
    name: str
    url: str
    who: str


@dataclass(frozen=True, kw_only=True)
class Now:
    """
    The part that fetches itself anew. ``more``: live instances that are not shown; ``failed``: how
    many have failed; ``total``: all that are not deleted; ``had_any``: there were instances, though
    all are deleted. ``balance``, ``money``: None for whom the role does not show them.
    """

    instances: list[LiveShown]
    live: int
    more: int
    failed: int
    total: int
    had_any: bool
    money: Money | None
    balance: Balance | None
    coming: list[Coming]
    happened: list[Happened]
    read_at: datetime


@dataclass(frozen=True, kw_only=True)
class MonthShown:
    """``percent``: how much more than by the same day of the month before; None without one."""

    spending: Spending

    @property
    def percent(self) -> int | None:
        before = self.spending.before
        if before <= 0:
            return None
        more = self.spending.spent - before
        return (200 * more + before) // (2 * before)

    @property
    def percent_text(self) -> str:
        percent = self.percent or 0
        return f"{MINUS if percent < 0 else '+'}{abs(percent)} %"


@dataclass(frozen=True, kw_only=True)
class OverviewContext:
    now: Now
    balance: Balance | None
    month: MonthShown | None
    checklist: Checklist | None
    nav: str = "overview"


@page("tenant:read")
def show_overview(visit: Visit) -> HttpResponse:
    now = read_now(visit)
    return visit.render(
        "web/overview/page.html",
        OverviewContext(
            now=now,
            balance=now.balance,
            month=_month(visit) if visit.may("billing:read") else None,
            checklist=checklist_of(visit),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class NowContext:
    now: Now
    balance: Balance | None


@page("tenant:read")
def show_now(visit: Visit) -> HttpResponse:
    now = read_now(visit)
    return visit.render("web/overview/_fetched.html", NowContext(now=now, balance=now.balance))


@dataclass(frozen=True, kw_only=True)
class MonthContext:
    month: MonthShown


@page("billing:read")
def show_month(visit: Visit) -> HttpResponse:
    """Apart from the rest: it changes once an hour and reads the charges of two months."""
    return visit.render("web/overview/_month.html", MonthContext(month=_month(visit)))


def _month(visit: Visit) -> MonthShown:
    return MonthShown(spending=spend_month(tenant_id=visit.tenant.id, now=visit.now))


def read_now(visit: Visit) -> Now:
    """Read the part that changes; a fixed number of queries, whatever the fleet."""
    found = list_for_page(
        visit.tenant.id, now=visit.now, may=visit.may, words=LIVE, limit=MOST_INSTANCES
    )
    live = sum(found.counts[StateWord(word)] for word in LIVE)
    money = read_money(visit) if visit.may("billing:read") else None
    return Now(
        instances=[LiveShown(row=row, url=_page_of(visit, row.instance.pk)) for row in found.rows],
        live=live,
        more=live - len(found.rows),
        failed=found.counts[StateWord.FAILED],
        total=sum(n for word, n in found.counts.items() if word is not StateWord.DELETED),
        had_any=any(found.counts.values()),
        money=money,
        balance=money.balance if money else None,
        coming=_coming(visit),
        happened=_audited(visit) if visit.may("audit:read") else _operations(visit),
        read_at=visit.now,
    )


def _page_of(visit: Visit, instance_id: uuid.UUID) -> str:
    return f"{visit.home}instances/{to_text('ins', instance_id)}"


# --- what comes


def _coming(visit: Visit) -> list[Coming]:
    coming = [*_notices(visit), *_timers(visit)]
    return sorted(coming, key=lambda one: one.at)[:MOST_COMING]


def _notices(visit: Visit) -> list[Coming]:
    """One line for all instances that the same notice is for. One query."""
    groups: defaultdict[tuple[str, datetime], list[tuple[datetime, str]]] = defaultdict(list)
    standing = Notice.objects.of(visit.tenant.id).standing().order_by("deadline", "instance__name")
    for kind, deadline, name in standing.values_list("kind", "deadline", "instance__name"):
        groups[kind, deadline.replace(second=0, microsecond=0)].append((deadline, name))
    return [
        Coming(
            at=notices[0][0],
            words=_notice_words(kind, len(notices)),
            names=_names([name for _deadline, name in notices]),
            url=f"{visit.home}billing" if kind == NoticeKind.BALANCE else "",
            is_bad=True,
        )
        for (kind, _minute), notices in groups.items()
    ]


def _notice_words(kind: str, count: int) -> str:
    if kind == NoticeKind.BALANCE:
        return ngettext(
            "The balance is used up: %(n)s instance stops and keeps its disk.",
            "The balance is used up: %(n)s instances stop and keep their disks.",
            count,
        ) % {"n": count}
    if kind == NoticeKind.MAINTENANCE:
        return ngettext(
            "A node is worked on: %(n)s instance is moved, or stops and keeps its disk.",
            "Nodes are worked on: %(n)s instances are moved, or stop and keep their disks.",
            count,
        ) % {"n": count}
    if kind == NoticeKind.SPOT:
        return ngettext(
            "The place of %(n)s spot instance is needed: it stops and keeps its disk.",
            "The places of %(n)s spot instances are needed: they stop and keep their disks.",
            count,
        ) % {"n": count}
    return str(dict(NoticeKind.choices).get(kind, kind))


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) <= MOST_NAMED:
        return shown
    return _("%(names)s and %(n)s more") % {"names": shown, "n": len(names) - MOST_NAMED}


def _timers(visit: Visit) -> list[Coming]:
    """Stops that somebody has set. One query."""
    timed = Q(auto_stop_at__isnull=False) | Q(max_duration_s__isnull=False)
    instances = Instance.objects.of(visit.tenant.id).filter(timed).exclude(state__in=RESTING)
    instances = instances.only(
        "name", "auto_stop_at", "max_duration_s", "session_ready_at", "timers_session", "session"
    )
    found = []
    for instance in instances.order_by("pk")[:200]:
        row = InstanceRow(instance=instance, now=visit.now, price=None, actions={})
        if row.stops_at is not None:
            found.append(
                Coming(
                    at=row.stops_at,
                    words=_("Stops by its timer and keeps its disk."),
                    names=instance.name,
                    url=_page_of(visit, instance.pk),
                    is_bad=False,
                )
            )
    return found


# --- what was


def _audited(visit: Visit) -> list[Happened]:
    """The last changes, with who made them. Four queries."""
    events = AuditEvent.objects.of(visit.tenant.id).order_by("-at", "-id")[:MOST_EVENTS]
    said = say_events(list(events), tenant_id=visit.tenant.id, home=visit.home)
    return [
        Happened(at=one.event.at, what=one.what, name=one.name, url=one.url, who=one.who)
        for one in said
    ]


def _operations(visit: Visit) -> list[Happened]:
    """The last commands on instances, for whom the audit log is closed. One query."""
    operations = Operation.objects.of(visit.tenant.id).select_related("instance")
    return [
        Happened(
            at=one.finished_at or one.created_at,
            what=_operation_words(one),
            name=one.instance.name,
            url=_page_of(visit, one.instance_id),
            who="",
        )
        for one in operations.order_by("-pk")[:MOST_EVENTS]
    ]


def _operation_words(operation: Operation) -> str:
    kind = operation.get_kind_display()
    if operation.state == OperationState.SUCCEEDED:
        return str(kind)
    return f"{kind}: {operation.get_state_display()}"
