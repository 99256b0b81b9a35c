"""MIG in the pure core: legal starts, which card, and what is never done. No database."""

import uuid
from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core import fast
from scheduler.core.board import Board
from scheduler.core.boards import POLICIES, make_board, make_policy
from scheduler.core.dice import Dice
from scheduler.core.forecast import Forecast
from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.kinds import Kind
from scheduler.core.mig import (
    A30,
    A100_40,
    B200_180,
    FAMILIES,
    GH200_96,
    H100_80,
    H100_94,
    H200_141,
    MASKS,
    Profile,
    Table,
    builtin_table,
    fits,
    room_left,
)
from scheduler.core.placement import Ask, Part, Place, Wait, count_places, plan
from scheduler.core.policies.best_fit import BestFit
from scheduler.core.shapes import Shape, fault_of

pytestmark = pytest.mark.pure

A100 = ("A100", 40_960)
SMALL = ("A30", 24_576)
PLAIN = ("RTX 4090", 24_564)
ANN, BOB = uuid.UUID(int=0xA), uuid.UUID(int=0xB)

# Written down again from NVIDIA's guide, so that the tables are compared with something:
# memory slices and legal starts of each profile.
GUIDE_A100 = {
    "1g.5gb": (1, {0, 1, 2, 3, 4, 5, 6}),
    "1g.5gb+me": (1, {0, 1, 2, 3, 4, 5, 6}),
    "1g.10gb": (2, {0, 2, 4, 6}),
    "2g.10gb": (2, {0, 2, 4}),
    "3g.20gb": (4, {0, 4}),
    "4g.20gb": (4, {0}),
    "7g.40gb": (8, {0}),
}
GUIDE_A30 = {
    "1g.6gb": (1, {0, 1, 2, 3}),
    "1g.6gb+me": (1, {0, 1, 2, 3}),
    "2g.12gb": (2, {0, 2}),
    "2g.12gb+me": (2, {0, 2}),
    "4g.24gb": (4, {0}),
}
GUIDES = {A100: GUIDE_A100, SMALL: GUIDE_A30, PLAIN: {}}


def card(number, *parts, model=A100, index=0, **fields):
    """A card that can be cut, with these (start, size) already sold for MIG."""
    taken = sum(((1 << size) - 1) << start for start, size in parts)
    fields = {"vram_free_mib": model[1], "is_mig_capable": True, **fields}
    return GpuState(
        id=uuid.UUID(int=number),
        index=index,
        model=model,
        taken=taken,
        mode="mig" if parts else None,
        **fields,
    )


def node(number, *gpus, **fields):
    room = {"cpu_milli": 1_000_000, "ram_mib": 1_000_000, "disk_mib": 0, "allows_strangers": True}
    return NodeState(
        id=uuid.UUID(int=number), version=1, region="r1", zone="z1", gpus=gpus, **(room | fields)
    )


def ask(profile="", number=1, *, mode="mig", tenant=ANN, **shape):
    return Ask(
        id=uuid.UUID(int=number),
        tenant=tenant,
        region="r1",
        shape=Shape(mode=mode, profile=profile, **shape),
    )


def asks(*profiles):
    return [ask(profile, number) for number, profile in enumerate(profiles, start=1)]


def spots(decisions):
    """(card, start, end) of each decision, or its reasons."""
    return [
        (one.parts[0].gpu.int, one.parts[0].from_cell, one.parts[0].until_cell)
        if isinstance(one, Place)
        else one.reasons
        for one in decisions
    ]


def put(wishes, *nodes):
    return spots(plan(wishes, Inventory(nodes)))


def named(table, name):
    return next(one for one in table.profiles if one.name == name)


# --- tables


