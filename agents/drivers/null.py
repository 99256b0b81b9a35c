"""
A runtime that starts nothing: containers and residences are rows of one JSON file, which survives
the agent as real containers do. For scale tests; a customer cannot log in. ``Order.network`` is
ignored: there is nothing to connect.
"""

from pathlib import Path
from typing import Any

import msgspec

from agents.clock import Clock
from agents.drivers.base import Container, Labels, NoSuchContainer
from agents.files import read_json, write_json
from agents.protocol import (
    AllocationSpec,
    EndpointFact,
    Order,
    ResidenceFact,
    ResidenceOrder,
    SliceSpec,
)


class NullRuntime:
    name = "null"

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = read_json(path) or {}
        self._containers: dict[str, dict[str, Any]] = kept.get("containers", {})
        self._residences: dict[str, dict[str, str]] = kept.get("residences", {})

    async def list_containers(self) -> list[str]:
        return list(self._containers)

    async def inspect(self, container: str) -> Container:
        row = self._row(container)
        is_alive = row["alive"] and row["boot"] == self._clock.now().boot
        return Container(
            labels=Labels(
                **{**row["labels"], "slices": msgspec.convert(row["slices"], tuple[SliceSpec, ...])}
            ),
            state="alive" if is_alive else "ended",
            boot=row["boot"],
            started=row["started"],
            exit_code=row["exit_code"],
        )

    async def pull(self, image: str) -> None:
        return None

    async def start(self, order: Order, labels: Labels, residences: list[ResidenceOrder]) -> None:
        if labels.container in self._containers:
            return
        now = self._clock.now()
        self._containers[labels.container] = {
            "labels": {
                "node": labels.node,
                "instance": labels.instance,
                "allocation": labels.allocation,
                "incarnation": labels.incarnation,
                "run": labels.run,
                "spec_rev": labels.spec_rev,
            },
            "slices": [msgspec.to_builtins(s) for s in labels.slices],
            "boot": now.boot,
            "started": str(now.boot_ms),
            "alive": True,
            "exit_code": None,
        }
        for residence in residences:
            self._residences[residence.residence] = {
                "instance": residence.instance,
                "kind": residence.kind,
            }
        self._save()

    async def probe(self, container: Container) -> list[EndpointFact] | None:
        return [EndpointFact(kind="ssh", host="127.0.0.1", port=9, user="nobody")]

    async def update(self, container: str, spec: AllocationSpec, spec_rev: int) -> None:
        self._row(container)["labels"]["spec_rev"] = spec_rev
        self._save()

    async def terminate(self, container: str) -> None:
        self.end(container, exit_code=143)

    async def kill(self, container: str) -> None:
        self.end(container, exit_code=137)

    def end(self, container: str, *, exit_code: int) -> None:
        """End it as if its own process had exited: what tests and scale faults use."""
        row = self._row(container)
        if row["alive"]:
            row["alive"], row["exit_code"] = False, exit_code
            self._save()

    async def remove(self, container: str) -> None:
        if self._containers.pop(container, None) is not None:
            self._save()

    async def list_residences(self) -> list[ResidenceFact]:
        return [
            ResidenceFact(residence=name, instance=row["instance"], kind=row["kind"])
            for name, row in self._residences.items()
        ]

    async def wipe(self, residence: str) -> None:
        if self._residences.pop(residence, None) is not None:
            self._save()

    def _row(self, container: str) -> dict[str, Any]:
        try:
            return self._containers[container]
        except KeyError:
            raise NoSuchContainer(container) from None

    def _save(self) -> None:
        write_json(self._path, {"containers": self._containers, "residences": self._residences})
