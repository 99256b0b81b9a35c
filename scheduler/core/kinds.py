"""Kinds of request: what is equal to the scheduler is rated once. Pure."""

import uuid
from dataclasses import dataclass
from typing import Final

from scheduler.core.shapes import CELLS, Mode

WHOLE: Final = 1_000  # thousandths of a card


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    ``count``: cards of one node, none for work without GPU. ``milli``: thousandths of each.
    ``width``: cells that a share needs in a row; 0 where thousandths alone count (public traces).
    A MIG instance has neither: ``profile`` and ``vram_mib`` say what it needs, see mig.py.
    ``models``: acceptable (name, memory in MiB), any when empty; ``region``, ``zone``: any if None.
    ``node``: where its disks pin it. ``tenant``: only of shares that lie beside their own alone.
    CPU in thousandths of a core; memory and disk in MiB.
    """

    mode: Mode = "whole"
    count: int = 1
    milli: int = WHOLE
    width: int = CELLS
    models: tuple[tuple[str, int], ...] = ()
    vram_mib: int = 0
    cpu_milli: int = 0
    ram_mib: int = 0
    disk_mib: int = 0
    region: str | None = None
    zone: str | None = None
    node: uuid.UUID | None = None
    tenant: uuid.UUID | None = None
    profile: str = ""

    @property
    def is_share(self) -> bool:
        return self.mode in ("share_tenant", "share_shared")

    @property
    def is_media(self) -> bool:
        return "+me" in self.profile

    @property
    def total_milli(self) -> int:
        return self.count * self.milli