@pytest.mark.parametrize(
    ("model", "table", "names"),
    [
        (("A100", 40_960), A100_40, "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
        (("A100", 81_920), H100_80, "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        (("H100", 81_920), H100_80, "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        (
            ("H100 NVL", 95_830),
            H100_94,
            "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
        ),
        (("GH200", 97_871), GH200_96, "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        (
            ("NVIDIA H200", 144_384),
            H200_141,
            "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
        ),
        (
            ("B200", 183_359),
            B200_180,
            "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
        ),
        (("A30", 24_576), A30, "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb"),
    ],
)
def test_each_model_has_the_profiles_of_the_guide(model, table, names):
    assert builtin_table(*model) is table
    assert [one.name for one in table.profiles] == names.split()


@pytest.mark.parametrize("model", [PLAIN, ("H20", 98_304), ("A100", 200_000), ("A300", 24_576)])
def test_nothing_is_guessed_of_other_models(model):
    assert builtin_table(*model) is None


@pytest.mark.parametrize(("table", "guide"), [(A100_40, GUIDE_A100), (A30, GUIDE_A30)])
def test_starts_are_those_of_the_guide(table, guide):
    assert {one.name: (one.size, set(one.starts)) for one in table.profiles} == guide


@pytest.mark.parametrize("profile", [one for _, _, table in FAMILIES for one in table.profiles])
def test_a_part_is_put_where_it_may_begin_and_nothing_lies_whenever_there_is_such_a_place(profile):
    part = (1 << profile.size) - 1
    for mask in range(MASKS):
        legal = {start for start in profile.starts if not mask & part << start}
        assert fits(profile)[mask] in (legal or {-1})


@pytest.mark.parametrize(
    ("table", "name", "starts"),
    [
        (A100_40, "1g.5gb", [6, 5, 4, 3, 2, 1, 0]),
        (A100_40, "1g.10gb", [6, 4, 2, 0]),
        (A100_40, "2g.10gb", [0, 2, 4]),
        (A100_40, "3g.20gb", [4, 0]),
        (A100_40, "4g.20gb", [0]),
        (A100_40, "7g.40gb", [0]),
        (A30, "1g.6gb", [3, 2, 1, 0]),
        (A30, "2g.12gb", [0, 2]),
    ],
)
def test_parts_of_one_and_three_begin_high_and_others_low(table, name, starts):
    profile, mask, found = named(table, name), 0, []
    while (start := fits(profile)[mask]) >= 0:
        found.append(start)
        mask |= ((1 << profile.size) - 1) << start

    assert found == starts


# What nvidia-smi prints as the total of each; a little less than the nominal memory.
TOTALS = {
    A30: 24_258,
    A100_40: 40_536,
    H100_80: 81_251,
    H100_94: 95_830,
    GH200_96: 97_871,
    H200_141: 143_771,
    B200_180: 183_359,
}


@pytest.mark.parametrize("table", TOTALS)
def test_no_way_to_cut_a_card_sells_more_memory_than_it_has(table):
    @cache
    def most(mask):
        ways = [
            one.vram_mib + most(mask | ((1 << one.size) - 1) << start)
            for one in table.profiles
            for start in one.starts
            if not mask & ((1 << one.size) - 1) << start
        ]
        return max(ways, default=0)

    assert most(0) <= TOTALS[table]


@pytest.mark.parametrize(
    ("taken", "left"),
    [(0, 7), (0b1111, 3), (0b1111_0000, 4), (0b0111_1111, 0), (0b0011_1111, 1), (0b1, 6)],
)
def test_counts_the_compute_slices_that_a_card_can_still_give(taken, left):
    assert room_left(A100_40)[taken] == left


# --- where


def test_one_card_takes_three_two_one_and_one():
    found = put(asks("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb", "1g.5gb"), node(1, card(11)))

    assert found == [(11, 4, 8), (11, 0, 2), (11, 3, 4), (11, 2, 3), {"gpu": 1}]


def test_only_a_wide_part_of_one_uses_the_last_memory_slice():
    ones = asks(*["1g.5gb"] * 8)
    assert put(ones, node(1, card(11)))[6:] == [(11, 0, 1), {"gpu": 1}]

    full = card(11, (0, 2), (2, 2), (4, 2))
    assert put(asks("2g.10gb"), node(1, full)) == [{"gpu": 1}]
    assert put(asks("1g.10gb"), node(1, full)) == [(11, 6, 8)]


def test_what_is_sold_is_the_memory_that_the_profile_has_on_that_card():
    [place] = plan(asks("3g.20gb"), Inventory([node(1, card(11))]))

    assert place.parts[0].vram_mib == 19_968


def test_the_card_with_the_fewest_memory_slices_left_is_taken():
    less, more = card(11, (6, 1)), card(21, (4, 4))

    assert put(asks("2g.10gb"), node(1, less), node(2, more)) == [(21, 0, 2)]


def test_an_idle_card_is_taken_last():
    """Though an idle A30 has fewer slices left than a cut A100."""
    small = Table(slices=4, profiles=(Profile("1g.5gb", 1, 1, (0, 1, 2, 3), 4_864),))
    idle = card(11, model=SMALL, mig_table=small)

    assert put(asks("1g.5gb"), node(1, idle), node(2, card(21, (6, 1)))) == [(21, 5, 6)]


def test_of_equally_full_cards_the_one_where_no_compute_slice_is_spoiled():
    """A wide part of one at 4 leaves slice 7 without use; beside 0 it lies at 6."""
    spoiled, whole = card(11, (6, 1)), card(21, (0, 1))

    assert put(asks("1g.10gb"), node(1, spoiled), node(2, whole)) == [(21, 6, 8)]


def test_of_idle_cards_the_one_whose_nvlink_group_is_broken_most():
    pair = [card(11, index=0, nvlink_group=0), card(12, index=1, nvlink_group=0)]

    assert put(asks("7g.40gb"), node(1, *pair, card(13, index=2))) == [(13, 0, 8)]


def test_a_card_has_one_part_with_media_extensions():
    wishes = asks("1g.5gb+me", "1g.5gb+me", "1g.5gb")

    assert put(wishes, node(1, card(11))) == [(11, 6, 7), {"gpu": 1}, (11, 5, 6)]
    assert put(wishes, node(1, card(11, (6, 1), has_media=True)))[0] == {"gpu": 1}


def test_media_extensions_come_back_with_their_part_alone():
    room = Inventory([node(1, card(11))])
    media, plain = (ask(name).kind for name in ("1g.5gb+me", "1g.5gb"))
    board = Board(room, BestFit(room))
    [first], [second] = room.take(media, 0, [0]), room.take(plain, 0, [0])

    room.give_back(plain, 0, [second])
    assert board.choose(media) is None
    room.give_back(media, 0, [first])
    assert board.choose(media) == (0, [0])


def test_the_table_that_the_agent_reports_wins():
    own = Table(slices=8, profiles=(Profile("1g.5gb", 1, 2, (2,), 4_321),))
    inventory = Inventory([node(1, card(11, mig_table=own))])

    [one, two, three] = plan(asks("1g.5gb", "1g.5gb", "2g.10gb"), inventory)

    assert spots([one, two, three]) == [(11, 2, 4), {"gpu": 1}, {"mig": 1}]
    assert one.parts[0].vram_mib == 4_321


# --- modes


def test_a_card_that_is_cut_for_mig_has_nothing_for_shares_or_whole_cards():
    cut = node(1, card(11, (6, 1)))
    share = {"tenths": 1, "vram_mib": 1_000}

    assert Inventory([cut]).free.tolist() == [[0]]
    for mode, shape in (("whole", {}), ("share_tenant", share), ("share_shared", share)):
        assert put([ask(mode=mode, **shape)], cut) == [{"gpu": 1}]


@pytest.mark.parametrize("mode", ["whole", "share_tenant", "share_shared"])
def test_a_card_that_is_sold_otherwise_has_nothing_for_mig(mode):
    sold = GpuState(
        id=uuid.UUID(int=11),
        index=0,
        model=A100,
        vram_free_mib=40_000,
        is_mig_capable=True,
        taken=0b1,
        mode=mode,
        tenant=ANN,
        tile=1,
    )

    assert put(asks("1g.5gb"), node(1, sold)) == [{"gpu": 1}]


def test_a_card_that_is_empty_again_is_for_everybody():
    room = Inventory([node(1, card(11))])
    kind = ask("3g.20gb").kind
    cuts = room.take(kind, 0, [0])
    assert (room.free[0, 0], room.vram[0, 0]) == (0, 40_960 - 19_968)

    room.give_back(kind, 0, cuts)

    assert spots(plan([ask(mode="whole")], room)) == [(11, 0, 10)]


# --- reasons


@pytest.mark.parametrize(
    ("wish", "gpu", "reason"),
    [
        (ask("1g.5gb"), card(11, is_mig_capable=False), "mig"),
        (ask("1g.5gb"), card(11, model=PLAIN), "mig"),
        (ask("1g.10gb"), card(11, model=SMALL), "mig"),
        (ask("1g.5gb", vram_mib=4_865), card(11), "mig"),
        (ask(vram_mib=40_193), card(11), "mig"),
        (ask("1g.5gb", gpu_models=(SMALL,)), card(11), "model"),
        (ask("1g.5gb"), card(11, is_healthy=False), "health"),
        (ask("7g.40gb"), card(11, (6, 1)), "gpu"),
        (ask("1g.5gb"), card(11, vram_free_mib=4_863), "vram"),
    ],
)
def test_says_why_a_card_is_not_cut(wish, gpu, reason):
    assert put([wish], node(1, gpu)) == [{reason: 1}]


@pytest.mark.parametrize(
    "shape",
    [
        Shape(mode="mig"),
        Shape(mode="mig", profile="1g.5gb", count=2),
        Shape(mode="mig", profile="half of it"),
        Shape(mode="mig", profile="1g.10gb+me; drop"),
        Shape(mode="whole", profile="1g.5gb"),
        Shape(mode="share_tenant", tenths=1, profile="1g.5gb"),
    ],
)
def test_impossible_shapes_have_a_fault(shape):
    assert fault_of(shape)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(mode="mig", profile="1g.5gb"),
        Shape(mode="mig", profile="1g.24gb+me.all"),
        Shape(mode="mig", vram_mib=1),
    ],
)
def test_a_profile_or_some_memory_is_a_shape(shape):
    assert fault_of(shape) is None


