"""What an order may say: names, projects, keys, commands, environments. Checks only."""

import re
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rental.instances import naming
from rental.instances.errors import (
    BadOrder,
    ReplaceNotOffered,
    TenantNotActive,
    UnknownProject,
    UnknownSshKey,
)
from rental.instances.models import Instance, OnNodeLoss
from rental.tenants.models import Project, SshKey, Tenant
from scheduler.models import Allocation, Node
from scheduler.services.failover import is_guarded, region_is_guarded
from scheduler.services.requests import Shape

NAME_LENGTH = 64
MOST_SSH_KEYS = 50
MOST_ENV = 100
MOST_TEXT = 16_384  # characters of a command or an environment; it travels in every desired set
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
LONGEST_TIMER = timedelta(days=366)
SHORTEST_DURATION_S = 60
# Never from a customer: they would load his code into, or widen the devices of, the runtime.
FORBIDDEN_ENV = ("LD_", "NVIDIA_", "CUDA_MPS_")


def check_tenant(tenant_id: uuid.UUID) -> None:
    """:raises TenantNotActive: if the tenant may start nothing"""
    status = Tenant.objects.filter(pk=tenant_id).values_list("status", flat=True).first()
    if status != "active":
        raise TenantNotActive(tenant_id)


def find_project(tenant_id: uuid.UUID, project_id: uuid.UUID | None) -> Project:
    """
    Return the project, the default one for None.

    :raises UnknownProject: if the tenant has no such project
    """
    projects = Project.objects.of(tenant_id)
    wanted = (
        projects.filter(is_default=True) if project_id is None else projects.filter(pk=project_id)
    )
    project = wanted.first()
    if project is None:
        raise UnknownProject(project_id)
    return project


def check_ssh_keys(tenant_id: uuid.UUID, key_ids: Sequence[uuid.UUID]) -> None:
    """:raises UnknownSshKey: if one is not the tenant's, or was removed"""
    known = set(
        SshKey.objects.of(tenant_id).live().filter(pk__in=key_ids).values_list("pk", flat=True)
    )
    for key_id in key_ids:
        if key_id not in known:
            raise UnknownSshKey(key_id)


def check_command(command: Sequence[str], env: dict[str, str]) -> None:
    """:raises BadOrder: if a node could not, or should not, run this"""
    if sum(len(word) for word in command) > MOST_TEXT or any("\0" in word for word in command):
        raise BadOrder("command", f"at most {MOST_TEXT} characters, none of them NUL")
    if len(env) > MOST_ENV or sum(len(k) + len(v) for k, v in env.items()) > MOST_TEXT:
        raise BadOrder("env", f"at most {MOST_ENV} variables and {MOST_TEXT} characters")
    for key, value in env.items():
        if not ENV_NAME.fullmatch(key) or "\0" in value:
            raise BadOrder("env", f"{key[:40]!r} is not a usable variable")
        if key.upper().startswith(FORBIDDEN_ENV):
            raise BadOrder("env", f"{key[:40]!r} is set by the node alone")


def check_timers(
    *, auto_stop_at: datetime | None, max_duration_s: int | None, now: datetime
) -> None:
    """:raises BadOrder: if a timer has passed already, or lies more than a year away"""
    if auto_stop_at is not None and not now < auto_stop_at <= now + LONGEST_TIMER:
        raise BadOrder("auto_stop_at", "in the future, at most a year from now")
    longest = int(LONGEST_TIMER.total_seconds())
    if max_duration_s is not None and not SHORTEST_DURATION_S <= max_duration_s <= longest:
        raise BadOrder("max_duration_s", f"{SHORTEST_DURATION_S} to {longest} seconds")


def check_on_node_loss(wish: str, *, region: str, node_id: uuid.UUID | None = None) -> None:
    """
    :param node_id: where the instance lives, if it does
    :raises BadOrder: if there is no such choice
    :raises ReplaceNotOffered: if it is to be started elsewhere when its node is lost, and its node,
        or one of the region's where it may be placed, has no guard that ends the old copy
    """
    if wish not in OnNodeLoss.values:
        raise BadOrder("on_node_loss", f"one of {', '.join(OnNodeLoss.values)}")
    if wish != OnNodeLoss.REPLACE:
        return
    if not _is_guarded(region, node_id):
        raise ReplaceNotOffered


def may_be_replaced(instance: Instance) -> bool:
    """Return whether it may be set to start elsewhere when its node is lost. Two queries."""
    homes = Allocation.objects.residing().filter(instance_id=instance.pk)
    return _is_guarded(instance.region, homes.values_list("node_id", flat=True).first())


def _is_guarded(region: str, node_id: uuid.UUID | None) -> bool:
    if node_id is None:
        return region_is_guarded(region)
    return is_guarded(Node.objects.get(pk=node_id))


def names_of(name: str | None, count: int) -> list[str]:
    """
    Return a name for each of ``count`` instances: ``name-1`` to ``name-n``, or made-up ones.

    :raises BadOrder: if the name cannot be used
    """
    if name is None:
        return [naming.make_name() for _ in range(count)]
    clean = clean_name(name)
    if count == 1:
        return [clean]
    return [f"{clean[: NAME_LENGTH - 3]}-{n}" for n in range(1, count + 1)]


def clean_name(name: str) -> str:
    """
    Return the name without superfluous spaces.

    :raises BadOrder: if it is empty, too long or not printable
    """
    clean = " ".join(name.split())
    if not clean or len(clean) > NAME_LENGTH or not clean.isprintable():
        raise BadOrder("name", f"1 to {NAME_LENGTH} printable characters")
    return clean


def stored_shape(shape: Shape) -> dict[str, Any]:
    """Return the shape as it is kept with an instance; ``shape_of`` reads it back."""
    stored = {
        "gpu_models": [list(pair) for pair in shape.gpu_models],
        "mode": shape.mode,
        "count": shape.count,
        "tenths": shape.tenths,
        "vram_mib": shape.vram_mib,
        "cpu_milli": shape.cpu_milli,
        "ram_mib": shape.ram_mib,
        "disk_mib": shape.disk_mib,
    }
    # Only where there is one: code from before profiles reads the others during an upgrade.
    return stored | {"profile": shape.profile} if shape.profile else stored


def shape_of(stored: dict[str, Any]) -> Shape:
    pairs = tuple((name, memory_mib) for name, memory_mib in stored["gpu_models"])
    return Shape(**{**stored, "gpu_models": pairs})
