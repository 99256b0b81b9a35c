"""Small rooms and gangs for tests of the core."""

import uuid

import numpy as np

from scheduler.core.bonds import Bond
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.placement import Ask, Place, plan
from scheduler.core.shapes import Shape

ANN, BOB = uuid.UUID(int=0xA), uuid.UUID(int=0xB)
CARD = ("H100", 80_000)


def node(number, gpus=4, **fields):
    cards = tuple(
        GpuState(id=uuid.UUID(int=number * 100 + i), index=i, model=CARD, vram_free_mib=CARD[1])
        for i in range(gpus)
    )
    known = {"zone": "z1", "cpu_milli": 64_000, "ram_mib": 256_000, "disk_mib": 1_000_000}
    return NodeState(
        id=uuid.UUID(int=number), version=1, region="r1", gpus=cards, **(known | fields)
    )


def gang(size, *, group=1, first=1, tenant=ANN, shapes=None, ask=None, **rules):
    """``size`` asks with one bond, numbered from ``first``. ``shapes``: one a member."""
    bond = Bond(group=uuid.UUID(int=group), **({"size": size} | rules))
    shapes = shapes or [Shape(mode="whole", count=1)] * size
    return [
        Ask(
            id=uuid.UUID(int=first + i),
            tenant=tenant,
            region="r1",
            shape=shape,
            bond=bond,
            **(ask or {}),
        )
        for i, shape in enumerate(shapes)
    ]


def single(number, *, count=1, tenant=BOB, **fields):
    shape = Shape(mode="whole", count=count)
    return Ask(id=uuid.UUID(int=number), tenant=tenant, region="r1", shape=shape, **fields)


def nodes_of(decisions):
    """Node numbers by ask, None for those that wait."""
    return [one.node.int if isinstance(one, Place) else None for one in decisions]


def placed_on(asks, room):
    return nodes_of(plan(asks, room))


def state_of(room: Inventory):
    """Every array of a room that says what is free, as bytes."""
    log = {"stamp"}
    return {
        name: value.tobytes()
        for name, value in vars(room).items()
        if isinstance(value, np.ndarray) and name not in log
    }