# --- what went wrong elsewhere: reference/scheduler.md §5


def test_row_3_a_state_that_is_rebuilt_from_starts_and_sizes_marks_no_other_slice():
    # given an A100 of three parts of two, and room for one of one
    room = Inventory([node(1, card(11, (0, 2), (2, 2), (4, 2)))])
    [place] = plan(asks("1g.5gb"), room)
    [part] = place.parts
    assert (part.from_cell, part.until_cell) == (6, 7)

    # when the state is rebuilt from what is recorded: where each part begins, and its size
    records = [(0, 2), (2, 2), (4, 2), (part.from_cell, part.until_cell - part.from_cell)]
    rebuilt = Inventory([node(1, card(11, *records))])

    # then nothing else is free
    assert rebuilt.taken.tolist() == room.taken.tolist() == [[0b0111_1111]]
    assert spots(plan(asks("1g.5gb"), rebuilt)) == [{"gpu": 1}]


@pytest.mark.parametrize("asked_mib", [5_000, 5_120])
def test_row_9_memory_decides_the_profile_and_nothing_that_runs_moves(asked_mib):
    """5,000 MiB look like 1g.5gb, which has 4,864: both get 1g.10gb, in the other half."""
    room = Inventory([node(1, card(11, (0, 4)))])

    [place] = plan([ask(vram_mib=asked_mib)], room)

    assert spots([place]) == [(11, 6, 8)]
    assert place.parts[0].vram_mib == 9_850
    assert room.taken.tolist() == [[0b1100_1111]]


