"""What becomes of instances whose node the operator declares dead."""

import pytest

from agents.protocol import RunReport, Stretch
from billing.metering import UsageReport, record
from billing.models import Hold, Run
from rental.instances import passes, services
from rental.instances.states import InstanceState
from scheduler.services.death import declare_dead
from tests.factories.rental import (
    NOON,
    PERSON,
    allocation_of,
    fresh,
    make_node,
    make_running,
    order,
    run_up,
    seconds,
    set_liveness,
)
from tests.factories.tenants import OPERATOR

pytestmark = pytest.mark.django_db
S = InstanceState
DEATH = NOON + seconds(120)


def die(node):
    set_liveness(node, "lost")
    declare_dead(node_id=node.id, actor=OPERATOR, reason="burnt", now=DEATH)
    passes.sync(now=DEATH + seconds(5))


def test_a_running_instance_fails_and_its_run_ends_at_the_declaration(market, tenant):
    instance = make_running(tenant)
    report = RunReport(
        run=str(instance.run_id), ready_age_ms=0, stretches=[Stretch(from_tick=0, until_tick=10)]
    )
    record(reports=[UsageReport(node_id=market.id, received_at=NOON, runs=[report])])

    die(market)

    row = fresh(instance)
    assert (row.state, row.state_reason) == (S.FAILED, {"code": "node_dead"})
    run = Run.objects.get(instance_id=row.id)
    assert (run.closed_at, run.close_reason, run.closed_at_tick) == (DEATH, "node_dead", 20)
    assert not Hold.objects.filter(state="pending").exists()
    assert not row.endpoints.exists()


def test_what_was_coming_up_fails_and_costs_nothing(market, tenant):
    (instance,) = order(tenant)
    passes.place(now=NOON)

    die(market)

    assert fresh(instance).state_reason == {"code": "node_dead"}
    assert Run.objects.get().closed_at_tick == 0


def test_what_was_stopping_is_stopped_and_what_was_releasing_is_deleted(market, tenant):
    stopping, releasing = make_running(tenant), make_running(tenant)
    services.stop_instance(
        tenant_id=tenant.id, instance_id=stopping.id, if_generation=None, actor=PERSON, now=NOON
    )
    services.release_instance(
        tenant_id=tenant.id, instance_id=releasing.id, if_generation=None, actor=PERSON, now=NOON
    )

    die(market)

    assert fresh(stopping).state == S.STOPPED
    assert fresh(releasing).state == S.DELETED


def test_a_start_that_waited_for_its_disks_fails(market, tenant):
    instance = make_running(tenant)
    set_liveness(market, "lost")
    services.stop_instance(
        tenant_id=tenant.id, instance_id=instance.id, if_generation=None, actor=PERSON, now=NOON
    )
    services.start_instance(
        tenant_id=tenant.id, instance_id=instance.id, if_generation=None, actor=PERSON, now=NOON
    )
    assert fresh(instance).state == S.QUEUED

    die(market)

    assert (fresh(instance).state, fresh(instance).state_reason["code"]) == (S.FAILED, "node_dead")
    assert not Hold.objects.filter(state="pending").exists()


def test_a_failed_instance_starts_again_elsewhere(market, tenant):
    instance = make_running(tenant)
    die(market)
    other = make_node(now=DEATH)

    services.start_instance(
        tenant_id=tenant.id,
        instance_id=instance.id,
        if_generation=None,
        actor=PERSON,
        now=DEATH + seconds(10),
    )

    assert run_up(instance, now=DEATH + seconds(20)).state == S.RUNNING
    assert allocation_of(instance).node_id == other.id
