"""What a node is made of, as its agent says it; and what an operator says of the node."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog
from django.conf import settings
from django.db import transaction

from agents import protocol
from rental.records.audit import Actor, record_event
from rental.records.ids import to_text
from scheduler.errors import UnknownNode
from scheduler.models import ControlPlane, Gpu, GpuHealth, GpuModel, Node

log = structlog.get_logger()

# What drivers report differs from what is on the box (ECC, firmware): a T4 of 16 GiB shows 15.
MEMORY_TOLERANCE_PERCENT = 8
# What a node that is not drained says of it.
STAYS = (False, None)


@transaction.atomic
def store_facts(*, node_id: uuid.UUID, hello: protocol.Hello, now: datetime) -> None:
    """
    Bring a node and its GPUs up to date with a hello. The node's version rises if anything
    changed, so that a pass which loaded the old facts commits nothing on them.
    """
    node = Node.objects.select_for_update(no_key=True).get(id=node_id)
    _check_memory(node, hello)
    before = _state(node)
    facts = hello.facts
    _resize(node, "cpu_milli", facts.cpu_milli)
    _resize(node, "ram_mib", facts.ram_mib)
    _resize(node, "disk_mib", facts.disk_mib)
    node.shared_allowed = facts.shared_allowed
    node.facts = {"boot": hello.boot, **_without_gpus(facts)}
    gpus_changed = _store_gpus(node, facts.gpus)
    if gpus_changed or _state(node) != before:
        node.version += 1
        node.save()


def _check_memory(node: Node, hello: protocol.Hello) -> None:
    """
    Say when a node has obeyed orders that we never gave. The database went back in time, and until
    ``raise_control_epoch`` is run the node takes no order of ours.
    """
    if hello.node_version <= node.version:
        return
    if hello.control_epoch >= ControlPlane.load().control_epoch:
        log.error(
            "control_plane.went_back",
            node=str(node.id),
            version=node.version,
            obeyed=hello.node_version,
            remedy="manage.py raise_control_epoch",
        )


def _state(node: Node) -> tuple[object, ...]:
    return (
        node.cpu_milli_total,
        node.ram_mib_total,
        node.disk_mib_total,
        node.shared_allowed,
        node.facts,
    )


def _without_gpus(facts: protocol.Facts) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(facts)
    said.pop("gpus", None)  # they have rows
    return said


def _resize(row: Node | Gpu, name: str, reported: int) -> None:
    """
    Set a total, keeping what is in use. A node that shrank below what it has sold keeps that much
    until it is given back; nothing more is sold of it.
    """
    total, free = (
        ("memory_mib", "vram_free_mib") if name == "vram_mib" else (f"{name}_total", f"{name}_free")
    )
    in_use = getattr(row, total) - getattr(row, free)
    if reported < in_use:
        log.warning("node.shrunk", row=str(row.id), what=name, reported=reported, in_use=in_use)
    setattr(row, total, max(reported, in_use))
    setattr(row, free, max(reported - in_use, 0))


def _store_gpus(node: Node, facts: Sequence[protocol.GpuFact]) -> bool:
    """Store what the node says of its GPUs; return whether that changed anything."""
    by_uuid = {fact.uuid: fact for fact in facts}
    known = {
        gpu.uuid: gpu
        for gpu in Gpu.objects.filter(uuid__in=by_uuid)
        .order_by("id")
        .select_for_update(no_key=True)
    }
    is_changed = False
    for fact in by_uuid.values():
        gpu = known.get(fact.uuid)
        if gpu is None:
            gpu = Gpu(node=node, uuid=fact.uuid, memory_mib=0, vram_free_mib=0)
        elif gpu.node_id != node.id and not _may_move(gpu, node):
            continue
        is_changed |= _store_gpu(gpu, fact, node)
    missing = Gpu.objects.filter(node=node).exclude(uuid__in=by_uuid)
    for gpu in missing.exclude(health=GpuHealth.MISSING):
        gpu.health = GpuHealth.MISSING
        gpu.health_reason = "not reported by its node"
        gpu.save(update_fields=["health", "health_reason"])
        log.warning("gpu.missing", gpu=gpu.uuid, node=str(node.id))
        is_changed = True
    return is_changed


def _may_move(gpu: Gpu, node: Node) -> bool:
    """
    A card belongs to the node that has it: another one gets it only after the first has said
    hello without it, and nothing is sold of it. Else any agent could claim any card.
    """
    if gpu.health == GpuHealth.MISSING and gpu.vram_free_mib == gpu.memory_mib:
        log.info("gpu.moved", gpu=gpu.uuid, before=str(gpu.node_id), after=str(node.id))
        return True
    log.error("gpu.claimed_twice", gpu=gpu.uuid, owner=str(gpu.node_id), claimant=str(node.id))
    return False


def _store_gpu(gpu: Gpu, fact: protocol.GpuFact, node: Node) -> bool:
    names = (
        "node_id",
        "serial",
        "model_id",
        "index",
        "memory_mib",
        "numa",
        "nvlink_group",
        "mig_capable",
        "health",
        "health_reason",
    )
    before = None if gpu._state.adding else [getattr(gpu, name) for name in names]
    gpu.node = node
    gpu.model = find_model(fact.model, fact.memory_mib)
    gpu.serial = fact.serial
    gpu.index = fact.index
    gpu.numa = fact.numa
    gpu.nvlink_group = fact.nvlink_group
    gpu.mig_capable = fact.mig_capable
    gpu.health = GpuHealth.HEALTHY if fact.healthy else GpuHealth.UNHEALTHY
    gpu.health_reason = fact.health_reason[:200]
    _resize(gpu, "vram_mib", fact.memory_mib)
    if before == [getattr(gpu, name) for name in names]:
        return False
    gpu.save()
    return True


def find_model(name: str, memory_mib: int) -> GpuModel:
    """
    Return the GPU model of this name whose memory is nearest, within 8 %, and make it active; a
    card that the data file does not know becomes a model of its own.
    """
    near = [
        model
        for model in GpuModel.objects.filter(name=name)
        if abs(model.memory_mib - memory_mib) * 100 <= model.memory_mib * MEMORY_TOLERANCE_PERCENT
    ]
    if not near:
        log.warning("gpu_model.unknown", name=name, memory_mib=memory_mib)
        return GpuModel.objects.get_or_create(
            name=name, memory_mib=memory_mib, defaults={"active": True}
        )[0]
    model = min(near, key=lambda m: (abs(m.memory_mib - memory_mib), m.memory_mib))
    if not model.active:
        model.active = True
        model.save(update_fields=["active"])
    return model


# --- what an operator says


@transaction.atomic
def cordon(*, node_id: uuid.UUID, actor: Actor, now: datetime) -> None:
    """
    Place nothing more on the node; what it runs goes on.

    :raises UnknownNode: if there is none
    """
    _mark(node_id, "node.cordon", cordoned=True, drain=None, actor=actor, now=now)


@transaction.atomic
def uncordon(*, node_id: uuid.UUID, actor: Actor, now: datetime) -> None:
    """
    Place on the node again; a drain ends too.

    :raises UnknownNode: if there is none
    """
    _mark(node_id, "node.uncordon", cordoned=False, drain=STAYS, actor=actor, now=now)


@transaction.atomic
def drain(*, node_id: uuid.UUID, actor: Actor, by: datetime | None = None, now: datetime) -> None:
    """
    Cordon the node and have it emptied: what may be moved starts elsewhere as soon as there is
    room, the rest is stopped at ``by``, or ``SCHEDULER_DRAIN_NOTICE`` from now. Draining again
    without ``by`` changes nothing.

    :raises UnknownNode: if there is none
    """
    if by is None:
        known = Node.objects.filter(pk=node_id, drained=True).values_list("drain_by", flat=True)
        by = known.first() or now + settings.SCHEDULER_DRAIN_NOTICE
    _mark(node_id, "node.drain", cordoned=True, drain=(True, by), actor=actor, now=now)


@transaction.atomic
def stand_in_rack(*, node_id: uuid.UUID, rack: str, actor: Actor, now: datetime) -> None:
    """
    Store in which rack of its zone the node stands, "" for unknown. What runs there stays.

    :raises UnknownNode: if there is none
    """
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None:
        raise UnknownNode(node_id)
    before, node.rack = node.rack, rack
    if before == rack:
        return
    node.version += 1  # a pass that saw it elsewhere must not commit a gang on it
    node.save(update_fields=["rack", "version"])
    record_event(
        tenant_id=None,
        actor=actor,
        verb="node.rack",
        subject=to_text("nod", node.id),
        before={"rack": before},
        after={"rack": rack},
        now=now,
    )


def _mark(
    node_id: uuid.UUID,
    verb: str,
    *,
    cordoned: bool,
    drain: tuple[bool, datetime | None] | None,
    actor: Actor,
    now: datetime,
) -> None:
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None:
        raise UnknownNode(node_id)
    before = _marks(node)
    node.cordoned = cordoned
    if drain is not None:
        node.drained, node.drain_by = drain
    after = _marks(node)
    if before == after:
        return
    node.version += 1  # a pass that still saw it open must not commit on it
    node.save(update_fields=["cordoned", "drained", "drain_by", "version"])
    record_event(
        tenant_id=None,
        actor=actor,
        verb=verb,
        subject=to_text("nod", node.id),
        before=before,
        after=after,
        now=now,
    )


def _marks(node: Node) -> dict[str, Any]:
    """Return what an operator has said of the node, as it is audited."""
    marks: dict[str, Any] = {"cordoned": node.cordoned, "drained": node.drained}
    return marks | ({"drain_by": node.drain_by.isoformat()} if node.drain_by else {})
