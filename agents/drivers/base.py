"""What the agent asks of a container runtime and of the GPUs. Drivers keep no truth in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agents.meter import Life, Traffic
from agents.protocol import (
    AllocationSpec,
    EndpointFact,
    Facts,
    Order,
    ResidenceFact,
    ResidenceOrder,
    Sample,
    SliceSpec,
)


class DriverError(Exception):
    """The machine did not do what was asked; the next pass tries again."""


class Unsupported(DriverError):
    """This can never work here as ordered; trying again is useless."""


class NoSuchContainer(DriverError):
    """It was removed meanwhile."""


@dataclass(frozen=True)
class Labels:
    """What a container says of itself, so that a new agent knows it."""

    node: str
    instance: str
    allocation: str
    incarnation: int
    run: str
    spec_rev: int = 0
    slices: tuple[SliceSpec, ...] = ()

    @property
    def container(self) -> str:
        """The container's id: one allocation starts one container per incarnation."""
        return f"{self.allocation}.{self.incarnation}"


@dataclass(frozen=True)
class Container:
    """``started`` names the start within ``boot``: a new process has another one."""

    labels: Labels
    state: Literal["alive", "ended"]
    boot: str
    started: str
    exit_code: int | None = None
    traffic: Traffic = Traffic()

    @property
    def life(self) -> Life:
        return Life(self.labels.container, self.started, self.boot)


class Runtime(Protocol):
    """
    Containers and residences of one node. Every call may raise DriverError and may hang: the
    caller sets a deadline, and a hang concerns that container alone.
    """

    name: str

    async def list_containers(self) -> Sequence[str]:
        """Return the ids of all containers that this node has, ended ones too."""

    async def inspect(self, container: str) -> Container:
        """:raises NoSuchContainer:"""

    async def pull(self, image: str) -> None:
        """Make the image available here."""

    async def start(self, order: Order, labels: Labels, residences: list[ResidenceOrder]) -> None:
        """Start the container, making its residences if they are not there. Safe to repeat."""

    async def probe(self, container: Container) -> list[EndpointFact] | None:
        """Return how to reach it if it is ready for its customer."""

    async def update(self, container: str, spec: AllocationSpec, spec_rev: int) -> None:
        """Apply what can be changed while it runs: SSH keys and the password's digest."""

    async def terminate(self, container: str) -> None:
        """Ask it to end (SIGTERM to everything inside)."""

    async def kill(self, container: str) -> None:
        """End it now (SIGKILL to everything inside)."""

    async def remove(self, container: str) -> None:
        """Forget an ended container and its scratch files; residences stay."""

    async def list_residences(self) -> list[ResidenceFact]: ...

    async def wipe(self, residence: str) -> None:
        """Destroy the residence's bytes. Does nothing if there are none."""


class GpuDriver(Protocol):
    name: str

    def facts(self) -> Facts:
        """Return what the node is made of, with each GPU's health. Reads the hardware."""

    def samples(self, now_ms: int, in_use: Sequence[tuple[str, SliceSpec]]) -> list[Sample]:
        """
        Return one sample for each slice ``in_use`` (allocation, slice), and one for each GPU that
        is not. Memory, power and utilisation are the slice's own as far as the card tells.
        """

    def wipe(self, slices: Sequence[SliceSpec]) -> None:
        """Clear the slices' memory before they are sold again."""
