"""The list of instances, one row of it, and what the palette finds."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.http import HttpResponse

from billing.services.wallets import Balance
from rental.instances.queries import count_by_word, list_for_page
from rental.instances.states import StateWord
from rental.records.paging import ForeignCursor
from rental.tenants.models import Project
from rental.web.forms.instances import SORTS, Filters, read_filters
from rental.web.pages.instances.finding import balance_for, row_of
from rental.web.pages.instances.shown import Shown, shown_of
from rental.web.visit import Visit, page

PAGE_ROWS = 50
MOST_FOUND = 8


@dataclass(frozen=True, kw_only=True)
class WordChoice:
    """A filter by word. ``query``: the address's query that chooses it."""

    value: str
    label: str
    count: int | None
    is_chosen: bool
    query: str


@dataclass(frozen=True, kw_only=True)
class ListContext:
    """
    ``total``: how many the tenant has that are not deleted; ``here``, ``next``: the queries of this
    page and the next one.
    """

    rows: list[Shown]
    filters: Filters
    words: list[WordChoice]
    projects: list[Project]
    total: int
    here: str
    next: str
    balance: Balance | None
    sorts: tuple[tuple[str, object], ...] = SORTS
    nav: str = "instances"


@page("instances:read")
def show_list(visit: Visit) -> HttpResponse:
    filters = read_filters(visit.request.GET.dict())
    balance = balance_for(visit)
    try:
        found = list_for_page(
            visit.tenant.id,
            now=visit.now,
            may=visit.may,
            words=filters.words,
            search=filters.q,
            project_id=filters.project_id,
            sort=filters.sort,
            limit=PAGE_ROWS,
            cursor=filters.after,
            balance=balance,
        )
    except ForeignCursor:  # a link of another list, or of before a change of the filter
        return visit.redirect(f"{visit.home}instances{filters.query()}")
    return visit.render(
        "web/instances/list.html",
        ListContext(
            rows=shown_of(found.rows, visit, marked=visit.request.GET.getlist("id")),
            balance=balance,
            filters=filters,
            words=_words(filters, found.counts),
            projects=list(Project.objects.of(visit.tenant.id).order_by("name")),
            total=_total(found.counts),
            here=filters.query(after=filters.after),
            next=filters.query(after=found.next_cursor) if found.next_cursor else "",
        ),
    )


def _total(counts: Mapping[StateWord, int]) -> int:
    return sum(n for word, n in counts.items() if word is not StateWord.DELETED)


def _words(filters: Filters, counts: Mapping[StateWord, int]) -> list[WordChoice]:
    return [
        WordChoice(
            value=word.value,
            label=str(word.label),
            count=counts[word],
            is_chosen=filters.word == word.value,
            query=filters.query(word=word.value),
        )
        for word in StateWord
    ]


@dataclass(frozen=True, kw_only=True)
class CountsContext:
    words: list[WordChoice]
    total: int


@page("instances:read")
def show_counts(visit: Visit) -> HttpResponse:
    """How many there are of each word: fetched anew when one has changed its word."""
    counts = count_by_word(visit.tenant.id)
    page = CountsContext(words=_words(read_filters({}), counts), total=_total(counts))
    return visit.render("web/instances/_counts.html", page)


@dataclass(frozen=True, kw_only=True)
class RowContext:
    shown: Shown


@page("instances:read")
def show_row(visit: Visit, instance_id: uuid.UUID) -> HttpResponse:
    """One row, fetched anew when it has changed; its box keeps what ``id`` says."""
    row = row_of(visit, instance_id)
    (shown,) = shown_of([row], visit, marked=visit.request.GET.getlist("id"))
    return visit.render("web/instances/_row.html", RowContext(shown=shown))


@dataclass(frozen=True, kw_only=True)
class FoundContext:
    found: list[Shown] = field(default_factory=list)


@page("instances:read")
def show_found(visit: Visit) -> HttpResponse:
    """What the command palette shows for ``q``: options that lead to instances."""
    search = visit.request.GET.get("q", "").strip()[:100]
    if not search:
        return visit.render("web/instances/_found.html", FoundContext())
    found = list_for_page(
        visit.tenant.id, now=visit.now, may=visit.may, search=search, limit=MOST_FOUND
    )
    return visit.render(
        "web/instances/_found.html", FoundContext(found=shown_of(found.rows, visit))
    )
