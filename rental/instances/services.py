"""
Commands on instances: create, stop, start, restart, release, rename.

Each is one transaction. Lock order: wallet, instance, request and allocation, node, run. A
command first levels the instance with what has happened meanwhile, so that it decides on facts.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction

from billing.services import holds, runs, wallets
from rental.catalog import services as catalog
from rental.catalog.models import Image, Offer
from rental.instances import money, naming, operations, orders
from rental.instances.errors import (
    GenerationMismatch,
    InstanceLocked,
    InstanceProtected,
    NotPossibleNow,
    UnknownInstance,
)
from rental.instances.facts import disks_are_on, read_facts
from rental.instances.level import cancel_wait, end_session, level, locked_instance, release
from rental.instances.models import (
    DesiredState,
    Instance,
    OperationKind,
    OperationState,
)
from rental.instances.secrets import hold_secrets
from rental.instances.specs import build_spec
from rental.instances.states import RESTING, InstanceState
from rental.instances.tasks import place, sync
from rental.records.audit import Actor, record_event
from rental.records.hints import hint
from rental.records.ids import new_id, to_text
from rental.tenants.models import Project
from scheduler.services import allocations
from scheduler.services.requests import cancel_request, open_request

log = structlog.get_logger()
S = InstanceState

# Locks under which nothing may be started; stopping and releasing stay possible.
LOCKS_AGAINST_START = frozenset({"financial", "security", "maintenance", "operator"})


@transaction.atomic
def create_instances(
    *,
    tenant_id: uuid.UUID,
    project_id: uuid.UUID | None = None,
    offer_code: str,
    market: str = "on_demand",
    image_code: str,
    count: int = 1,
    name: str | None = None,
    ssh_key_ids: Sequence[uuid.UUID] = (),
    command: Sequence[str] = (),
    env: dict[str, str] | None = None,
    secrets: Sequence[str] = (),
    quote_id: uuid.UUID | None = None,
    max_hourly_price: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> list[Instance]:
    """
    Order ``count`` independent instances: hold their money and queue them, all or none.

    Several of one order are called ``name-1`` to ``name-n``. Without ``project_id`` they belong
    to the tenant's default project. ``max_hourly_price`` is for the whole order, in micro-units.

    :raises CatalogError: what is ordered is not on sale like this, or not at this price
    :raises UnknownProject, UnknownSshKey, UnknownSecret, BadOrder, TenantNotActive: the order
        cannot be taken
    :raises InsufficientBalance, TenantInArrears: from billing; half an hour must be covered
    """
    catalog.check_count(count)
    offer = catalog.get_offer(code=offer_code, market=market)
    image = catalog.get_image(code=image_code, offer=offer)
    price = catalog.current_price(offer=offer, market=market, now=now).price
    catalog.check_limit(total=price * count, limit=max_hourly_price)
    if quote_id is not None:
        catalog.take_quote(
            tenant_id=tenant_id,
            quote_id=quote_id,
            offer=offer,
            market=market,
            image=image,
            count=count,
            price=price,
            now=now,
        )
    orders.check_tenant(tenant_id)
    project = orders.find_project(tenant_id, project_id)
    orders.check_ssh_keys(tenant_id, ssh_key_ids)
    orders.check_command(command, env or {})

    wallets.lock_wallet(tenant_id=tenant_id, now=now)
    hold_secrets(tenant_id, secrets, env=env or {})
    made = [
        _create_one(
            tenant_id=tenant_id,
            project=project,
            offer=offer,
            image=image,
            market=market,
            name=one_name,
            ssh_key_ids=list(ssh_key_ids),
            command=list(command),
            env=env or {},
            secrets=list(secrets),
            price=price,
            actor=actor,
            now=now,
        )
        for one_name in orders.names_of(name, count)
    ]
    for instance in made:
        _audit(instance, "instance.created", actor=actor, request_id=request_id, now=now)
    hint(place)
    return made


def _create_one(
    *,
    tenant_id: uuid.UUID,
    project: Project,
    offer: Offer,
    image: Image,
    market: str,
    name: str,
    ssh_key_ids: list[uuid.UUID],
    command: list[str],
    env: dict[str, str],
    secrets: list[str],
    price: int,
    actor: Actor,
    now: datetime,
) -> Instance:
    instance = Instance(
        id=new_id(),
        tenant_id=tenant_id,
        project=project,
        name=name,
        slug=naming.make_slug(name),
        state=S.QUEUED,
        state_at=now,
        deadline_at=now + settings.SCHEDULER_REQUEST_TTL,
        offer=offer,
        image=image,
        market=market,
        price_key=catalog.price_key(offer, market),
        region=offer.region,
        shape=orders.stored_shape(catalog.shape_of(offer)),
        disk_mib=offer.disk_mib,
        command=command,
        env=env,
        secrets=secrets,
        ssh_key_ids=ssh_key_ids,
        created_by=f"{actor.kind}:{actor.id}"[:80],
        created_at=now,
    )
    holds.place_hold(tenant_id=tenant_id, instance_id=instance.id, burn_per_hour=price, now=now)
    instance.save(force_insert=True)
    operations.begin(instance, OperationKind.CREATE, now=now)
    _ask_for_a_place(instance, now=now)
    return instance


def _ask_for_a_place(instance: Instance, *, now: datetime) -> None:
    request = open_request(
        request_id=new_id(),
        tenant_id=instance.tenant_id,
        instance_id=instance.id,
        shape=orders.shape_of(instance.shape),
        market=instance.market,
        region=instance.region,
        spec=build_spec(instance),
        residences_on=disks_are_on(instance),
        now=now,
    )
    instance.request_id = request.id
    instance.save(update_fields=["request_id"])


@transaction.atomic
def stop_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Stop an instance and keep its disk. Nothing is charged from now on, whenever the node obeys.

    Queued: the request is taken back. On a node that is lost: stopped at once. Stopping what
    stops or has stopped changes nothing.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises NotPossibleNow: if the instance has failed or is being released
    """
    instance = _command(tenant_id, instance_id, if_generation, now=now)
    state = S(instance.state)
    if state in (S.STOPPING, S.STOPPED):
        return instance
    if state in RESTING or state is S.RELEASING:
        raise NotPossibleNow(verb="stop", state=state)
    before = _as_audited(instance)
    if state is S.QUEUED and cancel_request(instance_id=instance.id, now=now):
        _accept(instance)
        operations.begin(instance, OperationKind.STOP, now=now, done=["stopping"])
        operations.end_running(instance, OperationState.SUCCEEDED, now=now)
        cancel_wait(instance, reason={"code": "cancelled"}, now=now)
    else:
        # A pass may have placed it while the request was being taken back, or ended its wait.
        level(instance, now=now)
        if S(instance.state) in RESTING:
            return instance
        _accept(instance)
        operations.begin(instance, OperationKind.STOP, now=now)
        end_session(
            instance,
            read_facts(instance),
            reason={"code": "user"},
            at=now,
            now=now,
            actor=actor,
        )
    _audit(instance, "instance.stopped", actor=actor, request_id=request_id, now=now, before=before)
    hint(sync)
    return instance


