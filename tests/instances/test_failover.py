"""
Lost nodes: what starts elsewhere, what it costs, what becomes of the node that comes back.

Source of row 33: hashicorp/nomad#4437, #2958 (allocations of a lost node stayed pending).
"""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from agents.protocol import ResidenceFact, RunReport, Stretch
from billing.metering import UsageReport, record
from billing.models import Run
from billing.models import Stretch as Seen
from rental.instances import failover, passes, services
from rental.instances.models import Instance, Operation
from rental.instances.states import InstanceState
from rental.records.audit import AuditEvent
from scheduler.models import Allocation, Node, NodeLiveness, Request, Residence, Slice, Zone
from scheduler.services.death import declare_dead
from scheduler.services.desired import desired_sets
from scheduler.services.liveness import Pulse, record_pulses
from scheduler.services.observe import Observed, observe
from tests.factories.rental import (
    NOON,
    PERSON,
    allocation_of,
    fresh,
    make_hello,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
    says,
    seconds,
)
from tests.factories.tenants import OPERATOR

pytestmark = pytest.mark.django_db
S = InstanceState


class Room:
    """A room of ``null`` nodes, one gateway that hears all but the silent, and a clock."""

    def __init__(self, nodes):
        self.nodes = [null_node() for _ in range(nodes)]
        self.silent = set()
        self.second = -100
        self.run(until=0)

    @property
    def now(self):
        return NOON + seconds(self.second)

    def beat(self):
        """One second: the gateway flushes what it heard."""
        heard = [node for node in self.nodes if node.id not in self.silent]
        pulses = [
            Pulse(node_id=node.id, boot_id="boot-1", seq=self.second + 1_000, received_at=self.now)
            for node in heard
        ]
        record_pulses(pulses, "gateway-1", self.now)

    def run(self, *, until):
        """Let time pass, every second as beat would have it."""
        while self.second < until:
            self.second += 1
            self.beat()
        return self.now

    def lose(self, *nodes):
        """Silence the nodes and let the pass look until they are lost."""
        self.silent |= {node.id for node in nodes}
        for second in range(self.second + 1, self.second + 26):
            self.run(until=second)
            failover.watch(now=self.now)
        return self.now


def null_node(**fields):
    node = make_node(**fields)
    node.facts = {"runtime": "null"}
    node.save(update_fields=["facts"])
    return node


@pytest.fixture
def world():
    make_offer()
    make_image()
    return Room(nodes=3)


@pytest.fixture
def tenant():
    return make_rich_tenant()


def start(tenant, room, *, count=1, on_node_loss="replace"):
    """Instances that run on one node, which is returned with them."""
    made = order(tenant, count=count, on_node_loss=on_node_loss, now=room.now)
    passes.place(now=room.now)
    for instance in made:
        says(instance, "running", now=room.now)
    homes = {allocation_of(one).node_id for one in made}
    assert len(homes) == 1
    return [fresh(one) for one in made], next(n for n in room.nodes if n.id in homes)


def prove(instance, ticks, *, now):
    """Let the instance's node prove its first ticks; readiness was when they began."""
    run = Run.objects.get(pk=allocation_of(instance).run_id)
    report = RunReport(
        run=str(run.pk),
        ready_age_ms=ticks * 6_000,
        stretches=[Stretch(from_tick=0, until_tick=ticks)],
    )
    record(reports=[UsageReport(node_id=run.reporter, received_at=now, runs=[report])])
    return run


def live_copies(instance):
    return Allocation.objects.residing().filter(instance_id=instance.pk, want="run").count()


def settle_in(room):
    """Let every new place say that it runs."""
    for one in Allocation.objects.residing().filter(want="run").exclude(phase="running"):
        if one.node_id not in room.silent:
            says(one, "running", now=room.now)


def clean(room, node):
    """Let the node confirm whatever is to be gone there."""
    for one in Allocation.objects.held().filter(node=node, want="gone"):
        says(one, "gone", now=room.now)
    wiped = [
        ResidenceFact(
            residence=str(disk.id), instance=str(disk.instance_id), kind=disk.kind, state="wiped"
        )
        for disk in Residence.objects.filter(node=node, wiped_at=None, want="gone")
    ]
    hello = make_hello(node.id, residences=wiped)
    observe(frames=[Observed(node_id=node.id, received_at=room.now, message=hello)])
    passes.sync(now=room.now)


