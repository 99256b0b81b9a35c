"""
What API and console read of instances: each a fixed number of queries, whatever the fleet.

What stands in other tables is put on the instance as ``shown_endpoints`` (list), ``shown_notice``,
``shown_operation`` and ``shown_request`` (None without one): dictionaries of the columns below.
"""

import json
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Literal

from django.db import connection
from django.db.models import Count, Q

from billing.models import PriceVersion, Run
from billing.services.ledger import arrears_of
from billing.services.wallets import Balance, read_balance
from rental.instances.actions import (
    STATES,
    Action,
    Conditions,
    Verb,
    legal_actions,
    legal_verbs,
)
from rental.instances.effects import Effect, effect_of
from rental.instances.history import Event, events_of
from rental.instances.models import Endpoint, Instance, Notice, Operation, Secret
from rental.instances.states import WORDS, InstanceState, StateWord, state_word
from rental.records import ids
from rental.records.paging import Key, take_page
from rental.tenants.models import Tenant
from scheduler.models import Allocation
from scheduler.models import Request as PlacementRequest

__all__ = [
    "Effect",
    "Event",
    "InstanceRow",
    "InstanceSheet",
    "ListPage",
    "effect_of",
    "events_of",
    "get_for_page",
    "legal_actions",
    "list_for_page",
    "matching",
    "with_actions",
    "with_facts",
]

May = Callable[[str], bool]
Sort = Literal["-created", "created", "name", "-name"]
SORTS: Final[dict[Sort, Key]] = {
    "-created": ("id",),
    "created": ("id",),
    "name": ("name", "id"),
    "-name": ("name", "id"),
}

# Read for every list, so written out: querysets cost four times as much (measured).
# The ids come from rows that were reached by ``.of(tenant)``.
ENDPOINTS = f"""
    SELECT id, instance_id, kind, host, port, "user", host_key_fingerprint, workspace
      FROM {Endpoint._meta.db_table} WHERE instance_id = ANY(%s) ORDER BY kind, port"""
NOTICES = f"""
    SELECT id, instance_id, kind, at, deadline FROM {Notice._meta.db_table}
     WHERE instance_id = ANY(%s) AND withdrawn_at IS NULL ORDER BY deadline DESC"""
OPERATION = "id, instance_id, kind, state, generation, steps, percent, error, created_at"
OPERATIONS = f"""
    SELECT {OPERATION}, finished_at
      FROM {Operation._meta.db_table}
     WHERE instance_id = ANY(%s) AND state = 'running'"""
LAST_OPERATIONS = f"""
    SELECT DISTINCT ON (instance_id) {OPERATION}, finished_at
      FROM {Operation._meta.db_table} WHERE instance_id = ANY(%s) ORDER BY instance_id, id DESC"""
REQUESTS = f"""
    SELECT id, instance_id, requested_at, expires_at, reasons
      FROM {PlacementRequest._meta.db_table}
     WHERE instance_id = ANY(%s) AND state = 'waiting'"""


