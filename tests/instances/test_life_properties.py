"""
Any order of commands, agents' facts, clocks and passes keeps the rules of money and of slices.

A machine of hypothesis over a small world (one card of ten tenths), on real PostgreSQL; each
example lives in a savepoint of its own.
"""

import contextlib
from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agents.protocol import RunReport, Stretch
from billing.errors import InsufficientBalance
from billing.metering import UsageReport, record
from billing.models import Hold, Run, RunDirty, Transfer, Wallet
from billing.services.runs import close_run
from rental.instances import errors, passes, services
from rental.instances.models import Instance, Operation
from rental.instances.states import ALLOWANCE, COMING_UP, InstanceState
from scheduler.models import Allocation, GatewayFlush, Residence, Slice
from tests.factories.rental import (
    NOON,
    PERSON,
    PRICE,
    confirm_wiped,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    order,
    says,
    set_liveness,
)

S = InstanceState
MAY_HAVE_RUN = {S.QUEUED, *COMING_UP, S.RUNNING, S.MIGRATING}
PHASES = ["accepted", "pulling", "starting", "running", "running", "running", "exited", "failed"]
numbers = st.integers(min_value=0, max_value=7)


class Life(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.savepoint = transaction.atomic()
        self.savepoint.__enter__()
        self.now = NOON
        make_offer()
        make_offer("a100-80g-5t", tenths=5, price=5 * PRICE)
        make_image()
        self.node = make_node()
        self.tenant = make_rich_tenant(money=30 * PRICE)
        self.transfers = list(Transfer.objects.order_by("id").values())

    def teardown(self):
        try:
            if hasattr(self, "node"):
                self.release_all()
        finally:
            if hasattr(self, "savepoint"):
                transaction.set_rollback(True)
                self.savepoint.__exit__(None, None, None)

    # --- customers

    @rule(count=st.integers(1, 3), offer=st.sampled_from(["a100-80g-1t", "a100-80g-5t"]))
    def create(self, count, offer):
        with contextlib.suppress(InsufficientBalance):
            order(self.tenant, count=count, offer=offer, now=self.now)

    @rule(number=numbers, verb=st.sampled_from(["stop", "stop", "start", "restart", "release"]))
    def command(self, number, verb):
        if (instance := self.pick(Instance.objects.all(), number)) is not None:
            self.do(verb, instance)

    def do(self, verb, instance):
        try:
            getattr(services, f"{verb}_instance")(
                tenant_id=self.tenant.id, instance_id=instance.id, actor=PERSON, now=self.now
            )
        except (errors.NotPossibleNow, InsufficientBalance):
            assert verb != "release"

    @rule(number=numbers, after=st.integers(0, 300))
    def set_timer(self, number, after):
        if (instance := self.pick(Instance.objects.all(), number)) is not None:
            Instance.objects.filter(pk=instance.pk).update(
                auto_stop_at=self.now + timedelta(seconds=after)
            )

    # --- the node

    @rule(number=numbers, phase=st.sampled_from(PHASES), sync=st.booleans())
    def speak(self, number, phase, sync):
        held = Allocation.objects.held()
        if (allocation := self.pick(held, number)) is not None:
            # An agent that is told to end something ends it; it may say so twice.
            said = phase if allocation.want == "run" else "gone"
            code = 1 if said == "exited" else None
            says(allocation, said, now=self.now, sync=sync, exit_code=code)

    @rule(number=numbers, sync=st.booleans())
    def wipe(self, number, sync):
        disks = Residence.objects.filter(wiped_at=None, want="gone")
        if (disk := self.pick(disks, number)) is not None:
            confirm_wiped(Instance.objects.get(pk=disk.instance_id), now=self.now, sync=sync)

    @rule(number=numbers, ticks=st.integers(1, 50))
    def report_usage(self, number, ticks):
        if (run := self.pick(Run.objects.all(), number)) is not None:
            report = RunReport(
                run=str(run.id),
                ready_age_ms=1000,
                stretches=[Stretch(from_tick=0, until_tick=ticks)],
            )
            record(reports=[UsageReport(node_id=run.reporter, received_at=self.now, runs=[report])])

    @rule(status=st.sampled_from(["live", "live", "suspect", "lost"]))
    def liveness(self, status):
        set_liveness(self.node, status, now=self.now)

    # --- time, money, passes

    @rule(step=st.sampled_from([1, 7, 60, 130, 310, 2000]), deaf=st.booleans())
    def wait(self, step, deaf):
        self.now += timedelta(seconds=step)
        began = self.now if deaf else NOON - timedelta(days=1)
        GatewayFlush.objects.update_or_create(
            gateway_id="gateway-1",
            defaults={"started_at": began, "flushed_at": self.now, "hole_at": None},
        )

    @precondition(lambda self: Run.objects.filter(closed_at=None).exists())
    @rule()
    def exhaust(self):
        """What billing does to every open run of a tenant whose money has ended."""
        for run in Run.objects.filter(closed_at=None):
            close_run(run_id=run.id, at=self.now, reason="balance_exhausted")
            RunDirty.objects.get_or_create(run_id=run.id)

    @rule()
    def place(self):
        passes.place(now=self.now)

    @rule()
    def sync(self):
        passes.sync(now=self.now)

    @rule()
    def deadlines(self):
        passes.deadlines(now=self.now)

    @rule()
    def compare(self):
        passes.compare_everything(now=self.now)

    # --- what holds at every moment

    @invariant()
    def money_follows_runs(self):
        if not hasattr(self, "node"):
            return
        pending = Hold.objects.filter(state="pending")
        held = {hold.instance_id: hold.amount for hold in pending}
        assert len(held) == pending.count(), "one hold an instance"
        assert Wallet.objects.get(tenant=self.tenant).held == sum(held.values())
        open_runs = [run.instance_id for run in Run.objects.filter(closed_at=None)]
        assert len(set(open_runs)) == len(open_runs), "one open run an instance"
        for instance in Instance.objects.all():
            state = S(instance.state)
            assert (instance.id in held) == (state in MAY_HAVE_RUN)
            assert instance.id not in open_runs or state in MAY_HAVE_RUN
            assert (instance.deadline_at is not None) == (state in ALLOWANCE)
            assert instance.observed_generation <= instance.generation
            if state is S.RUNNING:
                assert instance.endpoints.exists()
            elif state not in COMING_UP:
                assert not instance.endpoints.exists()
        assert list(Transfer.objects.order_by("id").values()) == self.transfers

    @invariant()
    def nothing_is_left_behind(self):
        if not hasattr(self, "node"):
            return
        ended = Allocation.objects.exclude(released_at=None)
        assert not Slice.objects.filter(allocation__in=ended, released_at=None).exists()
        gone = Instance.objects.filter(state=S.DELETED).values("pk")
        assert not Allocation.objects.held().filter(instance_id__in=gone).exists()
        assert not Residence.objects.filter(instance_id__in=gone, wiped_at=None).exists()
        at_rest = Instance.objects.filter(
            state__in=[S.STOPPING, S.STOPPED, S.FAILED, S.RELEASING, S.DELETED]
        ).values("pk")
        assert not (
            Allocation.objects.held().filter(instance_id__in=at_rest).exclude(want="gone").exists()
        )
        assert not Operation.objects.filter(
            state="running",
            instance__state__in=[S.STOPPED, S.FAILED, S.DELETED],
        ).exists()

    def release_all(self):
        """Whatever happened: everything can be given back, and then everything is there."""
        set_liveness(self.node, "live", now=self.now)
        for instance in Instance.objects.exclude(state=S.DELETED):
            self.do("release", instance)
        for allocation in Allocation.objects.held():
            says(allocation, "gone", now=self.now, sync=False)
        for instance in Instance.objects.exclude(state=S.DELETED):
            confirm_wiped(instance, now=self.now, sync=False)
        passes.sync(now=self.now)
        assert not Instance.objects.exclude(state=S.DELETED).exists()
        assert not Run.objects.filter(closed_at=None).exists()
        assert Wallet.objects.get(tenant=self.tenant).held == 0
        self.node.refresh_from_db()
        assert self.node.cpu_milli_free == self.node.cpu_milli_total
        assert self.node.disk_mib_free == self.node.disk_mib_total
        gpu = self.node.gpus.get()
        assert gpu.vram_free_mib == gpu.memory_mib

    def pick(self, rows, number):
        rows = list(rows.order_by("pk"))
        return rows[number % len(rows)] if rows else None


@pytest.mark.django_db
def test_any_life_keeps_the_rules():
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=settings().max_examples // 8,  # each is a life of 30 steps
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