def test_row_33_five_instances_of_a_lost_node_run_elsewhere_within_30_s(world, tenant):
    # given 5 instances on one node, which falls silent
    made, node = start(tenant, world, count=5)
    silent_since = world.now
    ids = {one.pk: (one.name, one.slug, one.session) for one in made}

    # when it is declared lost
    world.lose(node)

    # then all have a place elsewhere, at once, with the next incarnation
    assert world.now - silent_since <= timedelta(seconds=25)
    for one in made:
        new = allocation_of(one)
        assert new.node_id != node.id
        assert (new.incarnation, live_copies(one)) == (2, 1)
        assert fresh(one).state == S.MIGRATING
    settle_in(world)
    for one in made:
        row = fresh(one)
        assert row.state == S.RUNNING
        assert (row.name, row.slug, row.session) == ids[row.pk]
        assert row.operations.order_by("-id")[0].state == "succeeded"

    # and the node that returns is told to end the old generation, and is not sold before
    world.silent.clear()
    world.run(until=world.second + 3)
    failover.watch(now=world.now)
    [desired] = desired_sets([node.id])
    assert {(o.want, o.incarnation) for o in desired.orders} == {("gone", 1)}
    assert {r.want for r in desired.residences} == {"gone"}
    old = Allocation.objects.filter(node=node).first()
    says(old, "running", now=world.now)  # it did run on
    assert live_copies(made[0]) == 1
    (late,) = order(tenant, now=world.now)
    Request.objects.filter(pk=late.request_id).update(residences_on=node)
    passes.place(now=world.now)
    assert Request.objects.get(pk=late.request_id).reasons["cleaning"] == 1
    clean(world, node)
    passes.place(now=world.now)
    assert allocation_of(late).node_id == node.id
    assert not Slice.objects.filter(allocation__abandoned_at__isnull=False, released_at=None)


def test_only_what_is_proven_is_charged(world, tenant):
    (instance,), node = start(tenant, world)
    world.run(until=60)
    run = prove(instance, 10, now=world.now)

    world.lose(node)

    run.refresh_from_db()
    assert (run.closed_at_tick, run.close_reason) == (10, "node_lost")
    # its spool proves more when it is back: seen, and not charged
    prove_more = RunReport(run=str(run.pk), stretches=[Stretch(from_tick=0, until_tick=13)])
    record(reports=[UsageReport(node_id=node.id, received_at=world.now, runs=[prove_more])])
    assert Seen.objects.get(run_id=run.pk).until_tick == 13
    run.refresh_from_db()
    assert run.closed_at_tick == 10
    settle_in(world)
    open_run = Run.objects.get(instance_id=instance.pk, closed_at=None)
    assert open_run.pk == fresh(instance).run_id
    assert open_run.session == run.session


def test_what_never_became_ready_costs_nothing_and_starts_elsewhere(world, tenant):
    (instance,) = order(tenant, on_node_loss="replace", now=world.now)
    passes.place(now=world.now)
    says(instance, "pulling", now=world.now)
    before = allocation_of(instance)

    world.lose(next(n for n in world.nodes if n.id == before.node_id))

    row, new = fresh(instance), allocation_of(instance)
    assert (row.state, row.allocation_id) == (S.PULLING, new.id)
    assert new.node_id != before.node_id
    assert Run.objects.get(pk=before.run_id).closed_at_tick == 0
    assert row.deadline_at <= world.now + timedelta(minutes=30)
    settle_in(world)
    assert fresh(instance).state == S.RUNNING


def test_keep_waits_for_its_node_and_nothing_is_asked(world, tenant):
    (instance,), node = start(tenant, world, on_node_loss="keep")
    requests = Request.objects.count()

    world.lose(node)

    assert (fresh(instance).state, fresh(instance).health) == (S.RUNNING, "ok")
    passes.sync(now=world.now)
    assert fresh(instance).health == "unreachable"
    assert Request.objects.count() == requests
    assert Run.objects.get(instance_id=instance.pk).closed_at is None


def test_a_node_without_guard_keeps_what_wanted_to_leave_and_says_so_once(world, tenant):
    (instance,), node = start(tenant, world)
    node.refresh_from_db()
    node.facts = {"runtime": "local"}
    node.save(update_fields=["facts"])

    world.lose(node)
    world.lose(node)

    assert fresh(instance).state == S.RUNNING
    assert Allocation.objects.filter(instance_id=instance.pk).count() == 1
    assert AuditEvent.objects.filter(verb="instance.not_replaced").count() == 1


