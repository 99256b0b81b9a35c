"""
Passes over instances: place, sync, deadlines, compare. Each is safe to repeat, at any time, by
several workers at once: what decides is read under the lock of the one instance at hand.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import structlog
from django.db import InterfaceError, connection, models, transaction
from django.db.models import DateTimeField, Exists, ExpressionWrapper, F, OuterRef, Q

from billing.models import Run
from billing.services import runs
from rental.instances import money, operations
from rental.instances.facts import Facts, read_facts
from rental.instances.level import (
    end_session,
    fail,
    finish_release,
    finish_stop,
    level,
    locked_instance,
    release,
)
from rental.instances.models import HAS_TIMERS, Health, Instance, OperationKind
from rental.instances.notices import level_balance_notices
from rental.instances.states import ALLOWANCE, COMING_UP, InstanceState
from rental.records.audit import SYSTEM, record_event
from rental.records.ids import to_text
from scheduler.models import Allocation, LivenessStatus, NodeLiveness, Residence
from scheduler.services import allocations
from scheduler.services.liveness import is_listening
from scheduler.services.place import PassResult, Placed, run_pass
from scheduler.services.reclaims import level_reclaims
from scheduler.services.requests import cancel_request

log = structlog.get_logger()
S = InstanceState

BATCH = 500
# States in which a node is waited for: their deadlines count only while it can be heard.
WAITS_FOR_NODE = (*COMING_UP, S.STOPPING, S.RELEASING, S.MIGRATING)
# What a stop timer ends; what waits in the queue is ended as soon as it is placed.
MAY_BE_STOPPED = (*COMING_UP, S.RUNNING)
# A run may be open here (DESIGN §5); anywhere else it is closed and reported.
MAY_HAVE_OPEN_RUN = (S.QUEUED, *COMING_UP, S.RUNNING, S.MIGRATING)


# --- place


def place(*, now: datetime) -> PassResult:
    """Run the scheduler's pass; open the runs of what it places in its own transaction."""

    def on_placed(items: Sequence[Placed]) -> None:
        money.open_placed(items, now=now)

    result = run_pass(now=now, on_placed=on_placed)
    decided = [item.instance_id for item in result.placed]
    decided += [item.instance_id for item in result.expired]
    each(_level_one, decided, now=now)
    level_reclaims(now=now)
    return result


# --- sync


def sync(*, now: datetime) -> int:
    """
    Level the instances whose allocation or run was marked from below, then the notices. Returns
    how many marks there were.

    A mark is deleted after its instance was levelled, and only if nobody has written it again
    since it was read (``xmin`` tells): a change is never lost, a crash only repeats work. Marks
    are not kept locked meanwhile, since their writers hold rows that levelling needs.
    """
    levelled = _sync_marks(
        "scheduler_allocationdirty", "allocation_id", _instances_of_allocations, now=now
    )
    levelled += _sync_marks("billing_rundirty", "run_id", _instances_of_runs, now=now)
    each(_level_one, _nothing_left(), now=now)
    level_balance_notices(now=now)
    return levelled


def _nothing_left() -> "models.QuerySet[Instance, uuid.UUID]":
    """Return the releasing instances that no node holds anything of: a wiped disk marks nothing."""
    held = Allocation.objects.held().filter(instance_id=OuterRef("pk"))
    disks = Residence.objects.filter(instance_id=OuterRef("pk"), wiped_at__isnull=True)
    return (
        Instance.objects.filter(~Exists(held), ~Exists(disks), state=S.RELEASING)
        .order_by("pk")
        .values_list("pk", flat=True)[:BATCH]
    )


def _sync_marks(
    table: str,
    column: str,
    instances_of: Callable[[Iterable[uuid.UUID]], dict[uuid.UUID, uuid.UUID]],
    *,
    now: datetime,
) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column}, xmin::text FROM {table} ORDER BY {column} LIMIT {BATCH}")
        marks = dict(cursor.fetchall())
    if not marks:
        return 0
    owners = instances_of(marks)
    failed = each(_level_one, sorted(set(owners.values())), now=now)
    done = [(mark, marks[mark]) for mark in marks if owners.get(mark) not in failed]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {table} WHERE {column} IN ("
            f" SELECT mark.{column} FROM {table} AS mark"
            f" JOIN unnest(%s::uuid[], %s::text[]) AS seen (id, version)"
            f" ON mark.{column} = seen.id AND mark.xmin::text = seen.version"
            f" FOR UPDATE OF mark SKIP LOCKED)",
            [[mark for mark, _version in done], [version for _mark, version in done]],
        )
    return len(marks)


