"""Settings of an instance that is there: timers, protection, keys, password log-in."""

import ctypes
import ctypes.util
from datetime import timedelta

import pytest
from django.db import connection

from rental.instances import errors, money, passes, services
from rental.instances.models import Instance, InstancePassword
from rental.instances.naming import LETTERS
from rental.instances.passwords import digest_of
from rental.instances.respec import tell_node
from rental.records.ids import new_id, to_text
from rental.tenants.models import AuditEvent
from scheduler.models import Request
from scheduler.services import place
from scheduler.services.desired import desired_sets
from scheduler.services.place import run_pass
from tests.factories.rental import (
    NOON,
    PERSON,
    allocation_of,
    confirm_wiped,
    fresh,
    listen,
    make_rich_tenant,
    make_running,
    order,
    run_up,
    says,
    seconds,
)
from tests.factories.tenants import make_ssh_key
from tests.instances.test_secrets import everything_stored

pytestmark = pytest.mark.django_db
LATER = NOON + seconds(60)
YEAR = timedelta(days=366)


def change(instance, *, now=LATER, tenant_id=None, if_generation=None, **changes):
    return services.update_instance(
        tenant_id=tenant_id or instance.tenant_id,
        instance_id=instance.id,
        changes=changes,
        if_generation=if_generation,
        actor=PERSON,
        now=now,
    )


def reveal(instance, *, rotate=False, now=LATER, tenant_id=None):
    return services.reveal_password(
        tenant_id=tenant_id or instance.tenant_id,
        instance_id=instance.id,
        rotate=rotate,
        actor=PERSON,
        now=now,
    )[1]


def command(verb, instance, *, now=LATER):
    return getattr(services, f"{verb}_instance")(
        tenant_id=instance.tenant_id, instance_id=instance.id, actor=PERSON, now=now
    )


def ordered(instance):
    """Return what the instance's node is told to run."""
    (desired,) = desired_sets([allocation_of(instance).node_id])
    return next(one for one in desired.orders if one.instance == str(instance.id))


# --- timers


def test_timers_that_are_ordered_end_the_first_session(market, tenant):
    (instance,) = order(tenant, auto_stop_at=NOON + seconds(90), max_duration_s=60)
    run_up(instance)
    listen(since=NOON, until=NOON + seconds(61))

    passes.deadlines(now=NOON + seconds(59))
    assert fresh(instance).state == "running"
    passes.deadlines(now=NOON + seconds(61))

    row = fresh(instance)
    assert (row.state, row.state_reason) == ("stopping", {"code": "max_duration"})


def test_the_scheduler_knows_when_timers_end_what_runs(market, tenant):
    (instance,) = order(tenant, max_duration_s=60)
    assert Request.objects.get(instance_id=instance.id).lasts_s == 60
    run_up(instance)
    placed = allocation_of(instance)
    assert placed.ends_at == placed.created_at + seconds(60)

    change(instance, auto_stop_at=LATER + seconds(5), max_duration_s=None)
    assert allocation_of(instance).ends_at == LATER + seconds(5)
    change(instance, auto_stop_at=None)
    assert allocation_of(instance).ends_at is None


def test_timers_are_set_on_what_lives_and_bound_to_its_session(market, tenant):
    instance = make_running(tenant)
    command("stop", instance)
    says(instance, "gone", now=LATER)
    command("start", instance)
    at = LATER + seconds(600)

    change(instance, auto_stop_at=at)

    row = fresh(instance)
    assert (row.auto_stop_at, row.session, row.timers_session) == (at, 2, 2)
    event = AuditEvent.objects.get(verb="instance.changed")
    assert (event.before["auto_stop_at"], event.after["auto_stop_at"]) == (
        None,
        "2026-03-02T12:11:00Z",
    )
    change(instance, auto_stop_at=None)
    assert fresh(instance).auto_stop_at is None


@pytest.mark.parametrize(
    "changes",
    [
        {"auto_stop_at": LATER},
        {"auto_stop_at": LATER + YEAR + seconds(1)},
        {"max_duration_s": 59},
        {"max_duration_s": 366 * 86_400 + 1},
    ],
)
def test_a_timer_that_makes_no_sense_is_refused_in_an_order_and_later(market, tenant, changes):
    instance = make_running(tenant)
    before = fresh(instance).version

    with pytest.raises(errors.BadOrder) as refusal:
        change(instance, **changes)
    with pytest.raises(errors.BadOrder):
        order(tenant, now=LATER, **changes)

    assert refusal.value.field == next(iter(changes))
    assert fresh(instance).version == before
    assert Instance.objects.count() == 1


