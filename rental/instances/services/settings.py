"""Change what can be changed while an instance is there: name, protection, timers, who gets in."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from django.db import transaction

from rental.instances import orders
from rental.instances.actions import Verb, check_state
from rental.instances.ends import expected_end
from rental.instances.errors import BadOrder, PasswordLoginOff
from rental.instances.models import Instance
from rental.instances.passwords import forget_password, give_password, read_password
from rental.instances.respec import tell_node
from rental.instances.services.parts import begin_command
from rental.instances.states import InstanceState
from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from scheduler.models import Allocation
from scheduler.services import allocations

S = InstanceState


class Changes(TypedDict, total=False):
    """What is to be different; what is not named stays. A timer that is None is taken off."""

    name: str
    protected: bool
    auto_stop_at: datetime | None
    max_duration_s: int | None
    ssh_key_ids: Sequence[uuid.UUID]
    password_login: bool
    on_node_loss: str
    migrate_ok: bool


VERBS: dict[str, Verb] = {
    "name": "rename",
    "protected": "protect",
    "auto_stop_at": "set_timers",
    "max_duration_s": "set_timers",
    "ssh_key_ids": "set_ssh_keys",
    "password_login": "set_password_login",
    "on_node_loss": "set_failover",
    "migrate_ok": "set_failover",
}
# What the node must hear of; it applies these while the instance runs.
FOR_THE_NODE = frozenset({"ssh_key_ids", "password_login"})


@transaction.atomic
def update_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    changes: Changes,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Change an instance's settings, all or none; what is as it was changes nothing. Keys and password
    log-in reach a running instance within seconds; timers bind to the present session.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises BadOrder, UnknownSshKey, ReplaceNotOffered: if a value cannot be used
    :raises NotPossibleNow: if one of them has no meaning in its state
    :raises SecretsNotSetUp: if a password is wanted and the deployment has no SECRETS_KEY
    """
    changes = _cleaned(changes)
    instance = begin_command(tenant_id, instance_id, if_generation, now=now)
    new = {name: value for name, value in changes.items() if getattr(instance, name) != value}
    if not new:
        return instance
    for name in new:
        check_state(instance, VERBS[name])
    _check_values(instance, new, now=now)
    before = {name: _as_text(getattr(instance, name)) for name in new}
    for name, value in new.items():
        setattr(instance, name, value)
    instance.timers_session = instance.session
    if "password_login" in new:
        give_password(instance, now=now) if instance.password_login else forget_password(instance)
    _accept_settled(instance, [*new, "timers_session"])
    if {"auto_stop_at", "max_duration_s"}.intersection(new):
        allocations.expect_end(
            instance_id=instance.id, ends_at=expected_end(instance, now=now), now=now
        )
    if FOR_THE_NODE.intersection(new):
        tell_node(instance, now=now)
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="instance.renamed" if set(new) == {"name"} else "instance.changed",
        subject=to_text("ins", instance.id),
        before=before,
        after={name: _as_text(getattr(instance, name)) for name in new},
        request_id=request_id,
        now=now,
    )
    return instance


def rename_instance(*, name: str, **rest: Any) -> Instance:
    """Give an instance another name. Its slug, and so its addresses, stay. See update_instance."""
    return update_instance(changes={"name": name}, **rest)


@transaction.atomic
def reveal_password(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    rotate: bool = False,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> tuple[Instance, str]:
    """
    Return the instance with its password, a new one if ``rotate``; audited. The old one opens
    nothing as soon as the node has heard of it; who is logged in stays.

    :raises UnknownInstance: see there
    :raises PasswordLoginOff: if password log-in is off
    :raises NotPossibleNow: if the instance is being released
    :raises SecretsNotSetUp, SecretUnreadable: if nobody can read it here
    """
    instance = begin_command(tenant_id, instance_id, None, now=now)
    check_state(instance, "reveal_password")
    if not instance.password_login:
        raise PasswordLoginOff
    if rotate:
        give_password(instance, now=now)
        _accept_settled(instance, [])
        tell_node(instance, now=now)
    password = read_password(instance)
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="instance.password_rotated" if rotate else "instance.password_revealed",
        subject=to_text("ins", instance.id),
        request_id=request_id,
        now=now,
    )
    return instance, password


def _cleaned(changes: Changes) -> Changes:
    cleaned = changes.copy()
    if "name" in changes:
        cleaned["name"] = orders.clean_name(changes["name"])
    if "ssh_key_ids" in changes:
        cleaned["ssh_key_ids"] = list(changes["ssh_key_ids"])
    return cleaned


def _check_values(instance: Instance, new: Mapping[str, Any], *, now: datetime) -> None:
    orders.check_timers(
        auto_stop_at=new.get("auto_stop_at"), max_duration_s=new.get("max_duration_s"), now=now
    )
    longest, ready_at = new.get("max_duration_s"), instance.session_ready_at
    if longest is not None and ready_at is not None and ready_at + timedelta(seconds=longest) < now:
        raise BadOrder("max_duration_s", "it has run longer than that already")
    if "on_node_loss" in new:
        homes = Allocation.objects.residing().filter(instance_id=instance.id)
        node_id = homes.values_list("node_id", flat=True).first()
        orders.check_on_node_loss(new["on_node_loss"], region=instance.region, node_id=node_id)
    keys = new.get("ssh_key_ids", ())
    if len(keys) > orders.MOST_SSH_KEYS or len(set(keys)) < len(keys):
        raise BadOrder("ssh_key_ids", f"at most {orders.MOST_SSH_KEYS}, each once")
    # One that was removed meanwhile may stay on the list: it opens nothing.
    added = [key for key in keys if key not in instance.ssh_key_ids]
    orders.check_ssh_keys(instance.tenant_id, added)


def _accept_settled(instance: Instance, fields: Sequence[str]) -> None:
    """Raise the generation; nothing waits for it, so what was observed is observed still."""
    settled = instance.observed_generation == instance.generation
    instance.generation += 1
    if settled:
        instance.observed_generation = instance.generation
    instance.save(update_fields=[*fields, "generation", "observed_generation"])


def _as_text(value: Any) -> Any:
    """Return a setting as the audit log keeps it."""
    return [to_text("ssh", key) for key in value] if isinstance(value, list | tuple) else value