@pytest.mark.parametrize(
    ("asked_mib", "spot"),
    [
        (1, (11, 6, 7)),
        (4_864, (11, 6, 7)),
        (4_865, (11, 6, 8)),
        (9_850, (11, 6, 8)),
        (9_851, (11, 4, 8)),
        (19_969, (11, 0, 8)),
    ],
)
def test_the_smallest_profile_with_so_much_memory_is_taken(asked_mib, spot):
    assert put([ask(vram_mib=asked_mib)], node(1, card(11))) == [spot]


def test_the_next_larger_profile_is_taken_where_the_smallest_has_no_free_start():
    own = Table(
        slices=8,
        profiles=(Profile("1g.5gb", 1, 1, (0,), 4_864), Profile("2g.10gb", 2, 2, (2,), 9_850)),
    )

    assert put([ask(vram_mib=4_000)], node(1, card(11, (0, 1), mig_table=own))) == [(11, 2, 4)]


def test_a_smaller_part_on_an_idle_card_goes_before_a_larger_on_a_cut_one():
    own = Table(slices=8, profiles=(Profile("2g.10gb", 2, 2, (2,), 9_850),))
    cut = card(11, (0, 1), mig_table=own)

    assert put([ask(vram_mib=4_000)], node(1, cut), node(2, card(21))) == [(21, 6, 7)]


