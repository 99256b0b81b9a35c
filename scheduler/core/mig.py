"""
MIG: into which parts a card can be cut, where each may lie, and where we put it. Pure.

A part is [start, start + size) in memory slices: a card with seven compute slices has eight, an
A30 four. The vendor says where a part may begin; of the starts that are free, parts of one and of
three compute slices take the highest and all others the lowest, because those of two, four and
seven can only begin low. Of the cards it is the one where the least is spoiled:

    cost = memory slices that stay free on it + compute slices that nobody can be given any more,
           beside those that the part itself has

The first term fills cards up, the second keeps halves and whole cards together. It is the same for
every mix of requests, and under every policy.

Source: NVIDIA MIG user guide and ``nvidia-smi mig -lgip`` and ``-lgipp``; order of starts and
choice of cards: benchmarks/mig.py. The starts on H200 and B200 are those of the H100, which has
the same fractions and counts. What an agent reports of its card goes before these tables.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

MOST_SLICES: Final = 8
MASKS: Final = 1 << MOST_SLICES  # states of a card: bit k is memory slice k
HIGH_FIRST: Final = (1, 3)  # compute slices
NAME: Final = re.compile(r"[1-9]g\.[1-9]\d{0,3}gb([+-][a-z.]{1,8})?")


@dataclass(frozen=True, slots=True)
class Profile:
    """
    ``name``: as the driver prints it. ``compute``, ``size``: compute and memory slices.
    ``starts``: where it may begin. ``vram_mib``: what every known driver leaves to its user.
    """

    name: str
    compute: int
    size: int
    starts: tuple[int, ...]
    vram_mib: int

    @property
    def is_media(self) -> bool:
        """With media extensions, of which a card has one set."""
        return "+me" in self.name


@dataclass(frozen=True, slots=True)
class Table:
    """How one model is cut: ``slices`` of memory, and what they may become."""

    slices: int
    profiles: tuple[Profile, ...]

    def wanted(self, profile: str, vram_mib: int) -> list[Profile]:
        """
        Return what serves a request, the best first: the profile of this name, or, without a
        name, those with so much memory from the smallest up, media extensions left to who asks.
        """
        found = [one for one in self.profiles if one.vram_mib >= vram_mib]
        if profile:
            return [one for one in found if one.name == profile]
        plain = [one for one in found if not one.is_media]
        return sorted(plain, key=lambda one: (one.size, one.compute, one.name))


@cache
def fits(profile: Profile) -> tuple[int, ...]:
    """Return for each of the 256 masks where this profile is put, -1 where it cannot be."""
    order = sorted(profile.starts, reverse=profile.compute in HIGH_FIRST)
    bits = [(((1 << profile.size) - 1) << start, start) for start in order]
    return tuple(
        next((start for part, start in bits if not mask & part), -1) for mask in range(MASKS)
    )


@cache
def room_left(table: Table) -> tuple[int, ...]:
    """Return for each of the 256 masks how many compute slices can still be given, at most."""
    most = [0] * MASKS
    for mask in reversed(range(MASKS)):  # a part makes the mask larger
        for one in table.profiles:
            for start in one.starts:
                part = ((1 << one.size) - 1) << start
                if not mask & part:
                    most[mask] = max(most[mask], one.compute + most[mask | part])
    return tuple(most)


class Choices:
    """
    What a request gets on a card of each table in each state: arrays of tables by states, the last
    row for cards that cannot be cut. A state is the mask, plus MASKS once the one part with media
    extensions is taken.

    ``start``: -1 where nothing fits. ``size``, ``vram_mib``: of the part. ``cost``: see above.
    """

    def __init__(self, tables: Iterable[Table], profile: str, vram_mib: int) -> None:
        chosen = [_choose(table, profile, vram_mib) for table in tables]
        nothing = np.full((4, 2 * MASKS), -1, dtype=np.int64)
        rows: Ints = np.stack([*chosen, nothing], axis=1)
        self.start, self.size, self.vram_mib, self.cost = rows


@lru_cache(maxsize=1_024)
def _choose(table: Table, profile: str, vram_mib: int) -> Ints:
    """Return start, size, memory and cost, each by state."""
    chosen = np.full((4, 2 * MASKS), -1, dtype=np.int64)
    wanted, most = table.wanted(profile, vram_mib), room_left(table)
    for state in range(2 * MASKS):
        mask, media_is_taken = state % MASKS, state >= MASKS
        for one in wanted:
            start = fits(one)[mask]
            if start < 0 or (one.is_media and media_is_taken):
                continue
            after = mask | ((1 << one.size) - 1) << start
            spoiled = most[mask] - most[after] - one.compute
            cost = table.slices - after.bit_count() + spoiled
            chosen[:, state] = start, one.size, one.vram_mib, cost
            break
    return chosen


@cache
def builtin_table(name: str, memory_mib: int) -> Table | None:
    """Return how a GPU model is cut, None if nothing is known of it."""
    words = name.replace("-", " ").split()
    for family, below_mib, table in FAMILIES:
        if family in words and memory_mib < below_mib:
            return table
    return None


# --- what is known of each model

# Compute slices, memory slices, starts of each kind of part on a card with seven compute slices.
ONE, ONE_WIDE = (1, 1, (0, 1, 2, 3, 4, 5, 6)), (1, 2, (0, 2, 4, 6))
TWO, THREE, FOUR = (2, 2, (0, 2, 4)), (3, 4, (0, 4)), (4, 4, (0,))
SEVEN: Final = (7, 8, (0,))


def _of_seven(gb: Sequence[int], mib: Sequence[int]) -> Table:
    """``gb``: in the names of parts of 1, 2, 4 and 8 memory slices; ``mib``: usable of those."""
    least, quarter, half, whole = zip(gb, mib, strict=True)
    rows = (
        ("", ONE, least),
        ("+me", ONE, least),
        ("", ONE_WIDE, quarter),
        ("", TWO, quarter),
        ("", THREE, half),
        ("", FOUR, half),
        ("", SEVEN, whole),
    )
    return Table(
        slices=8,
        profiles=tuple(
            Profile(f"{compute}g.{named}gb{suffix}", compute, size, starts, usable)
            for suffix, (compute, size, starts), (named, usable) in rows
        ),
    )


A30: Final = Table(
    slices=4,
    profiles=(
        Profile("1g.6gb", 1, 1, (0, 1, 2, 3), 5_836),
        Profile("1g.6gb+me", 1, 1, (0, 1, 2, 3), 5_836),
        Profile("2g.12gb", 2, 2, (0, 2), 11_672),
        Profile("2g.12gb+me", 2, 2, (0, 2), 11_672),
        Profile("4g.24gb", 4, 4, (0,), 23_344),
    ),
)
# The least that any driver was seen to leave usable, rounded down to MiB; of B200's halves and
# whole, and of GH200, none was seen: twice and four times a quarter, and the H100 NVL's.
A100_40: Final = _of_seven((5, 10, 20, 40), (4_864, 9_850, 19_968, 40_192))
H100_80: Final = _of_seven((10, 20, 40, 80), (9_728, 19_968, 40_192, 80_896))  # and A100 80G
H100_94: Final = _of_seven((12, 24, 47, 94), (11_008, 22_138, 47_493, 95_354))
GH200_96: Final = _of_seven((12, 24, 48, 96), (11_008, 22_138, 47_493, 95_354))
H200_141: Final = _of_seven((18, 35, 71, 141), (16_384, 33_024, 71_168, 143_104))
B200_180: Final = _of_seven((23, 45, 90, 180), (20_992, 45_312, 90_624, 181_248))

# A word of the model's name, the memory in MiB below which this row counts, and the table.
FAMILIES: Final = (
    ("A30", 28_000, A30),
    ("A100", 50_000, A100_40),
    ("A100", 90_000, H100_80),
    ("H100", 88_000, H100_80),
    ("H100", 97_000, H100_94),
    ("GH200", 105_000, GH200_96),
    ("H200", 150_000, H200_141),
    ("B200", 190_000, B200_180),
)
