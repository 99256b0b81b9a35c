"""The scheduler's tables: what there is, what is asked, what runs where."""

from scheduler.models.allocations import (
    Allocation,
    AllocationDirty,
    QuarantineEvent,
    Residence,
    ResidenceKind,
    ResidenceWant,
    Slice,
    SliceMode,
    Want,
)
from scheduler.models.markets import Reclaim
from scheduler.models.networks import PrivateNetwork
from scheduler.models.nodes import (
    Agent,
    ControlPlane,
    EnrolmentToken,
    GatewayFlush,
    Gpu,
    GpuHealth,
    LivenessStatus,
    Node,
    NodeLiveness,
)
from scheduler.models.places import GpuModel, Region, Zone
from scheduler.models.requests import Market, Request, RequestState, Together
from scheduler.models.windows import MaintenanceWindow

__all__ = [
    "Agent",
    "Allocation",
    "AllocationDirty",
    "ControlPlane",
    "EnrolmentToken",
    "GatewayFlush",
    "Gpu",
    "GpuHealth",
    "GpuModel",
    "LivenessStatus",
    "MaintenanceWindow",
    "Market",
    "Node",
    "NodeLiveness",
    "PrivateNetwork",
    "QuarantineEvent",
    "Reclaim",
    "Region",
    "Request",
    "RequestState",
    "Residence",
    "ResidenceKind",
    "ResidenceWant",
    "Slice",
    "SliceMode",
    "Together",
    "Want",
    "Zone",
]
