"""Secrets: sealed in the table, named in orders, opened only when a desired set is sent."""

import json
import threading
import uuid

import msgspec
import pytest
from django.db import connection, connections

from rental.instances import errors, secrets, services
from rental.instances.models import Instance, Secret
from rental.instances.secrets import put_secret, remove_secret, with_secrets
from rental.records.ids import to_text
from rental.tenants.models import AuditEvent
from scheduler.services.desired import desired_sets
from tests.factories.rental import (
    NOON,
    PERSON,
    allocation_of,
    fresh,
    make_image,
    make_node,
    make_offer,
    make_rich_tenant,
    make_running,
    order,
    run_up,
    seconds,
)

VALUE = "hf_a-plain-value"


def put(tenant, name="HF_TOKEN", value=VALUE, *, now=NOON):
    return put_secret(tenant_id=tenant.id, name=name, value=value, actor=PERSON, now=now)


def remove(tenant, secret):
    remove_secret(tenant_id=tenant.id, secret_id=secret.id, actor=PERSON, now=NOON)


def sent(instance):
    """The orders of the instance's node as the gateway sends them."""
    node_id = allocation_of(instance).node_id
    (desired,) = with_secrets(desired_sets([node_id]))
    return {uuid.UUID(one.instance): one for one in desired.orders}


def everything_stored():
    """Every value of every table of ours, as text."""
    with connection.cursor() as cursor:
        parts = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT string_agg(t::text, '|') FROM \"{table}\" t")
            parts.append(cursor.fetchone()[0] or "")
    return "\n".join(parts)


@pytest.mark.django_db
def test_a_value_comes_into_the_environment_of_its_order_and_into_no_table(market, tenant):
    put(tenant)
    put(tenant, "EMPTY", "")
    instance = make_running(tenant, secrets=["HF_TOKEN", "EMPTY"], env={"A": "b"})

    wanted = sent(instance)[instance.id]

    assert wanted.spec.env == {"A": "b", "HF_TOKEN": VALUE, "EMPTY": ""}
    assert wanted.spec.secrets == ["HF_TOKEN", "EMPTY"]
    assert wanted.run is not None
    assert allocation_of(instance).spec["secrets"] == ["HF_TOKEN", "EMPTY"]
    stored = everything_stored()
    assert "HF_TOKEN" in stored
    for form in (VALUE, VALUE.encode().hex()):
        assert form not in stored


@pytest.mark.django_db
def test_only_who_names_a_secret_gets_it_and_only_his_tenants(market, tenant):
    stranger = make_rich_tenant()
    put(tenant)
    put(stranger, value="the stranger's")
    named, plain = (make_running(tenant, **rest) for rest in ({"secrets": ["HF_TOKEN"]}, {}))

    wanted = sent(named)

    assert wanted[named.id].spec.env == {"HF_TOKEN": VALUE}
    assert wanted[plain.id].spec.env == {}


@pytest.mark.django_db
def test_sets_in_which_nobody_names_a_secret_cost_no_query(
    market, tenant, django_assert_num_queries
):
    put(tenant)
    instance = make_running(tenant)
    sets = desired_sets([allocation_of(instance).node_id])

    with django_assert_num_queries(0):
        assert with_secrets(sets) == sets


@pytest.mark.django_db
def test_an_order_that_starts_nothing_carries_no_value(market, tenant):
    put(tenant)
    instance = make_running(tenant, secrets=["HF_TOKEN"])
    services.stop_instance(
        tenant_id=tenant.id, instance_id=instance.id, actor=PERSON, now=NOON + seconds(60)
    )

    assert sent(instance)[instance.id].spec.env == {}


@pytest.mark.django_db
def test_a_replaced_value_is_sent_from_then_on(market, tenant):
    first = put(tenant)
    instance = make_running(tenant, secrets=["HF_TOKEN"])

    second = put(tenant, value="new", now=NOON + seconds(5))

    assert (second.id, second.created_at, second.updated_at) == (first.id, NOON, NOON + seconds(5))
    assert Secret.objects.count() == 1
    assert sent(instance)[instance.id].spec.env == {"HF_TOKEN": "new"}


@pytest.mark.django_db
def test_equal_values_are_sealed_differently(tenant):
    one, other = put(tenant, "A"), put(tenant, "B")

    assert bytes(one.ciphertext)[12:] != bytes(other.ciphertext)[12:]


@pytest.mark.django_db
@pytest.mark.parametrize("damage", ["moved", "flipped", "key", "no key", "removed"])
def test_what_does_not_open_holds_back_its_own_start_alone(
    market, tenant, settings, damage, caplog
):
    secret = put(tenant)
    other = put(tenant, "OTHER", "fine")
    broken = make_running(tenant, secrets=["HF_TOKEN"], env={"A": "b"})
    plain = make_running(tenant)
    rows = Secret.objects.filter(pk=secret.pk)
    if damage == "moved":  # a ciphertext of another row
        rows.update(ciphertext=other.ciphertext)
    elif damage == "flipped":
        sealed = bytearray(secret.ciphertext)
        sealed[-1] ^= 1
        rows.update(ciphertext=bytes(sealed))
    elif damage == "key":
        settings.SECRETS_KEY = bytes(32)
    elif damage == "no key":
        settings.SECRETS_KEY = None
    else:
        rows.delete()
    caplog.clear()

    wanted = sent(broken)

    assert (wanted[broken.id].run, wanted[broken.id].spec.env) == (None, {"A": "b"})
    assert wanted[broken.id].want == "run"  # nothing that runs is ended
    assert wanted[plain.id].run is not None
    logged = caplog.text
    assert "secrets.unreadable" in logged
    assert str(broken.id) in logged
    assert VALUE not in logged


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("1A", "x", "name"),
        ("A-B", "x", "name"),
        ("", "x", "name"),
        ("LD_PRELOAD", "x", "name"),
        ("nvidia_visible_devices", "x", "name"),
        ("TESSERA_RUN", "x", "name"),
        ("A", "plain\0", "value"),
        ("A", "plain\ud800", "value"),
        ("A", "plain" * 2000, "value"),
    ],
)
def test_what_no_instance_could_have_is_refused_without_telling_it(tenant, name, value, field):
    with pytest.raises(errors.BadSecret) as refused:
        put(tenant, name, value)

    assert refused.value.field == field
    assert "plain" not in str(refused.value)
    assert not Secret.objects.exists()


