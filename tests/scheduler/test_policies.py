"""Policies: what each prefers, that all agree on what fits, and that nothing else decides."""

import hashlib
import json
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import product
from scheduler.core import fast
from scheduler.core.board import Board
from scheduler.core.boards import POLICIES, make_board, make_policy
from scheduler.core.dice import Dice
from scheduler.core.fill import Fill, state_of
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.kinds import Kind
from tests.scheduler.test_placement import asks, fleets

pytestmark = pytest.mark.pure
MODELS = (("A", 0), ("B", 0))
needs_numba = pytest.mark.skipif(not fast.IS_HERE, reason="numba is not installed")


def loose(milli, *, cpu=1_000, models=()):
    return Kind(mode="share_shared", milli=milli, width=0, cpu_milli=cpu, models=models)


def whole(count=1, *, cpu=1_000, models=()):
    return Kind(count=count, cpu_milli=cpu, models=models)


def bare(*, cpu=1_000):
    return Kind(count=0, cpu_milli=cpu)


def fleet(*nodes):
    """Nodes of (cards, cores, model), all empty."""
    return Inventory(
        [
            NodeState(
                id=uuid.UUID(int=number),
                version=1,
                region="r",
                zone="z",
                allows_strangers=True,
                cpu_milli=cores * 1_000,
                ram_mib=1_000_000,
                disk_mib=1_000_000,
                gpus=tuple(
                    GpuState(
                        id=uuid.UUID(int=number * 100 + index),
                        index=index,
                        model=(model, 0),
                        vram_free_mib=80_000,
                    )
                    for index in range(cards)
                ),
            )
            for number, (cards, cores, model) in enumerate(nodes, start=1)
        ]
    )


def board(room, policy, *forecast, way="numpy"):
    mix = Forecast.of(Counter(dict(forecast) or {whole(): 1}))
    return make_board(room, make_policy(policy, room, mix), way)


def place(one, kind):
    chosen = one.choose(kind)
    if chosen is not None:
        one.room.take(kind, *chosen)
    return chosen


# --- what each prefers


def test_first_fit_takes_the_first_node_and_best_fit_the_fullest():
    for policy, row in (("first_fit", 0), ("best_fit", 1)):
        room = fleet((4, 64, "A"), (2, 64, "A"))
        assert place(board(room, policy), whole())[0] == row


def test_fgd_puts_work_without_gpu_where_no_card_needs_the_cpu():
    room = fleet((1, 16, "A"), (0, 16, "A"))

    assert place(board(room, "fgd", (whole(cpu=10_000), 1)), bare(cpu=10_000)) == (1, [])


def test_fgd_completes_a_card_rather_than_opening_another():
    room = fleet((2, 64, "A"), (1, 64, "A"))
    one = board(room, "fgd", (whole(), 1), (loose(500), 1))
    room.take(loose(500), 1, [0])

    assert place(one, loose(500)) == (1, [0])


def test_fgd_knows_kinds_without_their_memory():
    """As published: kinds that differ in nothing else are one, and typical together."""
    mix = {replace(loose(500), ram_mib=ram): 1 for ram in range(90)} | {whole(): 10}
    policy = make_policy("fgd", fleet((1, 8, "A")), Forecast.of(Counter(mix)))
    assert policy.weight.tolist() == [90, 10]


def test_fgdx_keeps_the_last_slot_of_a_large_job():
    """Two cards of a pair are asked for by large jobs alone: a single card goes elsewhere."""
    large = whole(2, cpu=2_000)
    room = fleet((2, 64, "A"), (1, 64, "A"))
    one = board(room, "fgdx", (large, 1), (whole(), 1))

    assert place(one, whole()) == (1, [0])
    assert place(one, large) == (0, [0, 1])


def test_fgdx_breaks_the_slot_when_nothing_else_is_left():
    large = whole(2, cpu=2_000)
    one = board(fleet((2, 64, "A")), "fgdx", (large, 1), (whole(), 1))

    assert place(one, whole()) == (0, [0])
    assert place(one, large) is None


