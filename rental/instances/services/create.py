"""Order instances: hold their money and queue them, all or none."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.db import transaction

from billing.services import holds, wallets
from rental.catalog import services as catalog
from rental.catalog.models import Image, Offer
from rental.instances import naming, operations, orders
from rental.instances.models import (
    Instance,
    OnNodeLoss,
    OperationKind,
)
from rental.instances.passwords import give_password
from rental.instances.secrets import hold_secrets
from rental.instances.services.parts import (
    ask_for_a_place,
    audit,
)
from rental.instances.states import InstanceState
from rental.instances.tasks import place
from rental.records.audit import Actor
from rental.records.hints import hint
from rental.records.ids import new_id
from rental.tenants.models import Project

S = InstanceState


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
    password_login: bool = False,
    auto_stop_at: datetime | None = None,
    max_duration_s: int | None = None,
    on_node_loss: str = OnNodeLoss.KEEP,
    migrate_ok: bool = True,
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
    The timers belong to the first session; ``max_duration_s`` counts from readiness.

    :raises CatalogError: what is ordered is not on sale like this, or not at this price
    :raises UnknownProject, UnknownSshKey, UnknownSecret, BadOrder, TenantNotActive: the order
        cannot be taken
    :raises ReplaceNotOffered: if it is to be started elsewhere when its node is lost, and some
        node where it may be placed has no guard
    :raises SecretsNotSetUp: if it wants a password and the deployment has no SECRETS_KEY
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
    orders.check_timers(auto_stop_at=auto_stop_at, max_duration_s=max_duration_s, now=now)
    orders.check_on_node_loss(on_node_loss, region=offer.region)

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
            password_login=password_login,
            auto_stop_at=auto_stop_at,
            max_duration_s=max_duration_s,
            on_node_loss=on_node_loss,
            migrate_ok=migrate_ok,
            price=price,
            actor=actor,
            now=now,
        )
        for one_name in orders.names_of(name, count)
    ]
    for instance in made:
        audit(instance, "instance.created", actor=actor, request_id=request_id, now=now)
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
    password_login: bool,
    auto_stop_at: datetime | None,
    max_duration_s: int | None,
    on_node_loss: str,
    migrate_ok: bool,
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
        password_login=password_login,
        auto_stop_at=auto_stop_at,
        max_duration_s=max_duration_s,
        on_node_loss=on_node_loss,
        migrate_ok=migrate_ok,
        created_by=f"{actor.kind}:{actor.id}"[:80],
        created_at=now,
    )
    holds.place_hold(tenant_id=tenant_id, instance_id=instance.id, burn_per_hour=price, now=now)
    instance.save(force_insert=True)
    if password_login:
        give_password(instance, now=now)
    operations.begin(instance, OperationKind.CREATE, now=now)
    ask_for_a_place(instance, now=now)
    return instance
