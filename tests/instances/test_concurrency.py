"""Acceptance 5: many orders at once for few slices, with passes running all the while."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction

from billing.models import Hold, Run, Wallet
from rental.instances import passes, services
from rental.instances.models import Instance
from rental.instances.states import InstanceState
from rental.records.clock import database_now
from scheduler.models import Allocation, Node, Request, Residence, Slice
from tests.factories.rental import (
    MICRO,
    PERSON,
    PRICE,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
    says,
    set_liveness,
)

pytestmark = pytest.mark.django_db(transaction=True)
S = InstanceState
CREATES, FREE, AT_ONCE = 64, 7, 12


def in_thread(act):
    """Run ``act`` on a connection of its own that is closed afterwards."""

    def run(*args):
        try:
            return act(*args)
        finally:
            connections.close_all()

    return run


class Beat:
    """Passes in a thread of their own, again and again until the block ends."""

    def __init__(self, *acts):
        self.acts, self.ended, self.errors = acts, threading.Event(), []
        self.thread = threading.Thread(target=in_thread(self._beat))

    def _beat(self):
        while not self.ended.is_set():
            for act in self.acts:
                try:
                    act(now=database_now())
                except Exception as error:  # shown by the test
                    self.errors.append(error)
            self.ended.wait(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def deadlocks():
    """Passes log what fails and go on; PostgreSQL remembers. Closed connections have reported."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return cursor.fetchone()[0]


@pytest.fixture
def world():
    """One card of ten tenths, three of which are taken by another order of the same tenant."""
    now = database_now()
    make_offer()
    make_image()
    node = make_node(now=now)
    tenant = make_rich_tenant(money=1000 * MICRO)
    order(tenant, count=10 - FREE, now=now)
    passes.place(now=now)
    assert Allocation.objects.count() == 10 - FREE
    return tenant, node


def test_sixty_four_orders_for_seven_slices(world):
    tenant, node = world
    before = set(Instance.objects.values_list("pk", flat=True))

    def create(_n):
        return order(tenant, now=database_now())[0].id

    with (
        Beat(passes.place, passes.sync) as one,
        Beat(passes.place) as other,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        made = list(pool.map(in_thread(create), range(CREATES)))
    set_liveness(node, "live", now=database_now())
    passes.place(now=database_now())
    passes.sync(now=database_now())

    assert one.errors == other.errors == []
    mine = Instance.objects.exclude(pk__in=before)
    assert {instance.id for instance in mine} == set(made)
    assert mine.filter(state=S.PROVISIONING).count() == FREE
    queued = mine.filter(state=S.QUEUED)
    assert queued.count() == CREATES - FREE
    assert Allocation.objects.count() == 10
    assert Slice.objects.filter(released_at=None).count() == 10
    assert Run.objects.filter(closed_at=None).count() == 10
    waiting = Request.objects.filter(state="waiting")
    assert waiting.count() == CREATES - FREE
    assert all(sum(request.reasons.values()) == 1 for request in waiting)
    assert Wallet.objects.get(tenant=tenant).held == 67 * PRICE

    def cancel(instance_id):
        services.stop_instance(
            tenant_id=tenant.id, instance_id=instance_id, actor=PERSON, now=database_now()
        )

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(in_thread(cancel), queued.values_list("pk", flat=True)))

    assert mine.filter(state=S.STOPPED).count() == CREATES - FREE
    assert Hold.objects.filter(tenant=tenant, state="pending").count() == 10
    assert Wallet.objects.get(tenant=tenant).held == 10 * PRICE
    assert not Request.objects.filter(state="waiting").exists()


def test_commands_against_passes_and_an_agent_never_deadlock(world):
    """Stops, releases and what nodes say, all at once: everything ends, nothing is left open."""
    tenant, _node = world
    before = deadlocks()
    with Beat(passes.place, passes.sync, passes.compare_everything) as beat:
        made = [order(tenant, now=database_now())[0] for _ in range(FREE)]
        passes.place(now=database_now())

        def agent(instance):
            for phase in ("accepted", "pulling", "starting", "running"):
                says(instance, phase, now=database_now(), sync=False)

        def customer(instance):
            for verb in (services.stop_instance, services.release_instance):
                verb(
                    tenant_id=tenant.id,
                    instance_id=instance.id,
                    actor=PERSON,
                    now=database_now(),
                )

        with ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [pool.submit(in_thread(act), one) for one in made for act in (agent, customer)]
        for job in jobs:
            job.result()
        for instance in made:
            says(instance, "gone", now=database_now(), sync=False)

    assert beat.errors == []
    ids = [instance.id for instance in made]
    assert set(Instance.objects.filter(pk__in=ids).values_list("state", flat=True)) == {S.RELEASING}
    assert not Run.objects.filter(instance_id__in=ids, closed_at=None).exists()
    assert not Hold.objects.filter(instance_id__in=ids, state="pending").exists()
    held = Slice.objects.filter(allocation__instance_id__in=ids, released_at=None)
    assert not held.exists()
    assert deadlocks() == before


def test_a_release_waits_for_the_disks_before_it_holds_the_node(world):
    """A hello locks a node's disks and then the node: the other way round is a deadlock."""
    tenant, node = world
    instance = Instance.objects.first()

    def release():
        services.release_instance(
            tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=database_now()
        )

    thread = threading.Thread(target=in_thread(release))
    with transaction.atomic():
        # as in observe, between its two locks
        list(Residence.objects.filter(instance_id=instance.id).select_for_update(no_key=True))
        thread.start()
        wait_until_it_waits_for_us(thread)
        list(Node.objects.filter(pk=node.pk).select_for_update(no_key=True, nowait=True))
    thread.join()
    assert Instance.objects.get(pk=instance.id).state == S.RELEASING


def wait_until_it_waits_for_us(thread):
    waits = False
    while not waits:
        assert thread.is_alive()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) > 0 FROM pg_locks"
                " WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            )
            (waits,) = cursor.fetchone()
