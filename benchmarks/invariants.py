"""
``python -m benchmarks.invariants [--events 1000000] [--processes 2] [--seed 1]``: the core under
random events, against a ledger that is kept in the plainest way.

Rooms of one to six nodes with up to eight cards of three models, some cut for MIG. Events: a
request (of every mode, several tenants, ages, markets), a release, said twice sometimes, a node
that falls silent or returns, a cordon, a card that falls ill or recovers. Every few events a pass
is planned under a policy drawn at random. After each pass: no cell, memory, CPU, RAM or disk is
sold twice; modes, tenants, tiles and MIG starts are legal; nothing is placed on a silent, cordoned
or sick thing; the arrays that the pass wrote are what loading the ledger gives; what it refused
fits nowhere (brute force), unless a node was held; the same pass again decides the same. Ends with
the number of violations, of which there must be none.
"""

import argparse
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from multiprocessing import get_context
from typing import Any, Final

import numpy as np

from benchmarks._shared import print_json, print_table
from scheduler.core.boards import POLICIES
from scheduler.core.dice import Dice
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.mig import Table
from scheduler.core.placement import Ask, Part, Place, Rules, Wait, plan
from scheduler.core.queue import Use
from scheduler.core.shapes import CELLS, Shape

MODELS: Final = (("H100", 81_920), ("A30", 24_576), ("RTX 4090", 24_564))
TENANTS: Final = tuple(uuid.UUID(int=number) for number in (0xA, 0xB, 0xE))
EVENTS_OF_A_ROOM: Final = 500
EVENTS_OF_A_PASS: Final = 10
# FGDX packs its forecast anew in each of these little rooms, which takes most of the time.
DRAWN: Final = (*POLICIES, *("best_fit", "first_fit", "fgd") * 4)
ARRAYS: Final = ("cpu", "ram", "disk", "free", "vram", "taken", "mode", "tile", "tile_vram")


class Sold:
    """What one allocation holds."""

    def __init__(self, ask: Ask, place: Place, profile: str) -> None:
        self.ask, self.node, self.parts, self.profile = ask, place.node, place.parts, profile