def test_a_longest_duration_that_is_over_already_is_refused(market, tenant):
    instance = make_running(tenant)

    with pytest.raises(errors.BadOrder):
        change(instance, max_duration_s=60, now=NOON + seconds(61))


def test_what_is_stopped_takes_no_timer(market, tenant):
    instance = make_running(tenant)
    command("stop", instance)

    with pytest.raises(errors.NotPossibleNow):
        change(instance, auto_stop_at=LATER + seconds(60))


def test_the_pass_of_deadlines_finds_timers_by_their_index(market, tenant):
    make_running(tenant, auto_stop_at=NOON + seconds(600))
    query, given = passes._timers_due(now=LATER)[:10].query.sql_with_params()

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {query}", given)
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "instance_timer" in plan, plan


# --- protection, several at once, nothing


def test_a_protected_instance_is_not_released(market, tenant):
    instance = make_running(tenant)
    change(instance, protected=True, name="keep me")

    with pytest.raises(errors.InstanceProtected):
        command("release", instance)

    assert (fresh(instance).name, fresh(instance).generation) == ("keep me", 2)
    assert AuditEvent.objects.get(verb="instance.changed").after == {
        "name": "keep me",
        "protected": True,
    }


def test_what_is_as_it_was_changes_nothing(market, tenant):
    instance = make_running(tenant)
    before = fresh(instance)

    change(instance, protected=False, ssh_key_ids=(), auto_stop_at=None, name=instance.name)

    assert fresh(instance).version == before.version
    assert not AuditEvent.objects.filter(verb="instance.changed").exists()


def test_one_bad_value_leaves_all_as_it_was(market, tenant):
    instance = make_running(tenant)

    with pytest.raises(errors.UnknownSshKey):
        change(instance, protected=True, ssh_key_ids=[new_id()])

    assert not fresh(instance).protected


def test_settings_ask_for_the_generation_and_the_tenant(market, tenant):
    instance = make_running(tenant)

    with pytest.raises(errors.GenerationMismatch):
        change(instance, protected=True, if_generation=7)
    with pytest.raises(errors.UnknownInstance):
        change(instance, protected=True, tenant_id=make_rich_tenant().id)
    with pytest.raises(errors.UnknownInstance):
        reveal(instance, tenant_id=make_rich_tenant().id)


# --- keys


def test_keys_reach_a_running_instance_by_a_new_revision_of_its_order(market, tenant):
    instance = make_running(tenant)
    key = make_ssh_key(tenant)
    version = fresh_node_version(instance)

    change(instance, ssh_key_ids=[key.id])

    told = ordered(instance)
    assert (told.spec.ssh_keys, told.spec_rev) == ([key.public_key], 2)
    assert fresh_node_version(instance) == version + 1
    row = fresh(instance)
    assert (row.generation, row.observed_generation) == (2, 2)
    assert AuditEvent.objects.get(verb="instance.changed").after == {
        "ssh_key_ids": [to_text("ssh", key.id)]
    }


def fresh_node_version(instance):
    node = allocation_of(instance).node
    node.refresh_from_db()
    return node.version


def test_keys_of_what_waits_are_in_the_order_that_it_gets(market, tenant):
    (instance,) = order(tenant)
    key = make_ssh_key(tenant)

    change(instance, ssh_key_ids=[key.id])

    run_up(instance)
    assert (ordered(instance).spec.ssh_keys, ordered(instance).spec_rev) == ([key.public_key], 1)


def test_keys_are_not_lost_when_a_pass_places_it_at_that_moment(market, tenant):
    (instance,) = order(tenant)
    key = make_ssh_key(tenant)
    run_pass(now=NOON, on_placed=lambda placed: money.open_placed(placed, now=NOON))
    assert Request.objects.get(instance_id=instance.id).state == "placed"

    tell_node(with_keys(instance, key), now=LATER)

    assert allocation_of(instance).spec["ssh_keys"] == [key.public_key]


def test_keys_are_not_lost_when_they_change_while_a_pass_decides(market, tenant, monkeypatch):
    (instance,) = order(tenant)
    key = make_ssh_key(tenant)
    read = place.load_inventory

    def meanwhile():
        change(instance, ssh_key_ids=[key.id])
        return read()

    monkeypatch.setattr(place, "load_inventory", meanwhile)
    passes.place(now=NOON)

    assert fresh(instance).state == "provisioning"
    assert ordered(instance).spec.ssh_keys == [key.public_key]