@transaction.atomic
def start_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Start a stopped or failed instance where its disk is: a new session, a new hold, the queue.

    It waits (reason "releasing") until its node has confirmed the end of the session before.
    Timers belong to a session; a new one begins without them.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises NotPossibleNow: if the instance is neither stopped nor failed
    :raises InstanceLocked, TenantNotActive: if it or its tenant may not be started
    :raises UnknownSecret: if a secret that it names was removed
    :raises OfferHasNoPrice: if what it is has no price any more
    :raises InsufficientBalance, TenantInArrears: from billing
    """
    instance = _command(tenant_id, instance_id, if_generation, now=now)
    state = S(instance.state)
    if state not in (S.STOPPED, S.FAILED):
        raise NotPossibleNow(verb="start", state=state)
    orders.check_tenant(tenant_id)
    _check_locks(instance, verb="start")
    hold_secrets(tenant_id, instance.secrets)
    price = catalog.current_price(offer=instance.offer, market=instance.market, now=now).price
    before = _as_audited(instance)
    holds.place_hold(tenant_id=tenant_id, instance_id=instance.id, burn_per_hour=price, now=now)
    instance.session += 1
    instance.timers_session = instance.session
    instance.auto_stop_at = instance.auto_release_at = instance.max_duration_s = None
    instance.allocation_id = instance.run_id = instance.exit_code = None
    instance.session_ready_at = None
    instance.desired_state = DesiredState.RUNNING
    instance.save()
    _accept(instance)
    operations.begin(instance, OperationKind.START, now=now)
    instance.move_to(S.QUEUED, at=now, allowance=settings.SCHEDULER_REQUEST_TTL)
    _ask_for_a_place(instance, now=now)
    _audit(instance, "instance.started", actor=actor, request_id=request_id, now=now, before=before)
    hint(place)
    return instance


@transaction.atomic
def restart_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Give a running instance a fresh container in its place: same session, new incarnation, new
    run. The time between the two is not charged.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises NotPossibleNow: if it does not run
    :raises InstanceLocked: if it may not be started
    """
    instance = _command(tenant_id, instance_id, if_generation, now=now)
    facts = read_facts(instance)
    if instance.state != S.RUNNING or facts.allocation is None or facts.run is None:
        raise NotPossibleNow(verb="restart", state=instance.state)
    _check_locks(instance, verb="restart")
    before = _as_audited(instance)
    _accept(instance)
    operations.begin(instance, OperationKind.RESTART, now=now, done=["reserved", "node_accepted"])
    instance.endpoints.all().delete()
    instance.run_id = new_id()
    instance.save(update_fields=["run_id"])
    allocations.restart(allocation_id=facts.allocation.id, run_id=instance.run_id, now=now)
    runs.close_run(run_id=facts.run.id, at=now, reason="restart")
    runs.open_runs(
        [
            money.opening_of(
                instance,
                run_id=instance.run_id,
                allocation_id=facts.allocation.id,
                node_id=facts.allocation.node_id,
                now=now,
            )
        ]
    )
    instance.move_to(S.STARTING, at=now)
    _audit(
        instance, "instance.restarted", actor=actor, request_id=request_id, now=now, before=before
    )
    hint(sync)
    return instance


