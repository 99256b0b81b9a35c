"""What a request asks of one node. Pure."""

from dataclasses import dataclass
from typing import Literal

from scheduler.core.mig import NAME

Mode = Literal["whole", "mig", "share_tenant", "share_shared"]

CELLS = 10  # tenths of a card

# On a card of strangers every tile is equal: 10 x 0.1, 5 x 0.2, 3 x 0.3 or 2 x 0.5 (DESIGN §7).
TILES_OF_STRANGERS = (1, 2, 3, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    ``gpu_models``: acceptable (name, memory in MiB), any when empty. ``count``: GPUs of one node;
    1 for shares. ``tenths``: of one GPU; shares only. ``vram_mib``: of each GPU, at least.
    ``profile``: of a MIG instance; without one, the smallest with ``vram_mib``.
    CPU in thousandths of a core; RAM and disk in MiB.
    """

    gpu_models: tuple[tuple[str, int], ...] = ()
    mode: Mode = "whole"
    count: int = 1
    tenths: int = CELLS
    vram_mib: int = 0
    cpu_milli: int = 0
    ram_mib: int = 0
    disk_mib: int = 0
    profile: str = ""


def fault_of(shape: Shape) -> str | None:
    """Return why no node can ever give this shape, or None."""
    if min(shape.vram_mib, shape.cpu_milli, shape.ram_mib, shape.disk_mib) < 0:
        return "a shape asks for less than nothing"
    if shape.count < 1:
        return "a shape has at least one GPU"
    if shape.profile and shape.mode != "mig":
        return "only a MIG instance has a profile"
    if shape.mode == "whole":
        return None
    if shape.count != 1:
        return "a share or MIG instance lies on one GPU"
    if shape.mode == "mig":
        return _fault_of_mig(shape)
    if shape.mode == "share_tenant" and not 1 <= shape.tenths <= CELLS:
        return "a share is one to ten tenths"
    if shape.mode == "share_shared" and shape.tenths not in TILES_OF_STRANGERS:
        return "a card of strangers is cut into tiles of 1, 2, 3 or 5 tenths"
    return None


def _fault_of_mig(shape: Shape) -> str | None:
    if not shape.profile and not shape.vram_mib:
        return "a MIG instance names its profile or its memory"
    if shape.profile and not NAME.fullmatch(shape.profile):
        return f"no GPU has a MIG profile {shape.profile}"
    return None
