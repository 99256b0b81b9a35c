"""
Values that tenants hand to their instances by name: kept sealed (sealing.py), read when an order
is sent. Plain values pass through ``put_secret`` and ``with_secrets`` alone. Where they rest
outside: the agent's spool and spec.json on the node, mode 0600.
"""

import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec
import structlog
from django.db import transaction

from agents.protocol import Desired, Order
from rental.instances.errors import (
    BadOrder,
    BadSecret,
    InstanceError,
    SecretInUse,
    SecretNotFound,
    UnknownSecret,
)
from rental.instances.models import Instance, Secret
from rental.instances.orders import ENV_NAME, FORBIDDEN_ENV
from rental.instances.sealing import check_key, seal, unseal
from rental.instances.states import RESTING, InstanceState
from rental.records.audit import Actor, record_event
from rental.records.ids import new_id, to_text
from rental.tenants.models import Tenant

MOST_VALUE = 8192  # characters
MOST_NAMED = 16  # by one instance; their values travel in every desired set of its node
MOST_KEPT = 500  # by one tenant
UNUSABLE = re.compile("[\0\ud800-\udfff]")  # in an environment, in UTF-8

# What may not start again without a command, and a command looks first.
AT_REST = (*RESTING, InstanceState.RELEASING)

log = structlog.get_logger()


@transaction.atomic
def put_secret(
    *,
    tenant_id: uuid.UUID,
    name: str,
    value: str,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Secret:
    """
    Keep ``value`` under ``name``, in place of what stood there. What runs has the old one until
    its next start.

    :raises BadSecret: if it cannot be a variable of an instance
    :raises SecretsNotSetUp: if the deployment has no SECRETS_KEY
    """
    _check(name, value)
    check_key()
    # Two first puts of one name come one after the other, and the count below is true.
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant_id)
    kept = Secret.objects.of(tenant_id)
    secret = kept.filter(name=name).select_for_update(no_key=True).first()
    is_new = secret is None
    if secret is None:
        if kept.count() >= MOST_KEPT:
            raise BadSecret("name", f"at most {MOST_KEPT} secrets are kept")
        secret = Secret(id=new_id(), tenant_id=tenant_id, name=name, created_at=now)
    seal(secret, value)
    secret.updated_at = now
    secret.save(force_insert=is_new)
    _audit(secret, "secret.put" if is_new else "secret.replaced", actor, request_id, now)
    return secret


@transaction.atomic
def remove_secret(
    *,
    tenant_id: uuid.UUID,
    secret_id: uuid.UUID,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> None:
    """
    Forget a secret. One that stopped instances name can go; they start when it is put again.

    :raises SecretNotFound: if the tenant has no such secret
    :raises SecretInUse: if an instance that runs, or is about to, names it
    """
    secret = Secret.objects.of(tenant_id).filter(pk=secret_id).select_for_update().first()
    if secret is None:
        raise SecretNotFound(secret_id)
    users = Instance.objects.of(tenant_id).filter(secrets__contains=[secret.name])
    if (users := users.exclude(state__in=AT_REST)).exists():
        names = list(users.order_by("pk").values_list("name", flat=True)[:5])
        raise SecretInUse(secret.name, names)
    _audit(secret, "secret.removed", actor, request_id, now)
    secret.delete()


def hold_secrets(tenant_id: uuid.UUID, names: Sequence[str], *, env: Collection[str] = ()) -> None:
    """
    Check that an instance can have these, and keep them from being removed meanwhile. Lock order:
    after wallet and instance.

    :raises UnknownSecret: if the tenant has no secret of one of these names
    :raises BadOrder: if they are too many, or one is named twice or is also a plain variable
    """
    if len(names) > MOST_NAMED:
        raise BadOrder("secrets", f"at most {MOST_NAMED} secrets")
    for index, name in enumerate(names):
        if name in names[:index] or name in env:
            raise BadOrder("secrets", f"{name[:40]!r} is given twice")
    rows = Secret.objects.of(tenant_id).filter(name__in=names).order_by("pk")
    known = set(rows.select_for_update(no_key=True).values_list("name", flat=True))
    for name in names:
        if name not in known:
            raise UnknownSecret(name)


def with_secrets(sets: Iterable[Desired]) -> list[Desired]:
    """
    Return the desired sets with the values in the environment of each order to run that names
    secrets. Two queries, none where nobody names one. For the gateway, at the moment of sending.

    An order whose secrets cannot be read (removed, another key) goes out without its run, which
    starts nothing and ends nothing: no instance starts without what it needs, no other order of
    the node waits, and the error in the log names it.
    """
    sets = list(sets)
    asking = [order for desired in sets for order in desired.orders if _asks(order)]
    if not asking:
        return sets
    sealed = _find(asking)
    return [
        msgspec.structs.replace(
            desired,
            orders=[_fill(order, sealed) if _asks(order) else order for order in desired.orders],
        )
        for desired in sets
    ]


def _asks(order: Order) -> bool:
    return order.want == "run" and bool(order.spec.secrets)


def _find(orders: Iterable[Order]) -> dict[tuple[str, str], Secret]:
    """Return what each instance names and its own tenant keeps, by (instance, name)."""
    named = {order.instance: order.spec.secrets for order in orders}
    tenants = dict(Instance.objects.filter(pk__in=named).values_list("pk", "tenant_id"))
    rows = Secret.objects.filter(
        tenant_id__in=set(tenants.values()), name__in={n for names in named.values() for n in names}
    )
    kept = {(secret.tenant_id, secret.name): secret for secret in rows}
    return {
        (str(instance_id), name): kept[tenant_id, name]
        for instance_id, tenant_id in tenants.items()
        for name in named[str(instance_id)]
        if (tenant_id, name) in kept
    }


def _fill(order: Order, sealed: dict[tuple[str, str], Secret]) -> Order:
    try:
        values = {
            name: _open(sealed.get((order.instance, name)), name) for name in order.spec.secrets
        }
    except InstanceError as error:
        log.error("secrets.unreadable", instance=order.instance, why=str(error))
        return msgspec.structs.replace(order, run=None)
    spec = msgspec.structs.replace(order.spec, env={**order.spec.env, **values})
    return msgspec.structs.replace(order, spec=spec)


def _check(name: str, value: str) -> None:
    if not ENV_NAME.fullmatch(name) or name.upper().startswith((*FORBIDDEN_ENV, "TESSERA_")):
        raise BadSecret("name", "letters, digits and underscores, none that the node sets itself")
    if len(value) > MOST_VALUE or UNUSABLE.search(value):
        raise BadSecret("value", f"at most {MOST_VALUE} characters of text, none of them NUL")


def _open(secret: Secret | None, name: str) -> str:
    """:raises UnknownSecret, SecretsNotSetUp, SecretUnreadable: none says more than the name"""
    if secret is None:
        raise UnknownSecret(name)
    return unseal(secret, name)


def _audit(secret: Secret, verb: str, actor: Actor, request_id: str | None, now: datetime) -> None:
    record_event(
        tenant_id=secret.tenant_id,
        actor=actor,
        verb=verb,
        subject=to_text("sec", secret.id),
        after={"name": secret.name, "key_id": secret.key_id},
        request_id=request_id,
        now=now,
    )
