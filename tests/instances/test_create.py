"""Create: all or none, money held, a place asked for; a refusal proves that nothing happened."""

import uuid

import pytest

from billing.errors import InsufficientBalance
from billing.models import Hold, Run, Wallet
from rental.catalog.errors import BadCount
from rental.instances import errors, passes
from rental.instances.models import Instance, Operation
from rental.instances.states import InstanceState
from rental.records.ids import to_text
from rental.tenants.models import AuditEvent, Tenant
from scheduler.models import Allocation, Request
from tests.factories.rental import (
    NOON,
    PRICE,
    allocation_of,
    fresh,
    make_rich_tenant,
    order,
    says,
    seconds,
)
from tests.factories.tenants import default_project, make_ssh_key

pytestmark = pytest.mark.django_db
S = InstanceState


def traces(tenant):
    """Everything that an order leaves behind."""
    return [
        Instance.objects.of(tenant.id).count(),
        Request.objects.of(tenant.id).count(),
        Hold.objects.filter(tenant=tenant).count(),
        Operation.objects.of(tenant.id).count(),
        AuditEvent.objects.of(tenant.id).filter(verb__startswith="instance").count(),
    ]


def test_an_order_is_queued_held_and_audited(market, tenant):
    key = make_ssh_key(tenant)

    (instance,) = order(
        tenant, name="  train  1 ", ssh_key_ids=[key.id], command=["sleep", "9"], env={"A": "b"}
    )

    row = fresh(instance)
    assert (row.state, row.desired_state, row.name) == (S.QUEUED, "running", "train 1")
    assert row.slug.startswith("train-1-")
    assert row.project == default_project(tenant)
    assert (row.generation, row.observed_generation, row.session) == (1, 0, 1)
    request = Request.objects.get(pk=row.request_id)
    assert (request.state, request.instance_id, request.tenths) == ("waiting", row.id, 1)
    assert request.spec["ssh_keys"] == [key.public_key]
    assert request.spec["command"] == ["sleep", "9"]
    assert request.spec["mounts"] == [{"residence": "workspace", "path": "/workspace"}]
    hold = Hold.objects.get(instance_id=row.id)
    assert (hold.amount, hold.state) == (PRICE, "pending")
    assert Wallet.objects.get(tenant=tenant).held == PRICE
    event = AuditEvent.objects.get(verb="instance.created")
    assert (event.subject, event.actor_id) == (to_text("ins", row.id), "usr_tester")
    operation = Operation.objects.get(instance=row)
    assert [step["name"] for step in operation.steps] == [
        "reserved", "node_accepted", "image", "started", "ssh_ready",
    ]  # fmt: skip


def test_nothing_is_charged_or_run_before_a_place_is_found(market, tenant):
    order(tenant)
    assert not Run.objects.exists()


def test_twenty_instances_are_independent_and_named_in_a_row(market, tenant):
    made = order(tenant, count=20, name="worker")

    assert [instance.name for instance in made] == [f"worker-{n}" for n in range(1, 21)]
    assert len({instance.slug for instance in made}) == 20
    assert traces(tenant) == [20, 20, 20, 20, 20]


def test_an_instance_without_a_name_gets_one(market, tenant):
    (instance,) = order(tenant)
    assert instance.name.count("-") == 1


def test_all_or_none_when_the_money_ends_in_the_middle(market):
    # given money for three starts (an hour held, an hour held, half an hour left)
    tenant = make_rich_tenant(money=2 * PRICE + PRICE // 2)

    with pytest.raises(InsufficientBalance) as refusal:
        order(tenant, count=4)

    assert refusal.value.needed == PRICE // 2
    assert traces(tenant) == [0, 0, 0, 0, 0]
    assert Wallet.objects.get(tenant=tenant).held == 0
    assert len(order(tenant, count=3)) == 3


@pytest.mark.parametrize("count", [-1, 0, 21])
def test_refuses_a_count_out_of_bounds(market, tenant, count):
    with pytest.raises(BadCount):
        order(tenant, count=count)
    assert traces(tenant) == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "bad",
    [
        {"name": ""},
        {"name": "x" * 65},
        {"name": "bad\x07name"},
        {"env": {"1A": "x"}},
        {"env": {"LD_PRELOAD": "/evil.so"}},
        {"env": {"nvidia_visible_devices": "all"}},
        {"env": {"A": "\0"}},
        {"env": {f"A{n}": "" for n in range(101)}},
        {"command": ["x" * 20_000]},
    ],
)
def test_refuses_an_order_that_cannot_be_run(market, tenant, bad):
    with pytest.raises(errors.BadOrder):
        order(tenant, **bad)
    assert traces(tenant) == [0, 0, 0, 0, 0]


def test_refuses_what_belongs_to_somebody_else(market, tenant):
    stranger = make_rich_tenant()

    with pytest.raises(errors.UnknownSshKey):
        order(tenant, ssh_key_ids=[make_ssh_key(stranger).id])
    with pytest.raises(errors.UnknownProject):
        order(tenant, project_id=default_project(stranger).id)
    with pytest.raises(errors.UnknownProject):
        order(tenant, project_id=uuid.uuid4())

    assert traces(tenant) == [0, 0, 0, 0, 0]


def test_a_suspended_tenant_orders_nothing(market, tenant):
    Tenant.objects.filter(pk=tenant.pk).update(status="suspended")
    with pytest.raises(errors.TenantNotActive):
        order(tenant)
    assert traces(tenant) == [0, 0, 0, 0, 0]


def test_the_way_up_step_by_step(market, tenant):
    (instance,) = order(tenant)

    passes.place(now=NOON + seconds(1))
    assert fresh(instance).state == S.PROVISIONING
    run = Run.objects.get(instance_id=instance.id)
    allocation = allocation_of(instance)
    assert (run.id, run.reporter) == (allocation.run_id, market.id)
    assert (run.opened_at, run.started_at) == (NOON + seconds(1), None)

    for n, (phase, state) in enumerate(
        [
            ("accepted", S.PULLING),
            ("pulling", S.PULLING),
            ("starting", S.STARTING),
            ("running", S.RUNNING),
        ],
        start=2,
    ):
        says(instance, phase, now=NOON + seconds(n))
        assert fresh(instance).state == state

    row = fresh(instance)
    assert (row.health, row.generation, row.observed_generation) == ("ok", 1, 1)
    assert row.session_ready_at == NOON + seconds(5)
    (endpoint,) = row.endpoints.all()
    assert (endpoint.kind, endpoint.host, endpoint.port) == ("ssh", "127.0.0.1", 22022)
    operation = Operation.objects.get(instance=row)
    assert operation.state == "succeeded"
    finished = [step["finished_at"] for step in operation.steps]
    assert finished == [f"2026-03-02T12:00:0{second}.000000Z" for second in (1, 2, 4, 5, 5)]
    started = [step["started_at"] for step in operation.steps]
    assert started[1:] == finished[:-1]


def test_phases_that_were_missed_are_walked_through(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)

    says(instance, "running", now=NOON + seconds(3))

    assert fresh(instance).state == S.RUNNING
    assert Operation.objects.get(instance=instance).state == "succeeded"


def test_what_waits_says_why(market, tenant):
    made = order(tenant, count=11)

    passes.place(now=NOON)

    assert Allocation.objects.count() == 10
    (waiting,) = [one for one in made if fresh(one).state == S.QUEUED]
    reasons = Request.objects.get(instance_id=waiting.id).reasons
    assert sum(reasons.values()) == 1