def test_media_extensions_are_for_who_asks_for_them():
    own = Table(slices=8, profiles=(Profile("1g.5gb+me", 1, 1, (0,), 4_864),))

    assert put([ask(vram_mib=1)], node(1, card(11, mig_table=own))) == [{"mig": 1}]


def test_row_35_the_stock_is_that_of_the_present_layout_and_nothing_is_left_of_the_last():
    """Eight cards, whole, then seven parts of one each, then one of seven."""
    room = Inventory([node(1, *(card(10 + i, index=i) for i in range(8)))])
    whole, one, seven = ask(mode="whole"), ask("1g.5gb"), ask("7g.40gb")

    def stock():
        held = Inventory([_as_state(room)])
        return [count_places(what, held, most=100) for what in (whole, one, seven)]

    assert stock() == [8, 56, 8]
    ones = [(one.kind, room.take(one.kind, 0, [column])) for column in range(8) for _ in range(7)]
    assert (stock(), len(room.changed)) == ([0, 0, 0], 56)
    for kind, cuts in ones:
        room.give_back(kind, 0, cuts)
    assert stock() == [8, 56, 8]
    for column in range(7):
        room.take(seven.kind, 0, [column])
    assert stock() == [1, 7, 1]


def _as_state(room):
    """The node as it would be loaded: from masks and modes alone."""
    names = {0: None, 2: "mig"}
    return node(
        1,
        *(
            GpuState(
                id=gpu.id,
                index=gpu.index,
                model=gpu.model,
                vram_free_mib=int(room.vram[0, column]),
                is_mig_capable=True,
                taken=int(room.taken[0, column]),
                mode=names[int(room.mode[0, column])],
            )
            for column, gpu in enumerate(room.gpus[0])
        ),
    )


# --- properties


class Ledger:
    """One or two cards in the plainest way: the oracle. Parts are (name, start, MiB)."""

    def __init__(self, gpus):
        self.gpus = {gpu.id: gpu for gpu in gpus}
        self.parts = {gpu.id: [] for gpu in gpus}

    def legal(self, gpu_id, profile):
        """Where this profile could begin on this card now."""
        gpu = self.gpus[gpu_id]
        guide = GUIDES[gpu.model] if gpu.is_mig_capable else {}
        if profile not in guide:
            return set()
        held = self.parts[gpu_id]
        if profile.endswith("+me") and any(name.endswith("+me") for name, _, _ in held):
            return set()
        size, starts = guide[profile]
        taken = {cell for name, start, _ in held for cell in range(start, start + guide[name][0])}
        return {start for start in starts if not taken & set(range(start, start + size))}

    def can_place(self, profile):
        return any(self.legal(gpu_id, profile) for gpu_id in self.gpus)

    def take(self, profile, part):
        assert part.from_cell in self.legal(part.gpu, profile)
        size, _ = GUIDES[self.gpus[part.gpu].model][profile]
        assert part.until_cell - part.from_cell == size
        held = (profile, part.from_cell, part.vram_mib)
        self.parts[part.gpu].append(held)
        return part.gpu, held

    def rebuilt(self):
        """The cards as they would be loaded from rows of (start, size)."""
        found = []
        for gpu_id, gpu in self.gpus.items():
            held = self.parts[gpu_id]
            sizes = [(start, GUIDES[gpu.model][name][0]) for name, start, _ in held]
            found.append(
                card(
                    gpu_id.int,
                    *sizes,
                    model=gpu.model,
                    index=gpu.index,
                    is_mig_capable=gpu.is_mig_capable,
                    vram_free_mib=gpu.vram_free_mib - sum(mib for _, _, mib in held),
                    has_media=any(name.endswith("+me") for name, _, _ in held),
                )
            )
        return found