def test_without_room_it_waits_first_in_the_queue_and_a_stop_ends_the_wait(tenant):
    make_offer("a100-80g", tenths=10)
    make_image()
    room = Room(nodes=2)
    moved, stays = order(tenant, count=2, offer="a100-80g", on_node_loss="replace", now=room.now)
    passes.place(now=room.now)
    for one in (moved, stays):
        says(one, "running", now=room.now)
    node = next(n for n in room.nodes if n.id == allocation_of(moved).node_id)
    early = order(make_rich_tenant(), offer="a100-80g", now=room.now)[0]

    room.lose(node)
    assert fresh(moved).state == S.MIGRATING
    assert Request.objects.get(pk=fresh(moved).request_id).is_failover
    services.stop_instance(tenant_id=tenant.id, instance_id=stays.pk, actor=PERSON, now=room.now)
    says(allocation_of(stays), "gone", now=room.now)
    passes.place(now=room.now)

    # the one that lost its place is served before the one that asked earlier
    assert fresh(moved).state == S.MIGRATING
    assert allocation_of(moved).abandoned_at is None
    assert Request.objects.get(pk=early.request_id).state == "waiting"

    # and of two that wait, a stop takes one back: nothing is placed or charged for it
    other = next(n for n in room.nodes if n.id != node.id)
    settle_in(room)
    room.silent.clear()
    room.run(until=room.second + 5)
    failover.watch(now=room.now)
    clean(room, node)
    passes.place(now=room.now)  # ``early`` takes it
    room.lose(other)
    assert fresh(moved).state == S.MIGRATING
    services.stop_instance(tenant_id=tenant.id, instance_id=moved.pk, actor=PERSON, now=room.now)
    assert fresh(moved).state == S.STOPPED
    assert not Request.objects.waiting().filter(instance_id=moved.pk).exists()
    assert not Run.objects.filter(instance_id=moved.pk, closed_at=None).exists()


def test_an_instance_lives_in_one_place_says_the_database(world, tenant):
    (instance,), node = start(tenant, world)
    world.lose(node)
    old = Allocation.objects.get(node=node)

    with pytest.raises(IntegrityError, match="instance_is_allocated_once"), transaction.atomic():
        Allocation.objects.filter(pk=old.pk).update(abandoned_at=None)
    with (
        pytest.raises(IntegrityError, match="allocation_is_abandoned_when_it_should_be_gone"),
        transaction.atomic(),
    ):
        Allocation.objects.filter(pk=old.pk).update(want="run")


def test_a_release_waits_for_the_lost_node_to_confirm_the_wipe(world, tenant):
    (instance,), node = start(tenant, world)
    world.lose(node)
    settle_in(world)

    services.release_instance(
        tenant_id=tenant.id, instance_id=instance.pk, actor=PERSON, now=world.now
    )
    clean(world, next(n for n in world.nodes if n.id == allocation_of(instance).node_id))

    assert fresh(instance).state == S.RELEASING
    world.silent.clear()
    clean(world, node)
    assert fresh(instance).state == S.DELETED


# --- mass loss and our own deafness


def make_room_of(nodes, tenant, *, each=1):
    """A room whose every node runs ``each`` whole-card instances with ``replace``."""
    make_offer("a100-80g", tenths=10)
    make_image()
    room = Room(nodes=nodes)
    made = order(tenant, count=nodes * each, offer="a100-80g", on_node_loss="replace", now=room.now)
    passes.place(now=room.now)
    for one in made:
        says(one, "running", now=room.now)
    return room, made


def nothing_moved(made):
    return (
        Allocation.objects.filter(abandoned_at__isnull=False).count() == 0
        and Request.objects.filter(is_failover=True).count() == 0
        and all(fresh(one).state == S.RUNNING for one in made)
    )


@pytest.mark.parametrize(
    ("nodes", "lost", "is_frozen"),
    [(3, 3, True), (10, 3, True), (10, 2, False), (11, 3, False), (1, 1, True), (2, 1, False)],
)
def test_mass_loss_is_all_or_30_percent_and_at_least_3(nodes, lost, is_frozen, tenant):
    room, made = make_room_of(nodes, tenant)

    room.lose(*room.nodes[:lost])

    zone = Zone.objects.get()
    assert (zone.frozen_at is not None) is is_frozen
    if is_frozen:
        assert nothing_moved(made)
        assert AuditEvent.objects.filter(verb="zone.frozen").count() == 1
    else:
        assert Request.objects.filter(is_failover=True).count() == lost


def test_a_frozen_zone_thaws_and_who_is_still_lost_starts_elsewhere(tenant):
    room, made = make_room_of(9, tenant)
    room.lose(*room.nodes[:3])
    assert nothing_moved(made)

    room.silent = {room.nodes[0].id}  # two come back
    room.run(until=room.second + 3)
    failover.watch(now=room.now)

    assert Zone.objects.get().frozen_at is None
    assert AuditEvent.objects.filter(verb="zone.thawed").count() == 1
    asked = Request.objects.get(is_failover=True)
    assert asked.instance_id == Allocation.objects.get(node=room.nodes[0]).instance_id


