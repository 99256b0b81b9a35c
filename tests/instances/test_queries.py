"""What pages read: as much as there is, in a fixed number of queries, and only legal actions."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from billing.errors import InsufficientBalance
from billing.models import Wallet
from rental.instances import errors, passes, services
from rental.instances.models import Instance
from rental.instances.queries import (
    effect_of,
    events_of,
    get_for_page,
    list_for_page,
    with_actions,
)
from rental.instances.states import StateWord
from rental.records.ids import to_text
from rental.records.paging import ForeignCursor
from rental.tenants.models import Tenant
from tests.factories.rental import (
    NOON,
    PERSON,
    PRICE,
    ZONE,
    allocation_of,
    confirm_wiped,
    fresh,
    make_node,
    make_rich_tenant,
    make_running,
    order,
    run_up,
    says,
    seconds,
)

pytestmark = pytest.mark.django_db
LATER = NOON + seconds(60)


def anything(verb):
    return True


def reading(verb):
    return verb.endswith(":read")


def command(verb, instance, *, now=LATER):
    return getattr(services, f"{verb}_instance")(
        tenant_id=instance.tenant_id, instance_id=instance.id, actor=PERSON, now=now
    )


def page(tenant, **rest):
    return list_for_page(tenant.id, now=LATER, may=anything, **rest)


def sheet(instance, may=anything, now=LATER):
    return get_for_page(instance.tenant_id, instance.id, now=now, may=may)


def count_queries(act):
    with CaptureQueriesContext(
        connection,
    ) as seen:
        act()
    return len(seen)


# --- lists


def test_a_list_costs_the_same_number_of_queries_for_3_and_for_30(market, tenant):
    make_node(gpus=2)
    orders = [order(tenant, count=1)[0] for _ in range(3)]
    command("stop", orders[1])
    run_up(orders[0])
    few = count_queries(lambda: page(tenant))
    for _ in range(27):
        (instance,) = order(tenant)
        command("stop", instance)

    assert count_queries(lambda: page(tenant)) == few
    assert len(page(tenant).rows) == 30
    assert few <= 18


def test_a_row_says_what_it_costs_since_when_and_how_to_reach_it(market, tenant):
    instance = make_running(tenant)
    (waiting,) = order(tenant)

    rows = {row.instance.pk: row for row in page(tenant).rows}

    running, queued = rows[instance.pk], rows[waiting.pk]
    assert (running.price, running.burn, running.uptime) == (PRICE, PRICE, seconds(60))
    assert (running.ssh["host"], running.ssh["port"]) == ("127.0.0.1", 22022)
    assert (queued.price, queued.burn, queued.uptime, queued.ssh) == (PRICE, 0, None, None)
    assert queued.operation["kind"] == "create"
    assert queued.waiting["reasons"] == {}


def test_a_list_is_filtered_sorted_and_paged(market, tenant):
    names = ["beta", "alpha", "gamma"]
    made = {name: order(tenant, name=name)[0] for name in names}
    stranger = make_rich_tenant()
    order(stranger, name="alpha")
    command("stop", made["gamma"])
    command("release", made["gamma"])

    def shown(**rest):
        return [row.instance.name for row in page(tenant, **rest).rows]

    assert shown() == ["alpha", "beta"]
    assert shown(sort="created") == ["beta", "alpha"]
    assert shown(sort="-name") == ["beta", "alpha"]
    assert shown(words=["deleted"]) == ["gamma"]
    assert shown(words=["waiting", "deleted"], sort="name") == ["alpha", "beta", "gamma"]
    assert shown(search="ALPH") == ["alpha"]
    assert shown(search=to_text("ins", made["beta"].pk)) == ["beta"]
    assert shown(search=to_text("ins", Instance.objects.of(stranger.id).get().pk)) == []
    assert shown(project_id=stranger.id) == []
    counts = page(tenant).counts
    assert (counts[StateWord.WAITING], counts[StateWord.DELETED]) == (2, 1)

    first = page(tenant, sort="name", limit=1)
    assert [row.instance.name for row in first.rows] == ["alpha"]
    assert shown(sort="name", limit=1, cursor=first.next_cursor) == ["beta"]
    with pytest.raises(ForeignCursor):
        page(stranger, sort="name", cursor=first.next_cursor)


# --- one


def test_a_sheet_tells_zone_run_and_the_last_operation(market, tenant):
    instance = make_running(tenant)

    shown = sheet(instance)

    assert (shown.zone, shown.run.id) == (ZONE, allocation_of(instance).run_id)
    assert shown.operation is None
    assert (shown.last_operation["kind"], shown.last_operation["state"]) == ("create", "succeeded")
    assert [step["name"] for step in shown.last_operation["steps"]][-1] == "ssh_ready"
    assert get_for_page(make_rich_tenant().id, instance.id, now=NOON, may=anything) is None


def test_a_sheet_tells_the_nodes_own_words_of_a_failed_start(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)
    says(instance, "failed", now=LATER, reason="start_failed", detail="no such image: x")

    shown = sheet(instance)

    assert shown.error == "start_failed no such image: x"
    assert (shown.zone, shown.last_operation["state"]) == (ZONE, "failed")


# --- actions


def at(state, tenant):
    """Return an instance in the state, brought there as it comes there in life."""
    (instance,) = order(tenant)
    if state == "queued":
        return fresh(instance)
    passes.place(now=NOON)
    phases = ["accepted", "starting", "running"]
    upto = {"pulling": 1, "starting": 2}.get(state, 3)
    for phase in phases[:upto]:
        says(instance, phase, now=NOON)
    if state == "failed":
        says(instance, "failed", now=NOON, reason="container_lost")
    if state in ("stopping", "stopped", "deleted"):
        command("stop", instance, now=NOON)
    if state in ("stopped", "deleted"):
        says(instance, "gone", now=NOON)
    if state in ("releasing", "deleted"):
        command("release", instance, now=NOON)
    if state == "deleted":
        confirm_wiped(instance, now=NOON)
    assert fresh(instance).state == state
    return fresh(instance)


STATES = [
    "queued", "pulling", "starting", "running", "stopping", "stopped", "failed", "releasing",
    "deleted",
]  # fmt: skip


class Undone(Exception):
    pass


def is_done(verb, instance):
    """Say whether the service takes the command and does something; undo it."""
    before = fresh(instance).generation
    try:
        with transaction.atomic():
            row = command(verb, instance)
            raise Undone(row.generation != before)
    except Undone as undone:
        return undone.args[0]
    except (errors.NotPossibleNow, errors.InstanceLocked, errors.InstanceProtected):
        return False
    except (errors.TenantNotActive, InsufficientBalance):
        return False


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("fact", ["", "locked", "protected", "suspended", "poor"])
def test_what_is_offered_is_what_the_service_does(market, tenant, state, fact):
    instance = at(state, tenant)
    rows = Instance.objects.filter(pk=instance.pk)
    if fact == "locked":
        rows.update(locks=["financial"])
    elif fact == "protected":
        rows.update(protected=True)
    elif fact == "suspended":
        Tenant.objects.filter(pk=tenant.pk).update(status="suspended")
    elif fact == "poor":
        Wallet.objects.filter(tenant=tenant).update(posted=PRICE // 2 - 1)

    offered = sheet(instance).actions

    for verb in ("stop", "start", "restart", "release"):
        assert offered[verb].legal == is_done(verb, instance), verb
        assert bool(offered[verb].why) is not offered[verb].legal


def test_whoever_may_only_look_is_offered_nothing_and_told_why(market, tenant):
    actions = sheet(make_running(tenant), may=reading).actions

    assert not any(action.legal for action in actions.values())
    assert actions["stop"].code == "role"
    assert actions["start"].code == "state"


def test_the_api_lists_what_is_legal_in_this_state(market, tenant):
    (instance,) = with_actions([make_running(tenant)], anything)

    assert instance.shown_actions == [
        "stop", "restart", "release", "rename", "protect", "set_timers", "set_ssh_keys",
        "set_password_login", "set_failover",
    ]  # fmt: skip


def test_a_start_that_is_not_covered_is_not_offered_and_says_why(market, tenant):
    instance = at("stopped", tenant)
    needed = -(-PRICE // 2)
    Wallet.objects.filter(tenant=tenant).update(posted=needed)
    assert sheet(instance).actions["start"].legal

    Wallet.objects.filter(tenant=tenant).update(posted=needed - 1)

    assert sheet(instance).actions["start"].code == "balance"


# --- effects


def test_a_stop_ends_the_burn_and_keeps_the_disk(market, tenant):
    instance = make_running(tenant)

    effect = effect_of(instance, "stop", now=LATER)

    assert (effect.burn_ends, effect.burn_begins, effect.disk_per_hour) == (PRICE, 0, 0)
    assert [str(words) for words in effect.kept] == [
        "the disk with everything on it",
        "name, id, keys and settings",
    ]
    assert "the timers of this session" not in map(str, effect.lost)


def test_a_stop_in_the_queue_gives_the_hold_back_and_loses_nothing(market, tenant):
    (instance,) = order(tenant)

    effect = effect_of(instance, "stop", now=LATER)

    assert (effect.burn_ends, effect.freed, effect.lost) == (0, PRICE, ())


def test_a_start_names_what_it_costs_and_needs(market, tenant):
    effect = effect_of(at("stopped", tenant), "start", now=LATER)

    assert (effect.burn_begins, effect.needed, effect.burn_ends) == (PRICE, PRICE // 2, 0)


def test_a_release_loses_the_disk(market, tenant):
    effect = effect_of(at("stopped", tenant), "release", now=LATER)

    assert (effect.burn_ends, effect.uncharged) == (0, 0)
    assert str(effect.lost[0]) == "the disk with everything on it, for ever"


# --- events


def test_events_are_one_story_newest_first(market, tenant):
    instance = make_running(tenant)
    command("stop", instance)
    says(instance, "gone", now=LATER + seconds(2))

    story = events_of(fresh(instance), with_names=False)

    assert [(event.kind, event.verb, event.outcome) for event in story] == [
        ("operation", "stop", "succeeded"),
        ("audit", "instance.stopped", ""),
        ("operation", "create", "succeeded"),
        ("audit", "instance.created", ""),
    ]
    assert story[0].took == seconds(2)
    assert {event.actor for event in story} == {""}
    assert events_of(instance, with_names=False, before=LATER)[0].verb == "create"
    assert len(events_of(instance, with_names=False, limit=1)) == 1


def test_a_failure_says_its_reason(market, tenant):
    instance = at("failed", tenant)

    failed = next(e for e in events_of(instance, with_names=True) if e.verb == "instance.failed")

    assert (failed.actor_kind, failed.reason["code"]) == ("system", "node_failed")


def test_a_price_is_not_made_up(market, tenant):
    instance = make_running(tenant)
    Instance.objects.filter(pk=instance.pk).update(price_key="compute/none")

    assert sheet(instance).price is None