MODELS = st.sampled_from([A100, A100, SMALL, PLAIN])
WISHES = st.sampled_from([*GUIDE_A100, *GUIDE_A30])


@st.composite
def rooms(draw):
    count = draw(st.integers(1, 2))
    gpus = [
        card(
            10 + i,
            index=i,
            model=draw(MODELS),
            is_mig_capable=draw(st.sampled_from([True, True, False])),
        )
        for i in range(count)
    ]
    return gpus if draw(st.booleans()) else gpus[::-1]


# A profile to place, or which of the held ones (modulo their number) to give back.
EVENTS = st.lists(st.one_of(WISHES, st.integers(0, 20)), max_size=40)


@given(rooms(), EVENTS)
def test_places_exactly_when_some_legal_start_is_free_and_never_twice(gpus, events):
    room = Inventory([node(1, *gpus)])
    ledger, board, held = Ledger(gpus), Board(room, BestFit(room)), []

    for event in events:
        if isinstance(event, int):
            if held:
                kind, cut, (gpu_id, part) = held.pop(event % len(held))
                room.give_back(kind, 0, [cut])
                ledger.parts[gpu_id].remove(part)
        else:
            kind = ask(event).kind
            chosen = board.choose(kind)
            assert (chosen is not None) == ledger.can_place(event)
            if chosen is not None:
                [cut] = room.take(kind, *chosen)
                part = _part(room, cut)
                held.append((kind, cut, ledger.take(event, part)))
        _is_rebuilt(room, ledger)


def _part(room, cut):
    return Part(
        gpu=room.gpus[0][cut.column].id,
        from_cell=cut.start,
        until_cell=cut.start + cut.width,
        vram_mib=cut.vram_mib,
    )


def _is_rebuilt(room, ledger):
    again = Inventory([node(1, *ledger.rebuilt())])
    for name in ("taken", "mode", "free", "vram", "has_media", "table", "cpu"):
        assert getattr(room, name).tolist() == getattr(again, name).tolist(), name
    assert (room.vram >= 0).all()


@given(st.lists(WISHES, max_size=30), rooms(), st.randoms())
def test_equal_inputs_give_equal_plans_in_whatever_order_they_were_read(profiles, gpus, random):
    nodes = [node(number, gpu) for number, gpu in enumerate(gpus, start=1)]
    shuffled = list(nodes)
    random.shuffle(shuffled)
    wishes = asks(*profiles)

    found = plan(wishes, Inventory(nodes))

    assert found == plan(wishes, Inventory(shuffled))
    for one in found:
        assert isinstance(one, Place) or (
            isinstance(one, Wait) and sum(one.reasons.values()) == len(nodes)
        )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "way",
    [
        "numpy",
        pytest.param(
            "compiled",
            marks=pytest.mark.skipif(not fast.IS_HERE, reason="numba is not installed"),
        ),
    ],
)
def test_every_policy_and_every_board_cuts_cards_in_the_same_way(policy, way):
    """Beside whole cards and tiles, which may be where they want: nothing is sold twice."""
    nodes = [node(n, *(card(10 * n + i, index=i) for i in range(4))) for n in range(1, 4)]
    room, alone = Inventory(nodes), Inventory(nodes)
    forecast = Forecast.of(Counter({Kind(): 1}))
    board = make_board(room, make_policy(policy, room, forecast), way)
    plain, dice, cuts = Board(alone, BestFit(alone)), Dice(3), []

    for _ in range(60):
        kind = ask(list(GUIDE_A100)[dice.below(len(GUIDE_A100))]).kind
        chosen = board.choose(kind)
        assert chosen == plain.choose(kind)
        if chosen is not None:
            cuts.append((kind, chosen[0], room.take(kind, *chosen)))
            alone.take(kind, *chosen)
        if len(cuts) > 20:
            gone = cuts.pop(dice.below(len(cuts)))
            room.give_back(*gone)
            alone.give_back(*gone)

    cut = room.mode == 2
    assert cut.any()
    whole = board.choose(Kind())
    assert whole is None or not cut[whole[0], whole[1][0]]
