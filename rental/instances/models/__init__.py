"""The tables of instances."""

from rental.instances.models.beside import Endpoint, Notice, NoticeKind
from rental.instances.models.instance import (
    HAS_TIMERS,
    DesiredState,
    Health,
    Instance,
    Mode,
    OnNodeLoss,
)
from rental.instances.models.operations import Operation, OperationKind, OperationState
from rental.instances.models.sealed import InstancePassword, Sealed, Secret

__all__ = [
    "HAS_TIMERS",
    "DesiredState",
    "Endpoint",
    "Health",
    "Instance",
    "InstancePassword",
    "Mode",
    "Notice",
    "NoticeKind",
    "OnNodeLoss",
    "Operation",
    "OperationKind",
    "OperationState",
    "Sealed",
    "Secret",
]