@transaction.atomic
def release_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Give an instance and its disks back, in any state. Nothing is charged from now on; it is
    ``deleted`` once its node has confirmed the wipe. Releasing it again changes nothing.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises InstanceProtected: if it is protected from release
    """
    instance = _command(tenant_id, instance_id, if_generation, now=now)
    state = S(instance.state)
    if state in (S.RELEASING, S.RECYCLED, S.DELETED):
        return instance
    if instance.protected:
        raise InstanceProtected(instance.id)
    before = _as_audited(instance)
    if state is S.QUEUED and not cancel_request(instance_id=instance.id, now=now):
        level(instance, now=now)  # a pass placed it meanwhile
    _accept(instance)
    operations.begin(instance, OperationKind.RELEASE, now=now)
    release(instance, reason={"code": "user"}, now=now)
    _audit(
        instance, "instance.released", actor=actor, request_id=request_id, now=now, before=before
    )
    hint(sync)
    return instance


@transaction.atomic
def rename_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    name: str,
    if_generation: int | None = None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    """
    Give an instance another name. Its slug, and so its addresses, stay.

    :raises UnknownInstance, GenerationMismatch: see there
    :raises BadOrder: if the name cannot be used
    :raises NotPossibleNow: if it is deleted
    """
    name = orders.clean_name(name)
    instance = Instance.objects.of(tenant_id).locked().filter(pk=instance_id).first()
    if instance is None:
        raise UnknownInstance(instance_id)
    _check_generation(instance, if_generation)
    if instance.state == S.DELETED:
        raise NotPossibleNow(verb="rename", state=instance.state)
    if instance.name == name:
        return instance
    before = {"name": instance.name}
    instance.name = name
    # Nothing is on its way for it: what was observed up to here is observed still.
    settled = instance.observed_generation == instance.generation
    instance.generation += 1
    if settled:
        instance.observed_generation = instance.generation
    instance.save(update_fields=["name", "generation", "observed_generation"])
    record_event(
        tenant_id=tenant_id,
        actor=actor,
        verb="instance.renamed",
        subject=to_text("ins", instance.id),
        before=before,
        after={"name": name},
        request_id=request_id,
        now=now,
    )
    return instance


# --- parts of commands


def _command(
    tenant_id: uuid.UUID, instance_id: uuid.UUID, if_generation: int | None, *, now: datetime
) -> Instance:
    """Lock, check If-Match, and catch up with what has happened."""
    instance = locked_instance(tenant_id=tenant_id, instance_id=instance_id, now=now)
    _check_generation(instance, if_generation)
    level(instance, now=now)
    return instance


def _accept(instance: Instance) -> None:
    instance.generation += 1
    instance.save(update_fields=["generation"])


def _check_generation(instance: Instance, expected: int | None) -> None:
    if expected is not None and expected != instance.generation:
        raise GenerationMismatch(expected=expected, actual=instance.generation)


def _check_locks(instance: Instance, *, verb: str) -> None:
    locks = sorted(LOCKS_AGAINST_START.intersection(instance.locks))
    if locks:
        raise InstanceLocked(verb=verb, locks=locks)


def _as_audited(instance: Instance) -> dict[str, Any]:
    return {"state": instance.state, "generation": instance.generation}


def _audit(
    instance: Instance,
    verb: str,
    *,
    actor: Actor,
    request_id: str | None,
    now: datetime,
    before: dict[str, Any] | None = None,
) -> None:
    after = _as_audited(instance) | {"session": instance.session}
    if before is None:
        after |= {
            "name": instance.name,
            "offer": instance.offer_id,
            "image": instance.image_id,
            "market": instance.market,
            "project": str(instance.project_id),
        }
    record_event(
        tenant_id=instance.tenant_id,
        actor=actor,
        verb=verb,
        subject=to_text("ins", instance.id),
        before=before,
        after=after,
        request_id=request_id,
        now=now,
    )
    log.info(verb, instance=str(instance.id), state=instance.state)