def test_fgdx_leaves_a_scarce_model_to_those_that_are_tied_to_it():
    tied = whole(models=(("A", 0),))
    room = fleet((1, 64, "A"), (1, 64, "B"))
    one = board(room, "fgdx", (tied, 9), (whole(), 1))

    assert place(one, whole()) == (1, [0])
    assert place(one, tied) == (0, [0])


def test_phi_is_what_stays_idle_after_the_expected_requests():
    """One card, requests of 0.4 of it: two fit, a fifth stays idle, in each of the sequences."""
    room = fleet((1, 64, "A"), (1, 1, "A"), (1, 0, "A"))
    fill = Fill(room, Forecast.of({loose(400): 1}), sequences=3, length=5, seed=1)

    # The second node has CPU for one of them, the third for none.
    assert fill.phi(state_of(room, np.arange(3))).tolist() == [600, 1_800, 3_000]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("way", ["numpy", pytest.param("compiled", marks=needs_numba)])
def test_a_fleet_without_cards_holds_work_without_cards(policy, way):
    one = board(fleet((0, 8, "A")), policy, (bare(), 1), way=way)

    assert place(one, bare(cpu=8_000)) == (0, [])
    assert place(one, bare()) is None
    assert one.choose(whole()) is None


# --- properties

kinds = st.one_of(
    st.builds(loose, st.sampled_from([100, 190, 300, 500, 810]), cpu=st.sampled_from([0, 4_000])),
    st.builds(
        whole,
        st.integers(1, 4),
        cpu=st.sampled_from([0, 4_000, 16_000]),
        models=st.sampled_from([(), MODELS[:1], MODELS[1:], MODELS]),
    ),
    st.builds(bare, cpu=st.sampled_from([1_000, 30_000])),
)
rooms = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 40), st.sampled_from(["A", "B"])),
    min_size=1,
    max_size=6,
)
policies = st.sampled_from(sorted(POLICIES))


@given(st.lists(kinds, min_size=1, max_size=8), rooms, policies, st.lists(st.integers(0, 99)))
def test_all_policies_place_exactly_what_fits_and_give_back_what_they_took(
    mix, nodes, policy, moves
):
    room, plain = fleet(*nodes), fleet(*nodes)
    one = board(room, policy, *Counter(mix).items())
    held = []
    for move in moves:
        if move % 4 == 0 and held:
            room.give_back(*held.pop(move % len(held)))
            continue
        kind = mix[move % len(mix)]
        chosen = one.choose(kind)
        # A board of its own that has seen nothing: no sheet may be out of date.
        assert (chosen is None) == (
            Board(room, make_policy("first_fit", room, None)).choose(kind) is None
        )
        if chosen is not None:
            held.append((kind, chosen[0], room.take(kind, *chosen)))
            assert room.cpu.min() >= 0
            assert (room.free >= 0).all()
    for kind, row, cuts in held:
        room.give_back(kind, row, cuts)
    for name in ("cpu", "ram", "disk", "free", "vram", "taken", "mode", "tile"):
        assert (getattr(room, name) == getattr(plain, name)).all(), name


@needs_numba
@given(st.lists(kinds, min_size=1, max_size=8), rooms, policies, st.lists(st.integers(0, 99)))
@settings(deadline=None)
def test_compiled_decisions_are_those_of_numpy(mix, nodes, policy, moves):
    slow, quick = (
        board(fleet(*nodes), policy, *Counter(mix).items(), way=way)
        for way in ("numpy", "compiled")
    )
    held = []
    for move in moves:
        if move % 4 == 0 and held:
            kind, row, cuts = held.pop(move % len(held))
            slow.room.give_back(kind, row, cuts)
            quick.room.give_back(kind, row, cuts)
            continue
        kind = mix[move % len(mix)]
        chosen = slow.choose(kind)
        assert quick.choose(kind) == chosen
        if chosen is None:
            assert quick.count_reasons(kind) == slow.count_reasons(kind)
        else:
            held.append((kind, chosen[0], slow.room.take(kind, *chosen)))
            quick.room.take(kind, *chosen)