def read_rows(
    sql: str, instance_ids: list[uuid.UUID], *, json_columns: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows as dictionaries. Django hands jsonb over as text."""
    with connection.cursor() as cursor:
        cursor.execute(sql, [instance_ids])
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in rows:
        for name in json_columns:
            row[name] = None if row[name] is None else json.loads(row[name])
    return rows


def with_facts(instances: Sequence[Instance]) -> list[Instance]:
    """
    Put on each instance what stands in other tables: endpoints, the standing notice, the running
    operation, and why it waits. Four queries, however many instances there are.
    """
    by_id = {instance.pk: instance for instance in instances}
    for instance in instances:
        facts: dict[str, Any] = {
            "shown_endpoints": [],
            "shown_notice": None,
            "shown_operation": None,
            "shown_request": None,
        }
        instance.__dict__.update(facts)
    ids = list(by_id)
    for endpoint in read_rows(ENDPOINTS, ids):
        vars(by_id[endpoint["instance_id"]])["shown_endpoints"].append(endpoint)
    for notice in read_rows(NOTICES, ids):
        vars(by_id[notice["instance_id"]])["shown_notice"] = notice
    for row in read_rows(OPERATIONS, ids, json_columns=("steps", "error")):
        vars(by_id[row["instance_id"]])["shown_operation"] = row
    for request in read_rows(REQUESTS, ids, json_columns=("reasons",)):
        vars(by_id[request["instance_id"]])["shown_request"] = request
    return list(instances)


def with_actions(instances: Sequence[Instance], may: May) -> list[Instance]:
    """
    Put ``shown_actions`` on each: the verbs that are legal in its state, for the API. Money, prices
    and secrets are left to the start itself. One query, and none where nothing could be started.
    """
    conditions = Conditions()
    if startable(instances):
        conditions = Conditions(is_active=_is_active(instances[0].tenant_id))
    writes = may("instances:write")
    for instance in instances:
        verbs = legal_verbs(instance, writes=writes, conditions=conditions)
        vars(instance)["shown_actions"] = verbs
    return list(instances)


def matching(search: str) -> Q:
    """Return what a search means: a part of the name or of the slug, or a whole id."""
    text = " ".join(search.split())
    found = Q(name__icontains=text) | Q(slug__icontains=text)
    try:
        return found | Q(pk=ids.from_text("ins", text.lower()))
    except ids.MalformedId:
        return found


# --- pages


@dataclass(frozen=True, kw_only=True)
class InstanceRow:
    """
    An instance as a page shows it at ``now``. ``price``: micro-units per hour of it now, None
    without one. ``actions``: every verb, legal or not, with the reason.
    """

    instance: Instance
    now: datetime
    price: int | None
    actions: Mapping[Verb, Action]

    @property
    def word(self) -> StateWord:
        return state_word(self.instance.state)

    @property
    def endpoints(self) -> list[dict[str, Any]]:
        """kind, host, port, user, host_key_fingerprint, workspace"""
        return list(vars(self.instance)["shown_endpoints"])

    @property
    def ssh(self) -> dict[str, Any] | None:
        return next((row for row in self.endpoints if row["kind"] == "ssh"), None)

    @property
    def notice(self) -> dict[str, Any] | None:
        """kind, at, deadline"""
        return vars(self.instance)["shown_notice"]  # type: ignore[no-any-return]

    @property
    def operation(self) -> dict[str, Any] | None:
        """The one that runs: id, kind, state, generation, steps, percent, error, created_at."""
        return vars(self.instance)["shown_operation"]  # type: ignore[no-any-return]

    @property
    def waiting(self) -> dict[str, Any] | None:
        """requested_at, expires_at, reasons"""
        return vars(self.instance)["shown_request"]  # type: ignore[no-any-return]

    @property
    def uptime(self) -> timedelta | None:
        """Since it became ready in this session; None while it is not."""
        ready_at = self.instance.session_ready_at
        return None if ready_at is None else max(timedelta(), self.now - ready_at)

    @property
    def burn(self) -> int:
        """What it costs an hour as it is, micro-units: nothing before it is ready."""
        return (self.price or 0) if self.instance.session_ready_at is not None else 0

    @property
    def stops_at(self) -> datetime | None:
        """The earlier of its timers; ``max_duration_s`` counts once it is ready."""
        instance = self.instance
        timers = [instance.auto_stop_at]
        if instance.max_duration_s is not None and instance.session_ready_at is not None:
            longest = timedelta(seconds=instance.max_duration_s)
            timers.append(instance.session_ready_at + longest)
        bound = instance.timers_session == instance.session
        return min((at for at in timers if at is not None and bound), default=None)


@dataclass(frozen=True, kw_only=True)
class ListPage:
    """``counts``: how many instances there are of each word, whatever the filter says."""

    rows: list[InstanceRow]
    next_cursor: str | None
    counts: Mapping[StateWord, int]


@dataclass(frozen=True, kw_only=True)
class InstanceSheet(InstanceRow):
    """
    All of an instance. ``zone``: where it is placed now, None if it holds no place. ``run``: the
    one that counts, or counted last. ``last_operation``: the newest, on its way or ended.
    """

    zone: str | None
    run: Run | None
    last_operation: dict[str, Any] | None

    @cached_property
    def error(self) -> str:
        """The node's own words about a failed start, "" if there are none."""
        reason = self.instance.state_reason
        of_operation = (self.last_operation or {}).get("error") or {}
        return str(reason.get("detail") or of_operation.get("detail") or "")


def list_for_page(
    tenant_id: uuid.UUID,
    *,
    now: datetime,
    may: May,
    words: Collection[str] = (),
    search: str = "",
    project_id: uuid.UUID | None = None,
    sort: Sort = "-created",
    limit: int = 50,
    cursor: str | None = None,
    balance: Balance | None = None,
) -> ListPage:
    """
    Return one page of the tenant's instances. Without ``words`` what is deleted is left out.

    :param balance: if the caller has read it anyway; starts are judged by it

    :raises ForeignCursor: if the cursor is of another list
    """
    mine = Instance.objects.of(tenant_id)
    states = [state for state, word in WORDS.items() if word in words]
    found = mine.filter(state__in=states) if words else mine.exclude(state__in=_deleted())
    if search.strip():
        found = found.filter(matching(search))
    if project_id is not None:
        found = found.filter(project_id=project_id)
    scope = f"console:instances:{tenant_id}:{sorted(words)}:{search}:{project_id}"
    page = take_page(
        found.select_related("offer", "image", "project"),
        key=SORTS[sort],
        descending=sort.startswith("-"),
        limit=limit,
        cursor=cursor,
        scope=scope,
    )
    return ListPage(
        rows=rows_of(tenant_id, page.rows, now=now, may=may, balance=balance),
        next_cursor=page.next_cursor,
        counts=count_by_word(tenant_id),
    )


def _deleted() -> list[InstanceState]:
    return [state for state, word in WORDS.items() if word is StateWord.DELETED]


def count_by_word(tenant_id: uuid.UUID) -> dict[StateWord, int]:
    """Return how many instances of the tenant there are of each word."""
    counts = Instance.objects.of(tenant_id).order_by().values_list("state").annotate(n=Count("pk"))
    by_word = dict.fromkeys(StateWord, 0)
    for state, n in counts:
        by_word[state_word(state)] += n
    return by_word


def rows_of(
    tenant_id: uuid.UUID,
    instances: Sequence[Instance],
    *,
    now: datetime,
    may: May,
    balance: Balance | None = None,
) -> list[InstanceRow]:
    """Return the rows of the tenant's instances: for lists, and for one row that has changed."""
    prices = prices_of(instances, now=now)
    conditions = conditions_of(tenant_id, instances, prices=prices, now=now, balance=balance)
    return [
        InstanceRow(
            instance=instance,
            now=now,
            price=prices.get(instance.price_key),
            actions=legal_actions(instance, may, conditions),
        )
        for instance in with_facts(instances)
    ]


def get_for_page(
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    *,
    now: datetime,
    may: May,
    balance: Balance | None = None,
) -> InstanceSheet | None:
    """Return all of an instance; None if the tenant has no such instance."""
    found = Instance.objects.of(tenant_id).select_related("offer", "image", "project", "tenant")
    instance = found.filter(pk=instance_id).first()
    if instance is None:
        return None
    (row,) = rows_of(tenant_id, [instance], now=now, may=may, balance=balance)
    place = Allocation.objects.residing().filter(instance_id=instance_id).select_related("node")
    allocation = place.first()
    last = read_rows(LAST_OPERATIONS, [instance_id], json_columns=("steps", "error"))
    return InstanceSheet(
        **vars(row),
        zone=None if allocation is None else allocation.node.zone_id,
        run=Run.objects.of(tenant_id).filter(instance_id=instance_id).order_by("-pk").first(),
        last_operation=last[0] if last else None,
    )


def prices_of(instances: Sequence[Instance], *, now: datetime) -> dict[str, int]:
    """Return micro-units per hour by price key, of the instances' keys that have a price now."""
    keys = {instance.price_key for instance in instances}
    versions = PriceVersion.objects.filter(price_key__in=keys, during__contains=now)
    return dict(versions.values_list("price_key", "price"))


def startable(instances: Sequence[Instance]) -> list[Instance]:
    return [instance for instance in instances if instance.state in STATES["start"]]


def conditions_of(
    tenant_id: uuid.UUID,
    instances: Sequence[Instance],
    *,
    prices: Mapping[str, int],
    now: datetime,
    balance: Balance | None = None,
) -> Conditions:
    """Read what decides on a start, if one of the instances could be started at all."""
    asking = startable(instances)
    if not asking:
        return Conditions(prices=prices)
    named = {name for instance in asking for name in instance.secrets}
    kept = Secret.objects.of(tenant_id).filter(name__in=named).values_list("name", flat=True)
    balance = balance or read_balance(tenant_id=tenant_id, now=now)
    return Conditions(
        is_active=_is_active(tenant_id),
        owes=arrears_of([tenant_id]).get(tenant_id, 0) > 0,
        left=balance.available - balance.held,
        secrets=frozenset(kept) if named else frozenset(),
        prices=prices,
    )


def _is_active(tenant_id: uuid.UUID) -> bool:
    return Tenant.objects.filter(pk=tenant_id, status=Tenant.Status.ACTIVE).exists()