def with_keys(instance, key):
    Instance.objects.filter(pk=instance.pk).update(ssh_key_ids=[key.id])
    return fresh(instance)


def test_keys_of_what_is_stopped_are_in_its_next_order(market, tenant):
    instance = make_running(tenant)
    command("stop", instance)
    says(instance, "gone", now=LATER)
    key = make_ssh_key(tenant)

    change(instance, ssh_key_ids=[key.id])
    command("start", instance)
    run_up(instance, now=LATER)

    assert ordered(instance).spec.ssh_keys == [key.public_key]


# --- passwords


def test_a_password_is_20_plain_letters_and_stands_in_no_table(market, tenant):
    instance = make_running(tenant, password_login=True)

    password = reveal(instance)

    assert len(password) == 20
    assert set(password) <= set(LETTERS)
    assert reveal(instance) == password
    stored = everything_stored()
    for form in (password, password.encode().hex()):
        assert form not in stored
    events = AuditEvent.objects.filter(verb="instance.password_revealed")
    assert events.count() == 2
    assert {(event.actor_id, event.after) for event in events} == {(PERSON.id, None)}


def test_a_node_gets_a_digest_that_a_linux_login_understands(market, tenant):
    instance = make_running(tenant, password_login=True)
    digest = ordered(instance).spec.password_digest

    assert crypt(reveal(instance), digest) == digest
    assert crypt("another", digest) != digest
    assert digest.startswith("$7$A6")


def crypt(password, setting):
    library = ctypes.CDLL(ctypes.util.find_library("crypt") or "libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    return library.crypt(password.encode(), setting.encode()).decode()


def test_a_digest_is_salted():
    assert digest_of("a") != digest_of("a")
    assert digest_of("a", "salt") == digest_of("a", "salt")


def test_without_password_login_there_is_no_password(market, tenant):
    instance = make_running(tenant)

    with pytest.raises(errors.PasswordLoginOff):
        reveal(instance)
    with pytest.raises(errors.PasswordLoginOff):
        reveal(instance, rotate=True)

    assert ordered(instance).spec.password_digest == ""
    assert not InstancePassword.objects.exists()
    assert not AuditEvent.objects.filter(verb__startswith="instance.password").exists()


def test_password_login_is_switched_live_and_off_it_is_forgotten(market, tenant):
    instance = make_running(tenant)

    change(instance, password_login=True)
    on = ordered(instance)
    assert (bool(on.spec.password_digest), on.spec_rev) == (True, 2)
    first = reveal(instance)
    change(instance, password_login=False)

    off = ordered(instance)
    assert (off.spec.password_digest, off.spec_rev) == ("", 3)
    assert not InstancePassword.objects.exists()
    change(instance, password_login=True)
    assert reveal(instance) != first


def test_a_rotated_password_reaches_the_node_at_once(market, tenant):
    instance = make_running(tenant, password_login=True)
    old, was = reveal(instance), ordered(instance)

    new = reveal(instance, rotate=True)

    told = ordered(instance)
    assert new != old
    assert told.spec_rev == was.spec_rev + 1
    assert crypt(new, told.spec.password_digest) == told.spec.password_digest
    assert crypt(old, told.spec.password_digest) != told.spec.password_digest
    assert AuditEvent.objects.filter(verb="instance.password_rotated").count() == 1


def test_each_of_several_has_a_password_of_its_own(market, tenant):
    first, second = order(tenant, count=2, password_login=True)

    assert reveal(first) != reveal(second)


def test_a_password_goes_with_its_instance(market, tenant):
    instance = make_running(tenant, password_login=True)
    command("release", instance)
    with pytest.raises(errors.NotPossibleNow):
        reveal(instance)

    says(instance, "gone", now=LATER)
    confirm_wiped(instance, now=LATER)

    assert fresh(instance).state == "deleted"
    assert not InstancePassword.objects.exists()


def test_a_password_that_was_moved_to_another_row_does_not_open(market, tenant):
    mine, other = order(tenant, count=2, password_login=True)
    stolen = InstancePassword.objects.get(instance=other)
    InstancePassword.objects.filter(instance=mine).update(ciphertext=stolen.ciphertext)

    with pytest.raises(errors.SecretUnreadable):
        reveal(mine)


def test_without_a_key_nothing_is_ordered_with_a_password(market, tenant, settings):
    settings.SECRETS_KEY = None

    with pytest.raises(errors.SecretsNotSetUp):
        order(tenant, password_login=True)

    assert not Instance.objects.exists()
