"""Hints are only hints: with every one of them dropped, passes do all the work."""

import pytest

from billing.models import Hold, Run
from rental.instances import passes, services, tasks
from rental.instances.states import InstanceState
from tests.factories.rental import NOON, PERSON, confirm_wiped, fresh, order, says, seconds

S = InstanceState


@pytest.fixture
def published(monkeypatch):
    names = []
    for task in (tasks.place, tasks.sync):
        monkeypatch.setattr(
            task, "apply_async", lambda *_, name=task.name, **__: names.append(name)
        )
    return names


@pytest.mark.django_db
def test_a_life_in_the_black_hole(
    market, tenant, settings, published, django_capture_on_commit_callbacks
):
    settings.HINTS_ENABLED = False
    with django_capture_on_commit_callbacks(execute=True):
        (instance,) = order(tenant)
        passes.place(now=NOON)
        for phase in ("accepted", "starting", "running"):
            says(instance, phase, now=NOON, sync=False)
        passes.sync(now=NOON)
        assert fresh(instance).state == S.RUNNING
        services.stop_instance(
            tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON + seconds(6)
        )
        says(instance, "gone", now=NOON + seconds(7), sync=False)
        passes.sync(now=NOON + seconds(8))
        assert fresh(instance).state == S.STOPPED
        services.release_instance(
            tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON + seconds(9)
        )
        confirm_wiped(instance, now=NOON + seconds(10), sync=False)
        passes.sync(now=NOON + seconds(11))

    assert fresh(instance).state == S.DELETED
    assert not Run.objects.filter(closed_at=None).exists()
    assert not Hold.objects.filter(state="pending").exists()
    assert published == []


@pytest.mark.django_db
def test_hints_follow_the_commit(market, tenant, published, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        (instance,) = order(tenant)
        assert published == []
    assert published == ["instances.place"]
    with django_capture_on_commit_callbacks(execute=True):
        services.stop_instance(tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON)
    assert published == ["instances.place", "instances.sync"]


@pytest.mark.django_db
def test_the_tasks_run_their_passes_and_take_what_newer_senders_send(market, tenant):
    for task in (tasks.place, tasks.sync, tasks.deadlines, tasks.compare):
        assert task.name.startswith("instances.")
        task(a_newer_argument=1)
