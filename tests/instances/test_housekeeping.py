"""What is forgotten of instances that are no more."""

from datetime import timedelta

import pytest

from billing.models import Run
from rental.instances import services
from rental.instances.housekeeping import OPERATIONS_KEPT, keep_house
from rental.instances.models import Instance, Operation
from rental.instances.states import InstanceState
from tests.factories.rental import NOON, PERSON, confirm_wiped, fresh, make_running, says

pytestmark = pytest.mark.django_db


def test_old_operations_of_deleted_instances_are_forgotten(market, tenant):
    kept, gone = make_running(tenant), make_running(tenant)
    services.release_instance(
        tenant_id=tenant.id, instance_id=gone.id, if_generation=None, actor=PERSON, now=NOON
    )
    says(gone, "gone", now=NOON)
    confirm_wiped(gone, now=NOON)
    assert fresh(gone).state == InstanceState.DELETED
    before = Operation.objects.filter(instance=gone).count()

    keep_house(now=NOON + OPERATIONS_KEPT)
    assert Operation.objects.filter(instance=gone).count() == before > 0

    keep_house(now=NOON + OPERATIONS_KEPT + timedelta(seconds=1))
    assert not Operation.objects.filter(instance=gone).exists()
    assert Operation.objects.filter(instance=kept).exists()
    assert (Instance.objects.count(), Run.objects.count()) == (2, 2)