def test_nodes_that_fall_silent_within_one_pulse_are_one_loss(tenant):
    """The first of them is lost 3 s before the last: it must not be moved meanwhile."""
    room, made = make_room_of(6, tenant)
    for node in room.nodes[:3]:
        room.silent.add(node.id)
        room.run(until=room.second + 1)
    for second in range(room.second + 1, room.second + 40):
        room.run(until=second)
        failover.watch(now=room.now)

    assert Zone.objects.get().frozen_at is not None
    assert nothing_moved(made)


def test_another_zone_goes_on(tenant):
    room, _ = make_room_of(3, tenant)
    Zone.objects.create(code="test-1b", region_id="test-1")
    far = room.nodes[2]
    far.zone_id = "test-1b"
    far.save(update_fields=["zone_id"])
    spare = null_node()
    spare.zone_id = "test-1b"
    spare.save(update_fields=["zone_id"])
    room.nodes.append(spare)
    room.run(until=room.second + 2)

    room.lose(*room.nodes[:3])  # all of the first zone, one of two in the other

    moved = Request.objects.get(is_failover=True)
    assert moved.instance_id == Allocation.objects.filter(node=far).first().instance_id
    assert allocation_of(Instance.objects.get(pk=moved.instance_id)).node_id == spare.id


@pytest.mark.parametrize("deaf_for", [60, 600])
def test_a_database_stall_or_an_absence_of_ours_re_places_nothing(deaf_for, tenant):
    room, made = make_room_of(3, tenant)

    # nobody could write a pulse, nor look, for so long
    room.second += deaf_for
    for second in range(room.second, room.second + 60):
        room.silent = {node.id for node in room.nodes}  # they come back slowly
        room.run(until=second)
        failover.watch(now=room.now)
        passes.deadlines(now=room.now)
    room.silent = set()
    room.run(until=room.second + 1)
    failover.watch(now=room.now)

    assert nothing_moved(made)
    assert set(NodeLiveness.objects.values_list("status", flat=True)) == {"live"}


def test_a_restart_of_a_gateway_gives_60_seconds(tenant):
    room, made = make_room_of(4, tenant)
    room.silent = {room.nodes[0].id}
    room.run(until=room.second + 5)
    record_pulses([], "gateway-2", room.now)  # a new process begins to listen now
    for _ in range(58):
        room.run(until=room.second + 1)
        record_pulses([], "gateway-2", room.now)
        failover.watch(now=room.now)

    assert nothing_moved(made)

    for _ in range(4):
        room.run(until=room.second + 1)
        record_pulses([], "gateway-2", room.now)
        failover.watch(now=room.now)
    assert Request.objects.filter(is_failover=True).count() == 1


def test_after_an_absence_of_ours_a_thawed_zone_waits_60_seconds_too(tenant):
    """Who was lost before we went away may be on his way back, like the two that are here."""
    room, made = make_room_of(9, tenant)
    room.lose(*room.nodes[:3])
    room.second += 600
    room.silent = {room.nodes[0].id}

    room.run(until=room.second + 3)
    for second in range(room.second, room.second + 55, 5):
        room.run(until=second)
        failover.watch(now=room.now)

    assert Zone.objects.get().frozen_at is None
    assert nothing_moved(made)


def test_two_passes_at_once_are_one(world, tenant):
    (instance,), node = start(tenant, world)
    world.lose(node)
    before = Allocation.objects.count(), Request.objects.count(), Operation.objects.count()

    failover.watch(now=world.now)
    failover.replace_stranded(now=world.now)

    assert (
        Allocation.objects.count(),
        Request.objects.count(),
        Operation.objects.count(),
    ) == before


def test_a_lost_node_that_is_declared_dead_takes_nobody_with_it_who_has_left(tenant):
    room, (moved, other) = make_room_of(2, tenant)
    node = Node.objects.get(pk=allocation_of(moved).node_id)
    room.lose(node)  # there is no room elsewhere: it waits
    assert fresh(moved).state == S.MIGRATING

    declare_dead(node_id=node.pk, actor=OPERATOR, reason="burnt", now=room.now)
    passes.sync(now=room.now)
    assert fresh(moved).state == S.MIGRATING
    services.stop_instance(tenant_id=tenant.id, instance_id=other.pk, actor=PERSON, now=room.now)
    says(allocation_of(other), "gone", now=room.now)
    passes.place(now=room.now)

    assert allocation_of(moved).node_id != node.pk
    settle_in(room)
    assert fresh(moved).state == S.RUNNING