@needs_numba
@given(asks(), fleets(), policies)
@settings(deadline=None)
def test_compiled_decisions_are_those_of_numpy_for_what_we_sell(wishes, nodes, policy):
    """Tenants, tiles, cells, NVLink groups, mixed nodes, sick cards: everything of the product."""
    mix = Counter(wish.kind for wish in wishes if wish.kind.zone is None)
    slow, quick = (
        board(Inventory(nodes), policy, *mix.items(), way=way) for way in ("numpy", "compiled")
    )
    for wish in wishes:
        chosen = slow.choose(wish.kind)
        assert quick.choose(wish.kind) == chosen
        if chosen is not None:
            assert slow.room.take(wish.kind, *chosen) == quick.room.take(wish.kind, *chosen)


# --- determinism: the same on every machine, Python and NumPy

RECORDED = {
    "first_fit": "6aa9df94f288acacb0e7ac9ed6380d488a42652432a460f0b4472b0160f46d85",
    "best_fit": "10b934887b682ac85d57a26f41123dad8510df4c065f00d88d6f1960fba695e4",
    "fgd": "75d4409167856fa15587087b05ad672fc7a647ef9d6d33bff817909daf03dcfa",
    "fgdx": "f32ded81d8e7de39ce3f2737ead5bc5eb3b994c5442de835562e9a1da353b337",
    "fgdx_filling": "8373307aecedfcfc535f2a11047bd06c36636db6133a3c9e38bf3f66b803b488",
}


def decisions_of(policy, way):
    """Fill three rooms, with departures, and hash what was decided."""
    texts = []
    for counts, nodes in (
        (product.product(), product.nodes_of(6)),
        (product.catalogue(), product.nodes_of(4)),
        ({loose(300): 5, whole(2, models=MODELS[:1]): 2, whole(): 3, bare(cpu=7_000): 2}, None),
    ):
        room = Inventory(nodes) if nodes else fleet((4, 32, "A"), (3, 16, "B"), (2, 64, "A"))
        one = make_board(room, make_policy(policy, room, Forecast.of(counts)), way)
        heap = [kind for kind, often in counts.items() for _ in range(often)]
        dice, held = Dice(11), []
        for _ in range(300):
            if held and dice.below(3) == 0:
                room.give_back(*held.pop(dice.below(len(held))))
                continue
            kind = heap[dice.below(len(heap))]
            chosen = one.choose(kind)
            texts.append(chosen)
            if chosen is not None:
                held.append((kind, chosen[0], room.take(kind, *chosen)))
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_decides_as_recorded(policy):
    assert decisions_of(policy, "numpy") == RECORDED[policy]


@needs_numba
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_decides_as_recorded_when_compiled(policy):
    assert decisions_of(policy, "compiled") == RECORDED[policy]


@needs_numba
def test_machine_code_is_kept_apart_for_every_state_of_the_sources(tmp_path):
    """numba would otherwise call what it compiled before an upgrade of another file."""
    from numba import config

    from scheduler.core.fast import kept

    inner = tmp_path / "fast"
    inner.mkdir()
    (tmp_path / "board.py").write_text("A = 1")
    (inner / "rate.py").write_text("B = 1")
    before = kept.name_of_sources(inner)
    (tmp_path / "board.py").write_text("A = 2")
    between = kept.name_of_sources(inner)
    (inner / "rate.py").write_text("B = 2")

    assert len({before, between, kept.name_of_sources(inner)}) == 3
    assert config.CACHE_DIR.endswith(kept.name_of_sources(Path(kept.__file__).parent))