@pytest.mark.django_db
def test_without_a_key_none_is_kept(tenant, settings):
    settings.SECRETS_KEY = None

    with pytest.raises(errors.SecretsNotSetUp, match="SECRETS_KEY is not set"):
        put(tenant)

    assert not Secret.objects.exists()


@pytest.mark.django_db
def test_a_tenant_keeps_so_many_and_no_more(tenant, monkeypatch):
    monkeypatch.setattr(secrets, "MOST_KEPT", 1)
    put(tenant)
    put(tenant, value="replaced")

    with pytest.raises(errors.BadSecret, match="at most 1 secrets"):
        put(tenant, "B")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("named", "env", "error"),
    [
        (["NOTHING"], {}, errors.UnknownSecret),
        (["HF_TOKEN", "HF_TOKEN"], {}, errors.BadOrder),
        (["HF_TOKEN"], {"HF_TOKEN": "x"}, errors.BadOrder),
        ([f"S{n}" for n in range(17)], {}, errors.BadOrder),
    ],
)
def test_an_order_that_names_what_cannot_be_leaves_no_trace(market, tenant, named, env, error):
    put(tenant)
    put(make_rich_tenant(), "NOTHING", "another tenant's")

    with pytest.raises(error):
        order(tenant, secrets=named, env=env)

    assert not Instance.objects.exists()


@pytest.mark.django_db
def test_what_runs_keeps_its_secret_and_what_is_stopped_starts_when_it_is_put_again(market, tenant):
    secret = put(tenant)
    instance = make_running(tenant, secrets=["HF_TOKEN"], name="train")

    with pytest.raises(errors.SecretInUse, match="'HF_TOKEN' is used by train"):
        remove(tenant, secret)

    Instance.objects.filter(pk=instance.pk).update(state="stopped", deadline_at=None)
    remove(tenant, secret)
    start = {"tenant_id": tenant.id, "instance_id": instance.id, "actor": PERSON, "now": NOON}
    with pytest.raises(errors.UnknownSecret, match="there is no secret 'HF_TOKEN'"):
        services.start_instance(**start)
    assert fresh(instance).state == "stopped"

    put(tenant)
    assert services.start_instance(**start).state == "queued"


@pytest.mark.django_db
def test_nobody_removes_a_strangers_secret(tenant):
    secret = put(tenant)

    with pytest.raises(errors.SecretNotFound):
        remove(make_rich_tenant(), secret)

    assert Secret.objects.filter(pk=secret.pk).exists()


@pytest.mark.django_db
def test_every_change_is_audited_without_the_value(tenant, caplog):
    secret = put(tenant)
    put(tenant, value="hf_another-plain-value")
    remove(tenant, secret)

    events = AuditEvent.objects.of(tenant.id).filter(subject=to_text("sec", secret.id))
    assert sorted(events.values_list("verb", flat=True)) == [
        "secret.put",
        "secret.removed",
        "secret.replaced",
    ]
    shown = json.dumps([[event.before, event.after] for event in events])
    assert '"HF_TOKEN"' in shown
    assert "plain-value" not in shown + caplog.text


@pytest.mark.django_db(transaction=True)
def test_an_order_and_a_removal_at_once_never_leave_an_order_without_its_secret():
    make_offer()
    make_image()
    make_node()
    tenant = make_rich_tenant()
    for _ in range(4):
        secret = put(tenant)
        made, refused = [], []
        barrier = threading.Barrier(2)

        def act(do, *args, _made=made, _refused=refused, _barrier=barrier, **rest):
            try:
                _barrier.wait()
                _made.append(do(*args, **rest))
            except errors.InstanceError as error:
                _refused.append(error)
            finally:
                connections.close_all()

        threads = [
            threading.Thread(target=act, args=(order, tenant), kwargs={"secrets": ["HF_TOKEN"]}),
            threading.Thread(target=act, args=(remove, tenant, secret)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)

        assert (len(made), len(refused)) == (1, 1)
        named = Instance.objects.filter(secrets=["HF_TOKEN"]).exclude(state="stopped")
        assert named.exists() == Secret.objects.filter(pk=secret.pk).exists()
        named.update(state="stopped", deadline_at=None)


@pytest.mark.django_db
def test_a_set_with_values_is_read_back_by_the_agents_decoder(market, tenant):
    put(tenant, value='ünï "quoted"\n')
    (instance,) = order(tenant, secrets=["HF_TOKEN"])
    run_up(instance)

    frame = msgspec.json.encode(sent(instance)[instance.id])

    assert json.loads(frame)["spec"]["env"] == {"HF_TOKEN": 'ünï "quoted"\n'}
