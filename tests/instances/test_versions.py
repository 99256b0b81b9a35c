"""The version of an instance: raised and said by the database, once a transaction."""

import json

import psycopg
import pytest
from django.db import connection, transaction

from billing.models import Wallet
from rental.instances import passes, services
from rental.instances.models import Endpoint, Instance, Notice
from rental.instances.notices import level_balance_notices
from scheduler.models import Request
from tests.factories.rental import (
    NOON,
    PERSON,
    fresh,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    make_running,
    order,
    says,
    seconds,
)

LATER = NOON + seconds(60)


def rename(instance, name):
    return services.rename_instance(
        tenant_id=instance.tenant_id, instance_id=instance.id, name=name, actor=PERSON, now=LATER
    )


def versions(act, instance):
    """Return by how much ``act`` raises the version."""
    before = fresh(instance).version
    act()
    return fresh(instance).version - before


@pytest.mark.django_db
def test_a_change_raises_the_version_by_one_and_nothing_raises_it_by_none(market, tenant):
    (instance,) = order(tenant)

    assert versions(lambda: rename(instance, "one"), instance) == 1
    assert versions(lambda: rename(instance, "one"), instance) == 0
    same = Instance.objects.filter(pk=instance.pk)
    assert versions(lambda: same.update(name="one"), instance) == 0
    assert versions(lambda: same.update(name="two"), instance) == 1


@pytest.mark.django_db
def test_a_row_saved_whole_does_not_bring_an_older_version_back(market, tenant):
    (instance,) = order(tenant)
    old = fresh(instance)
    rename(instance, "one")
    rename(instance, "two")

    assert versions(old.save, instance) == 1


@pytest.mark.django_db
def test_what_is_shown_with_an_instance_raises_its_version(market, tenant):
    instance = make_running(tenant)
    endpoint = Endpoint.objects.get(instance=instance)

    assert versions(lambda: Endpoint.objects.filter(pk=endpoint.pk).update(port=1), instance) == 1
    assert versions(lambda: Endpoint.objects.filter(pk=endpoint.pk).update(port=1), instance) == 0
    assert versions(endpoint.delete, instance) == 1
    operations = instance.operations.all()
    assert versions(lambda: operations.update(percent=40), instance) == 1
    assert versions(operations.delete, instance) == 0
    assert versions(lambda: level_balance_notices(now=LATER), instance) == 0


@pytest.mark.django_db
def test_a_notice_raises_the_version(market, tenant):
    instance = make_running(tenant)
    Wallet.objects.filter(tenant=tenant).update(exhausts_at=LATER + seconds(3600))

    assert versions(lambda: level_balance_notices(now=LATER), instance) == 1
    assert Notice.objects.filter(instance=instance).exists()
    assert versions(lambda: level_balance_notices(now=LATER), instance) == 0


def address():
    """Where the tests' database is, for a connection of its own."""
    at = connection.settings_dict
    where = {"host": at["HOST"], "port": at["PORT"], "user": at["USER"], "password": at["PASSWORD"]}
    return {"dbname": at["NAME"], **{name: value for name, value in where.items() if value}}


@pytest.fixture
def listener():
    """A connection of its own that listens; call it for what was said since the last call."""
    with psycopg.connect(**address(), autocommit=True) as link:
        link.execute("LISTEN tessera_live")

        def heard():
            return [json.loads(said.payload) for said in link.notifies(timeout=0.2)]

        yield heard


@pytest.fixture
def committed():
    make_offer()
    make_image()
    return make_node(), make_rich_tenant()


@pytest.mark.django_db(transaction=True)
def test_a_change_is_said_once_at_its_commit_with_the_version_that_it_leaves(committed, listener):
    _, tenant = committed
    (instance,) = order(tenant)
    assert listener() == [said(instance)]

    with transaction.atomic():
        rename(instance, "one")
        rename(instance, "two")
        assert listener() == []

    assert listener() == [said(instance)]
    rename(instance, "two")
    assert listener() == []


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_is_not_said(committed, listener):
    _, tenant = committed
    (instance,) = order(tenant)
    listener()

    with transaction.atomic():
        rename(instance, "one")
        transaction.set_rollback(True)

    assert listener() == []


@pytest.mark.django_db(transaction=True)
def test_a_report_of_the_node_is_said_once(committed, listener):
    _, tenant = committed
    (instance,) = order(tenant)
    passes.place(now=NOON)
    for phase in ("accepted", "pulling", "starting"):
        says(instance, phase, now=NOON)
    listener()

    says(instance, "running", now=NOON)

    assert listener() == [said(instance)]
    passes.sync(now=NOON)
    assert listener() == []


@pytest.fixture
def waiting(committed, listener):
    """An instance that found no place yet; nobody has told it why."""
    node, tenant = committed
    node.cordoned = True
    node.save()
    (instance,) = order(tenant)
    listener()
    return fresh(instance)


@pytest.mark.django_db(transaction=True)
def test_why_an_instance_waits_is_said_once(waiting, listener):
    passes.place(now=NOON)

    assert fresh(waiting).version == waiting.version + 1
    assert listener() == [said(waiting)]
    passes.place(now=NOON)
    assert listener() == []


@pytest.mark.django_db(transaction=True)
def test_the_schedulers_pass_waits_for_nobody_who_holds_the_instance(waiting):
    with psycopg.connect(**address()) as holder:
        holder.execute("SELECT FROM rental_instance FOR UPDATE")

        passes.place(now=NOON)

    assert Request.objects.get(instance_id=waiting.pk).reasons == {"cordoned": 1}
    assert fresh(waiting).version == waiting.version


def said(instance):
    row = fresh(instance)
    return {"t": str(row.tenant_id), "i": str(row.id), "v": row.version}