class Ledger:
    """A room: what there is, what is sold, who is well. Knows no array."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.nodes: dict[uuid.UUID, NodeState] = {}
        for number in range(1, 2 + dice.below(6)):
            node = self._new_node(number)
            self.nodes[node.id] = node
        self.cards = {gpu.id: gpu for node in self.nodes.values() for gpu in node.gpus}
        self.held: dict[uuid.UUID, Sold] = {}
        self.asks: list[Ask] = []
        self.numbers = 0

    def _new_node(self, number: int) -> NodeState:
        pick = self.dice.below
        model = MODELS[pick(3)]
        cores = (8, 32, 128)[pick(3)]
        return NodeState(
            id=uuid.UUID(int=number),
            version=1,
            region="r1",
            zone=("z1", "z2")[pick(2)],
            allows_strangers=pick(3) > 0,
            cpu_milli=cores * 1_000,
            ram_mib=cores * 4_096,
            disk_mib=2_000_000,
            gpus=tuple(
                GpuState(
                    id=uuid.UUID(int=number * 100 + index),
                    index=index,
                    model=model if pick(8) else MODELS[pick(3)],
                    vram_free_mib=model[1],
                    nvlink_group=(None, 0, index // 2)[pick(3)],
                    is_mig_capable=pick(2) == 0,
                )
                for index in range(pick(9))
            ),
        )

    # --- events

    def step(self) -> None:
        """Let one random thing happen."""
        event = self.dice.below(100)
        if event < 55:
            self.asks.append(self._new_ask())
        elif event < 85:
            self._release()
        elif event < 90:
            self._change_node(is_live=self.dice.below(3) > 0)
        elif event < 94:
            self._change_node(is_cordoned=self.dice.below(3) == 0)
        else:
            self._change_card()

    def _new_ask(self) -> Ask:
        pick = self.dice.below
        self.numbers += 1
        mode = ("whole", "share_tenant", "share_shared", "mig")[pick(4)]
        models: tuple[tuple[str, int], ...] = ((), MODELS[:1], MODELS[1:], MODELS[:2])[pick(4)]
        tenths = CELLS
        if mode == "share_tenant":
            tenths = 1 + pick(CELLS)
        if mode == "share_shared":
            tenths = (1, 2, 3, 5)[pick(4)]
        shape = Shape(
            gpu_models=models,
            mode=mode,  # type: ignore[arg-type]
            count=(1, 1, 2, 4, 8)[pick(5)] if mode == "whole" else 1,
            tenths=tenths,
            vram_mib={"whole": 0, "mig": (5_000, 10_000, 30_000)[pick(3)]}.get(
                mode, 2_400 * tenths
            ),
            cpu_milli=(0, 1_000, 4_000, 20_000)[pick(4)],
            ram_mib=(0, 8_192, 65_536)[pick(3)],
            profile=("", "1g.10gb", "1g.10gb+me", "3g.40gb", "2g.12gb")[pick(5)]
            if mode == "mig"
            else "",
        )
        return Ask(
            id=uuid.UUID(int=1_000_000 + self.numbers),
            tenant=TENANTS[pick(3)],
            shape=replace(shape, vram_mib=0) if shape.profile else shape,
            region="r1",
            zone=(None, None, "z1")[pick(3)],
            disk_mib=(0, 10_000, 900_000)[pick(3)],
            market=("on_demand", "on_demand", "spot")[pick(3)],
            waited_s=pick(6_000),
        )

    def _release(self) -> None:
        if not self.held:
            return
        names = sorted(self.held)
        name = names[self.dice.below(len(names))]
        for _ in range(1 + self.dice.below(2)):  # saying it twice changes nothing
            self.held.pop(name, None)

    def _change_node(self, **fields: bool) -> None:
        names = sorted(self.nodes)
        name = names[self.dice.below(len(names))]
        self.nodes[name] = replace(self.nodes[name], **fields)  # type: ignore[arg-type]

    def _change_card(self) -> None:
        if not self.cards:
            return
        names = sorted(self.cards)
        name = names[self.dice.below(len(names))]
        self.cards[name] = replace(self.cards[name], is_healthy=self.dice.below(3) > 0)

    # --- what loading gives

    def states(self) -> list[NodeState]:
        """Return the room as a pass loads it: free counters, and cards with what is sold."""
        by_card: defaultdict[uuid.UUID, list[tuple[Sold, Part]]] = defaultdict(list)
        by_node: defaultdict[uuid.UUID, list[Sold]] = defaultdict(list)
        for sold in self.held.values():
            by_node[sold.node].append(sold)
            for part in sold.parts:
                by_card[part.gpu].append((sold, part))
        return [
            replace(
                node,
                cpu_milli=node.cpu_milli - sum(s.ask.shape.cpu_milli for s in by_node[node.id]),
                ram_mib=node.ram_mib - sum(s.ask.shape.ram_mib for s in by_node[node.id]),
                disk_mib=node.disk_mib - sum(s.ask.disk_mib for s in by_node[node.id]),
                gpus=tuple(_card(self.cards[gpu.id], by_card[gpu.id]) for gpu in node.gpus),
            )
            for node in self.nodes.values()
        ]

    # --- what is legal

    def take(self, ask: Ask, place: Place) -> list[str]:
        """Write an allocation into the ledger; return what is wrong with it."""
        node, shape = self.nodes[place.node], ask.shape
        parts, wrong = place.parts, []
        if node.is_cordoned or not node.is_live or ask.zone not in (None, node.zone):
            wrong.append("placed where nothing may be placed")
        if len({part.gpu for part in parts}) != shape.count:
            wrong.append("another number of cards than asked for")
        if len({self.cards[part.gpu].model for part in parts}) > 1:
            wrong.append("cards of two models in one allocation")
        profile = ""
        for part in parts:
            card = self.cards[part.gpu]
            if not card.is_healthy or card.id not in {gpu.id for gpu in node.gpus}:
                wrong.append("a card that is ill or not of this node")
            if shape.gpu_models and card.model not in shape.gpu_models:
                wrong.append("a model that was not asked for")
            if shape.mode == "mig":
                profile = _profile_at(card.table, shape, part)
                wrong += [] if profile else ["a MIG placement that is in no table"]
        self.held[ask.id] = Sold(ask, place, profile)
        return wrong + self._oversold(node)

    def _oversold(self, node: NodeState) -> list[str]:
        """Return what of this node is sold twice or beside whom it may not be."""
        mine = [sold for sold in self.held.values() if sold.node == node.id]
        wrong = []
        if sum(sold.ask.shape.cpu_milli for sold in mine) > node.cpu_milli:
            wrong.append("CPU sold twice")
        if sum(sold.ask.shape.ram_mib for sold in mine) > node.ram_mib:
            wrong.append("RAM sold twice")
        if sum(sold.ask.disk_mib for sold in mine) > node.disk_mib:
            wrong.append("disk sold twice")
        for gpu in node.gpus:
            sold = [(one, part) for one in mine for part in one.parts if part.gpu == gpu.id]
            wrong += _wrong_on(node, gpu, sold)
        return wrong

    def fits_somewhere(self, ask: Ask) -> bool:
        """Return whether some choice of cards and cells is legal: every one is tried."""
        for node in self.nodes.values():
            for cards in combinations(node.gpus, ask.shape.count):
                for parts in self._all_parts(ask, cards):
                    trial = Ledger.__new__(Ledger)
                    trial.nodes, trial.cards = self.nodes, self.cards
                    trial.held = dict(self.held)
                    if not trial.take(ask, Place(ask=ask.id, node=node.id, parts=parts)):
                        return True
        return False

    def _all_parts(self, ask: Ask, cards: Iterable[GpuState]) -> Iterable[tuple[Part, ...]]:
        shape, cards = ask.shape, tuple(cards)
        if shape.mode == "whole":
            yield tuple(
                Part(gpu=c.id, from_cell=0, until_cell=CELLS, vram_mib=c.vram_free_mib)
                for c in cards
            )
            return
        [card] = cards
        if shape.mode == "mig":
            for profile in card.table.wanted(shape.profile, shape.vram_mib) if card.table else ():
                for start in profile.starts:
                    yield (_part(card, start, start + profile.size, profile.vram_mib),)
            return
        step = shape.tenths if shape.mode == "share_shared" else 1
        for start in range(0, CELLS - shape.tenths + 1, step):
            yield (_part(card, start, start + shape.tenths, shape.vram_mib),)


def _part(card: GpuState, start: int, end: int, vram_mib: int) -> Part:
    return Part(gpu=card.id, from_cell=start, until_cell=end, vram_mib=vram_mib)


def _profile_at(table: Table | None, shape: Shape, part: Part) -> str:
    size = part.until_cell - part.from_cell
    for profile in table.wanted(shape.profile, shape.vram_mib) if table else ():
        is_alike = (profile.size, profile.vram_mib) == (size, part.vram_mib)
        if is_alike and part.from_cell in profile.starts:
            return profile.name
    return ""


def _card(gpu: GpuState, sold: list[tuple[Sold, Part]]) -> GpuState:
    taken = 0
    for _, part in sold:
        taken |= (1 << part.until_cell) - (1 << part.from_cell)
    if not sold:
        return gpu
    first = sold[0][0]
    return replace(
        gpu,
        vram_free_mib=gpu.vram_free_mib - sum(part.vram_mib for _, part in sold),
        taken=taken,
        mode=first.ask.shape.mode,
        tenant=first.ask.tenant,
        tile=taken.bit_count() // len(sold),
        tile_vram_mib=sold[0][1].vram_mib,
        has_media=any("+me" in one.profile for one, _ in sold),
    )


def _wrong_on(node: NodeState, gpu: GpuState, sold: list[tuple[Sold, Part]]) -> list[str]:
    cells = Counter(cell for _, part in sold for cell in range(part.from_cell, part.until_cell))
    wrong = ["a cell sold twice"] if cells and max(cells.values()) > 1 else []
    if sum(part.vram_mib for _, part in sold) > gpu.vram_free_mib:
        wrong.append("card memory sold twice")
    if len({one.ask.shape.mode for one, _ in sold}) > 1:
        wrong.append("a card in two modes")
    modes = {one.ask.shape.mode for one, _ in sold}
    if modes == {"share_tenant"} and len({one.ask.tenant for one, _ in sold}) > 1:
        wrong.append("a stranger on a tenant's card")
    if modes == {"share_shared"}:
        if len({(one.ask.shape.tenths, one.ask.shape.vram_mib) for one, _ in sold}) > 1:
            wrong.append("unequal tiles among strangers")
        if not node.allows_strangers:
            wrong.append("strangers where they are not allowed")
    if modes == {"mig"} and sum("+me" in one.profile for one, _ in sold) > 1:
        wrong.append("media extensions sold twice")
    return wrong


def run_room(seed: int, events: int) -> tuple[Counter[str], Counter[str]]:
    """Return what happened how often, and the violations."""
    ledger = Ledger(Dice(seed))
    seen: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for number in range(events):
        ledger.step()
        seen["events"] += 1
        if number % EVENTS_OF_A_PASS == EVENTS_OF_A_PASS - 1:
            for text in run_pass(ledger, DRAWN[ledger.dice.below(len(DRAWN))], seen):
                wrong[f"{text} (seed {seed})"] += 1
    return seen, wrong


def run_pass(ledger: Ledger, policy: str, seen: Counter[str]) -> list[str]:
    asks = ledger.asks
    mix = Counter(ask.kind for ask in asks if ask.shape.mode != "mig")
    rules = Rules(
        policies={"r1": policy},
        forecast=Forecast.of(mix or {Ask(**_NOTHING).kind: 1}),
        total=Use(milli=48_000),
    )
    room = Inventory(ledger.states())
    decisions = plan(asks, room, rules)
    wrong = []
    if plan(asks, Inventory(ledger.states()[::-1]), rules) != decisions:
        wrong.append("the same pass decided otherwise")
    waits = []
    for ask, decision in zip(asks, decisions, strict=True):
        if isinstance(decision, Place):
            seen["placed"] += 1
            wrong += ledger.take(ask, decision)
        else:
            waits.append((ask, decision))
    rebuilt = Inventory(ledger.states())
    wrong += [
        f"{name} is not what loading gives"
        for name in ARRAYS
        if not np.array_equal(getattr(room, name), getattr(rebuilt, name))
    ]
    for ask, wait in waits:
        wrong += _check_wait(ledger, ask, wait, seen)
    # Some give up; the rest waits on.
    ledger.asks = [ask for ask, _ in waits if ledger.dice.below(2)][-20:]
    return wrong


_NOTHING: Final[dict[str, Any]] = {
    "id": uuid.UUID(int=1),
    "tenant": TENANTS[0],
    "shape": Shape(),
    "region": "r1",
}


def _check_wait(ledger: Ledger, ask: Ask, wait: Wait, seen: Counter[str]) -> list[str]:
    seen["refused"] += 1
    if sum(wait.reasons.values()) != len(ledger.nodes):
        return ["reasons do not add up to the nodes"]
    if "held" in wait.reasons:
        seen["held"] += 1
        return []
    if len(ledger.nodes) > 3:
        return []
    seen["tried by brute force"] += 1
    return ["refused though it fits"] if ledger.fits_somewhere(ask) else []


def run_rooms(first: int, rooms: int, events: int) -> tuple[Counter[str], Counter[str]]:
    seen: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for seed in range(first, first + rooms):
        some_seen, some_wrong = run_room(seed, events)
        seen, wrong = seen + some_seen, wrong + some_wrong
    return seen, wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.invariants", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rooms, piece = -(-chosen.events // EVENTS_OF_A_ROOM), 20
    began = time.perf_counter()
    seen: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        pieces = [
            pool.submit(run_rooms, chosen.seed + at, min(piece, rooms - at), EVENTS_OF_A_ROOM)
            for at in range(0, rooms, piece)
        ]
        for one in pieces:
            some_seen, some_wrong = one.result()
            seen, wrong = seen + some_seen, wrong + some_wrong
    seconds = time.perf_counter() - began
    rows: list[tuple[str, object]] = [(name, f"{count:,}") for name, count in seen.items()]
    rows += [("seconds", round(seconds)), ("violations", sum(wrong.values()))]
    rows += [(f"  {text}", count) for text, count in wrong.most_common(20)]
    print_table("random events against a ledger", rows)
    print_json({"benchmark": "invariants", **seen, "violations": sum(wrong.values())})


if __name__ == "__main__":
    main()