def _instances_of_allocations(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    rows = Allocation.objects.filter(pk__in=list(ids))
    return dict(rows.values_list("pk", "instance_id"))


def _instances_of_runs(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    return dict(Run.objects.filter(pk__in=list(ids)).values_list("pk", "instance_id"))


# --- compare


def compare_everything(*, now: datetime) -> int:
    """
    Level every instance that may have to move, whoever marked it or did not; then check the
    table of states against the runs. Every 5 minutes: it makes every mark and hint a mere hint.
    """
    resting = (S.STOPPED, S.FAILED, S.RECYCLED, S.DELETED)
    ids = list(
        Instance.objects.exclude(state__in=resting).order_by("pk").values_list("pk", flat=True)
    )
    each(_level_one, ids, now=now)
    _close_stray_runs(now=now)
    return len(ids)


def _close_stray_runs(*, now: datetime) -> None:
    """Close runs that are open although their instance does not run: money follows runs."""
    strays = (
        Instance.objects.exclude(state__in=MAY_HAVE_OPEN_RUN)
        # An open run is never settled; said for the index, which has no settled runs.
        .filter(
            pk__in=Run.objects.filter(closed_at__isnull=True, settled=False).values("instance_id")
        )
        .values_list("pk", flat=True)
    )

    def close(instance: Instance, *, now: datetime) -> None:
        if instance.state in MAY_HAVE_OPEN_RUN:
            return
        for run in Run.objects.filter(instance_id=instance.id, closed_at__isnull=True):
            log.error("instance.stray_run", instance=str(instance.id), run=str(run.id))
            runs.close_run(run_id=run.id, at=instance.state_at, reason="stray")

    each(close, list(strays), now=now)


# --- deadlines


def deadlines(*, now: datetime) -> int:
    """
    Move on what is late, and end what a timer ends. Returns how many instances were looked at.

    Deadlines of a node count only while it is live and the control plane has listened for 60 s
    without a break: otherwise they are put off, so that nobody is failed for our silence.
    """
    listening = is_listening(now=now)
    if put_off := _put_off(now=now, listening=listening):
        log.info("instance.deadlines_put_off", count=put_off)
    late = list(
        Instance.objects.filter(state__in=sorted(ALLOWANCE), deadline_at__lte=now)
        .order_by("deadline_at")
        .values_list("pk", flat=True)[:BATCH]
    )
    timed = list(_timers_due(now=now)[:BATCH])
    each(_expire, late, now=now)
    each(_end_by_timer, timed, now=now)
    return len(late) + len(timed)


def _put_off(*, now: datetime, listening: bool) -> int:
    """Give the whole allowance back where the node cannot be heard. Never brings one nearer."""
    waiting = Instance.objects.filter(state__in=WAITS_FOR_NODE)
    if listening:
        dark = NodeLiveness.objects.exclude(status=LivenessStatus.LIVE).values("node_id")
        unheard = Allocation.objects.held().filter(
            Q(node_id__in=dark) | Q(node__liveness__isnull=True)
        )
        # What an instance has left keeps it from nothing but from being deleted.
        homes = unheard.filter(abandoned_at=None)
        # A stopped instance that is released has nothing there but its disks.
        unwiped = Residence.objects.filter(node_id__in=dark, wiped_at__isnull=True)
        waiting = waiting.filter(
            Q(pk__in=homes.values("instance_id"))
            | Q(state=S.RELEASING, pk__in=unheard.values("instance_id"))
            | Q(state=S.RELEASING, pk__in=unwiped.values("instance_id"))
        )
    put_off = 0
    for state in WAITS_FOR_NODE:
        allowance = ALLOWANCE[state]
        # Written again only when a good part is used up: rows are not touched every 5 s.
        put_off += waiting.filter(state=state, deadline_at__lt=now + allowance * 3 / 4).update(
            deadline_at=now + allowance
        )
    return put_off


def _expire(instance: Instance, *, now: datetime) -> None:
    """End a state that has lasted too long; the exit of each is DESIGN §5's."""
    level(instance, now=now)
    state = S(instance.state)
    if instance.deadline_at is None or instance.deadline_at > now:
        return
    facts = read_facts(instance)
    if state is S.QUEUED:
        if cancel_request(instance_id=instance.id, now=now):
            fail(instance, facts, code="queue_expired", now=now)
        else:
            level(instance, now=now)
    elif state in COMING_UP:
        fail(instance, facts, code=f"{state}_late", now=now)
    elif state is S.MIGRATING:
        fail(instance, facts, code="migration_late", now=now)
    elif state is S.STOPPING:
        _tell_operator(instance, "instance.stop_late", now=now)
        instance.health = Health.UNKNOWN
        instance.save(update_fields=["health"])
        finish_stop(instance, now=now, waits_for_node=True)
    elif state is S.RELEASING:
        # The customer is free already; only the operator can help the node.
        _tell_operator(instance, "instance.release_late", now=now)
        Instance.objects.filter(pk=instance.pk).update(deadline_at=now + ALLOWANCE[state])
    elif state is S.RECYCLED:
        allocations.release_residences(instance_id=instance.id, now=now)
        finish_release(instance, now=now)


def _tell_operator(instance: Instance, verb: str, *, now: datetime) -> None:
    facts: Facts = read_facts(instance)
    node = str(facts.allocation.node_id) if facts.allocation is not None else None
    record_event(
        tenant_id=instance.tenant_id,
        actor=SYSTEM,
        verb=verb,
        subject=to_text("ins", instance.id),
        after={"state": instance.state, "node": node},
        now=now,
    )
    log.warning(verb, instance=str(instance.id), node=node)


# --- timers


def _timers_due(*, now: datetime) -> "models.QuerySet[Instance, uuid.UUID]":
    longest = ExpressionWrapper(
        F("session_ready_at") + F("max_duration_s") * timedelta(seconds=1),
        output_field=DateTimeField(),
    )
    return (
        Instance.objects.filter(HAS_TIMERS, timers_session=F("session"))
        .annotate(longest_until=longest)
        .filter(
            Q(state__in=MAY_BE_STOPPED, auto_stop_at__lte=now)
            | Q(state__in=MAY_BE_STOPPED, longest_until__lte=now)
            | Q(auto_release_at__lte=now)
        )
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def _end_by_timer(instance: Instance, *, now: datetime) -> None:
    """The instant that counts for money is the one in the row, not the sweep's."""
    level(instance, now=now)
    if instance.timers_session != instance.session:
        return
    if instance.auto_release_at is not None and instance.auto_release_at <= now:
        _release_by_timer(instance, now=now)
        return
    if instance.state not in MAY_BE_STOPPED:
        return
    due = [(instance.auto_stop_at, "auto_stop")]
    if instance.max_duration_s is not None and instance.session_ready_at is not None:
        longest = timedelta(seconds=instance.max_duration_s)
        due.append((instance.session_ready_at + longest, "max_duration"))
    passed = [(at, code) for at, code in due if at is not None and at <= now]
    if passed:
        at, code = min(passed)
        end_session(instance, read_facts(instance), reason={"code": code}, at=at, now=now)


def _release_by_timer(instance: Instance, *, now: datetime) -> None:
    if instance.protected or instance.state in (S.RELEASING, S.RECYCLED, S.DELETED):
        return
    if instance.state == S.QUEUED and not cancel_request(instance_id=instance.id, now=now):
        level(instance, now=now)
    operations.begin(instance, OperationKind.RELEASE, now=now)
    release(instance, reason={"code": "auto_release"}, now=now)


# --- one by one


def _level_one(instance: Instance, *, now: datetime) -> None:
    level(instance, now=now)


def each(
    act: Callable[..., None], instance_ids: Iterable[uuid.UUID], *, now: datetime
) -> set[uuid.UUID]:
    """
    Apply ``act`` to each instance under its locks, in a transaction of its own. One that fails
    is logged and left for the next pass: it must not stop the others. Returns those.
    """
    failed: set[uuid.UUID] = set()
    tenants = dict(
        Instance.objects.filter(pk__in=list(instance_ids)).values_list("pk", "tenant_id")
    )
    for instance_id in sorted(tenants):
        try:
            with transaction.atomic():
                instance = locked_instance(
                    tenant_id=tenants[instance_id], instance_id=instance_id, now=now
                )
                act(instance, now=now)
        except InterfaceError:
            raise  # the connection is gone: nothing more can be done in this pass
        except Exception:
            failed.add(instance_id)
            log.exception("instance.pass_failed", instance=str(instance_id))
    return failed
