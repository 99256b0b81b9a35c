"""Commands on instances: create, stop, start, restart, release, rename. One transaction each."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from rental.instances.models import Instance
from rental.records.audit import Actor


def create_instances(
    *,
    tenant_id: uuid.UUID,
    project_id: uuid.UUID | None,
    offer_code: str,
    market: str,
    image_code: str,
    count: int,
    name: str | None,
    ssh_key_ids: Sequence[uuid.UUID],
    command: Sequence[str],
    env: dict[str, str],
    quote_id: uuid.UUID | None,
    max_hourly_price: int | None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> list[Instance]:
    raise NotImplementedError


def stop_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    raise NotImplementedError


def start_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    raise NotImplementedError


def restart_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    raise NotImplementedError


def release_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    if_generation: int | None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    raise NotImplementedError


def rename_instance(
    *,
    tenant_id: uuid.UUID,
    instance_id: uuid.UUID,
    name: str,
    if_generation: int | None,
    actor: Actor,
    now: datetime,
    request_id: str | None = None,
) -> Instance:
    raise NotImplementedError
