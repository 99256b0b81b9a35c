"""The pure core: best fit, reasons, and a brute-force oracle. No database."""

import uuid
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.inventory import GpuState, Inventory, NodeState
from scheduler.core.placement import DIMENSIONS, Ask, Place, Wait, plan
from scheduler.core.shapes import Shape, fault_of

BIG = ("H100", 80_000)
SMALL = ("RTX 4090", 24_000)
ANN, BOB = uuid.UUID(int=0xA), uuid.UUID(int=0xB)


def gpu(number, *, model=SMALL, index=0, **fields):
    fields = {"vram_free_mib": model[1], **fields}
    return GpuState(id=uuid.UUID(int=number), index=index, model=model, **fields)


def node(number, *gpus, **fields):
    room = {"cpu_milli": 64_000, "ram_mib": 256_000, "disk_mib": 1_000_000}
    return NodeState(
        id=uuid.UUID(int=number),
        version=1,
        region=fields.pop("region", "r1"),
        zone=fields.pop("zone", "z1"),
        gpus=gpus,
        **(room | fields),
    )


def ask(number=1, *, tenant=ANN, region="r1", **fields):
    own = {"zone", "node", "disk_mib", "is_releasing"}
    return Ask(
        id=uuid.UUID(int=number),
        tenant=tenant,
        region=region,
        shape=Shape(**{k: v for k, v in fields.items() if k not in own}),
        **{k: v for k, v in fields.items() if k in own},
    )


def share(number=1, tenths=1, *, mode="share_tenant", vram_mib=1_000, **fields):
    return ask(number, mode=mode, tenths=tenths, vram_mib=vram_mib, **fields)


def cards(*numbers, **fields):
    return tuple(gpu(number, index=i, **fields) for i, number in enumerate(numbers))


def place_of(decision):
    """((node, gpu, from, until), …) as small numbers."""
    assert isinstance(decision, Place), decision
    return [
        (decision.node.int, part.gpu.int, part.from_cell, part.until_cell)
        for part in decision.parts
    ]


def reasons_of(one, *nodes):
    [decision] = plan([one], Inventory(nodes))
    assert isinstance(decision, Wait)
    return decision.reasons


# --- whole cards


def test_takes_the_smallest_card_that_fits():
    inventory = Inventory([node(1, gpu(11, model=BIG)), node(2, gpu(21))])

    [decision] = plan([ask()], inventory)

    assert place_of(decision) == [(2, 21, 0, 10)]
    assert decision.parts[0].vram_mib == 24_000


def test_takes_the_node_with_the_fewest_cards_left_over():
    inventory = Inventory([node(1, *cards(11, 12, 13)), node(2, *cards(21, 22))])

    [decision] = plan([ask(count=2)], inventory)

    assert place_of(decision) == [(2, 21, 0, 10), (2, 22, 0, 10)]


def test_keeps_several_cards_inside_one_nvlink_group_though_another_node_is_fuller():
    linked = [gpu(10 + i, index=i, nvlink_group=i // 2) for i in range(4)]
    inventory = Inventory([node(1, *linked), node(2, *cards(21, 22))])

    [decision] = plan([ask(count=2)], inventory)

    assert place_of(decision) == [(1, 10, 0, 10), (1, 11, 0, 10)]


def test_breaks_the_smallest_groups_when_none_is_large_enough():
    groups = (0, 0, 0, 1, 1, 2)
    linked = [gpu(10 + i, index=i, nvlink_group=group) for i, group in enumerate(groups)]

    [decision] = plan([ask(count=4)], Inventory([node(1, *linked)]))

    assert [place[1] for place in place_of(decision)] == [10, 13, 14, 15]


def test_a_single_card_does_not_break_a_pair():
    linked = [gpu(11, index=0, nvlink_group=0), gpu(12, index=1, nvlink_group=0), gpu(13, index=2)]

    [decision] = plan([ask()], Inventory([node(1, *linked)]))

    assert place_of(decision) == [(1, 13, 0, 10)]


def test_cards_of_one_allocation_are_of_one_model():
    mixed = node(1, gpu(11, index=0), gpu(12, index=1, model=BIG))

    assert reasons_of(ask(count=2), mixed) == {"gpu": 1}


# --- shares


def test_shares_fill_the_card_that_is_cut_already():
    cut = gpu(11, taken=0b11, mode="share_tenant", tenant=ANN)
    inventory = Inventory([node(1, gpu(12, index=0)), node(2, cut)])

    [decision] = plan([share(tenths=3)], inventory)

    assert place_of(decision) == [(2, 11, 2, 5)]


def test_a_share_takes_the_smallest_hole_that_is_large_enough():
    cut = gpu(11, taken=0b0001100001, mode="share_tenant", tenant=ANN)  # holes 1-5 and 7-10

    [decision] = plan([share(tenths=3)], Inventory([node(1, cut)]))

    assert place_of(decision) == [(1, 11, 7, 10)]


def test_a_tenant_s_card_is_closed_to_others_until_it_is_empty():
    cut = gpu(11, taken=0b1, mode="share_tenant", tenant=ANN)

    assert reasons_of(share(tenant=BOB), node(1, cut)) == {"gpu": 1}


def test_strangers_get_equal_tiles_of_equal_memory():
    cut = gpu(11, taken=0b11, mode="share_shared", tenant=ANN, tile=2, tile_vram_mib=4_000)
    open_node = node(1, cut, allows_strangers=True)
    strange = {"tenant": BOB, "mode": "share_shared"}

    [fits] = plan([share(tenths=2, vram_mib=4_000, **strange)], Inventory([open_node]))
    assert place_of(fits) == [(1, 11, 2, 4)]
    assert reasons_of(share(tenths=1, vram_mib=4_000, **strange), open_node) == {"gpu": 1}
    assert reasons_of(share(tenths=2, vram_mib=4_001, **strange), open_node) == {"gpu": 1}


def test_three_tiles_of_three_tenths_lie_on_a_card_of_strangers():
    inventory = Inventory([node(1, gpu(11), allows_strangers=True)])
    asks = [share(n, 3, mode="share_shared", tenant=uuid.UUID(int=n)) for n in (1, 2, 3, 4)]

    decisions = plan(asks, inventory)

    assert [place_of(decision)[0][2:] for decision in decisions[:3]] == [(0, 3), (3, 6), (6, 9)]
    assert decisions[3].reasons == {"gpu": 1}


def test_memory_is_a_dimension_of_its_own():
    cut = gpu(11, taken=0b1, mode="share_tenant", tenant=ANN, vram_free_mib=999)

    assert reasons_of(share(), node(1, cut)) == {"vram": 1}


# --- reasons


@pytest.mark.parametrize(
    ("wish", "fields", "reason"),
    [
        ({}, {"region": "r2"}, "region"),
        ({"zone": "z2"}, {}, "zone"),
        ({}, {"is_cordoned": True}, "cordoned"),
        ({}, {"is_live": False}, "silent"),
        ({"gpu_models": (BIG,)}, {}, "model"),
        ({"mode": "mig"}, {}, "mig"),
        ({"mode": "share_shared", "tenths": 1}, {}, "isolation"),
        ({"count": 2}, {}, "gpu"),
        ({"vram_mib": 24_001}, {}, "vram"),
        ({"cpu_milli": 64_001}, {}, "cpu"),
        ({"ram_mib": 256_001}, {}, "ram"),
        ({"disk_mib": 1_000_001}, {}, "disk"),
        ({"node": uuid.UUID(int=9)}, {}, "residence"),
    ],
)
def test_says_which_dimension_refused(wish, fields, reason):
    assert reasons_of(ask(**wish), node(1, gpu(11), **fields)) == {reason: 1}


def test_says_that_a_card_is_ill():
    assert reasons_of(ask(), node(1, gpu(11, is_healthy=False))) == {"health": 1}


def test_says_that_the_last_allocation_is_not_released():
    assert reasons_of(ask(is_releasing=True), node(1, gpu(11))) == {"releasing": 1}


def test_counts_nodes_by_dimension():
    nodes = [
        node(1, gpu(11), is_cordoned=True),
        node(2, gpu(21), is_cordoned=True),
        node(3, gpu(31), cpu_milli=0),
        node(4),
    ]

    assert reasons_of(ask(cpu_milli=1), *nodes) == {"cordoned": 2, "model": 1, "cpu": 1}


def test_what_does_not_fit_holds_up_nobody_behind_it():
    decisions = plan([ask(1, count=8), ask(2)], Inventory([node(1, gpu(11))]))

    assert isinstance(decisions[0], Wait)
    assert place_of(decisions[1]) == [(1, 11, 0, 10)]


def test_refusals_are_remembered_by_tenant_for_own_cards():
    cut = gpu(11, taken=0b1, mode="share_tenant", tenant=BOB)

    decisions = plan([share(1, tenant=ANN), share(2, tenant=BOB)], Inventory([node(1, cut)]))

    assert isinstance(decisions[0], Wait)
    assert place_of(decisions[1]) == [(1, 11, 1, 2)]


def test_nothing_is_placed_on_nothing():
    assert reasons_of(ask()) == {}


@pytest.mark.parametrize(
    "shape",
    [
        Shape(mode="share_shared", tenths=4),
        Shape(mode="share_tenant", tenths=11),
        Shape(mode="share_tenant", tenths=1, count=2),
        Shape(count=0),
        Shape(cpu_milli=-1),
    ],
)
def test_impossible_shapes_have_a_fault(shape):
    assert fault_of(shape)


# --- properties

tenants = st.sampled_from([ANN, BOB])
models = st.sampled_from([SMALL, BIG])


@st.composite
def shapes(draw):
    mode = draw(st.sampled_from(["whole", "share_tenant", "share_shared"]))
    few = st.sampled_from([1, 2, 3, 5])
    tenths = {"whole": 10, "share_shared": draw(few)}.get(mode, draw(st.integers(1, 10)))
    return Shape(
        gpu_models=draw(st.sampled_from([(), (SMALL,), (BIG,), (SMALL, BIG)])),
        mode=mode,
        count=draw(st.integers(1, 3)) if mode == "whole" else 1,
        tenths=tenths,
        vram_mib=draw(st.sampled_from([0, 2_400, 8_000, 24_000, 40_000])),
        cpu_milli=draw(st.sampled_from([0, 1_000, 30_000])),
        ram_mib=draw(st.sampled_from([0, 100_000])),
        disk_mib=0,
    )


@st.composite
def asks(draw):
    count = draw(st.integers(1, 12))
    return [
        Ask(
            id=uuid.UUID(int=1_000 + number),
            tenant=draw(tenants),
            shape=draw(shapes()),
            region="r1",
            zone=draw(st.sampled_from([None, None, "z1", "z2"])),
            disk_mib=draw(st.sampled_from([0, 400_000])),
        )
        for number in range(count)
    ]


@st.composite
def fleets(draw):
    """One to three nodes of idle or cut cards."""
    nodes = []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        gpus = []
        for index in range(draw(st.integers(0, 3))):
            model = draw(models)
            taken = draw(st.sampled_from([0, 0, 0b1, 0b1110, 0b1000010001]))
            gpus.append(
                gpu(
                    number * 100 + index,
                    index=index,
                    model=model,
                    nvlink_group=draw(st.sampled_from([None, 0, 1])),
                    is_healthy=draw(st.sampled_from([True, True, True, False])),
                    taken=taken,
                    mode="share_tenant" if taken else None,
                    tenant=draw(tenants) if taken else None,
                    vram_free_mib=model[1] - 1_000 * taken.bit_count(),
                )
            )
        nodes.append(
            node(
                number,
                *gpus,
                zone=draw(st.sampled_from(["z1", "z2"])),
                is_cordoned=draw(st.sampled_from([False, False, False, True])),
                allows_strangers=draw(st.booleans()),
            )
        )
    return nodes


class Ledger:
    """What is left of a fleet, kept in the plainest way: the oracle of the properties."""

    def __init__(self, nodes):
        self.nodes = {n.id: n for n in nodes}
        self.room = {n.id: [n.cpu_milli, n.ram_mib, n.disk_mib] for n in nodes}
        self.cells = {g.id: {c for c in range(10) if g.taken >> c & 1} for g in self.gpus()}
        self.vram = {g.id: g.vram_free_mib for g in self.gpus()}
        self.use = {g.id: (g.mode, g.tenant, None) for g in self.gpus()}

    def gpus(self):
        return [g for n in self.nodes.values() for g in n.gpus]

    def can_hold(self, one, n):
        needs = (one.shape.cpu_milli, one.shape.ram_mib, one.disk_mib)
        return (
            not n.is_cordoned
            and n.is_live
            and n.region == one.region
            and one.zone in (None, n.zone)
            and all(have >= need for have, need in zip(self.room[n.id], needs, strict=True))
        )

    def may_take(self, one, n, g, cells):
        shape = one.shape
        mode, tenant, tile = self.use[g.id]
        if not g.is_healthy or (shape.gpu_models and g.model not in shape.gpu_models):
            return False
        if self.cells[g.id] & set(cells):
            return False
        if shape.mode == "whole":
            return not self.cells[g.id] and g.model[1] >= shape.vram_mib
        if self.vram[g.id] < shape.vram_mib:
            return False
        if shape.mode == "share_shared":
            is_same = mode == "share_shared" and tile == (shape.tenths, shape.vram_mib)
            return n.allows_strangers and cells[0] % shape.tenths == 0 and (mode is None or is_same)
        return mode is None or (mode, tenant) == ("share_tenant", one.tenant)

    def can_place(self, one):
        """Try every node, every set of cards and every position."""
        width = 10 if one.shape.mode == "whole" else one.shape.tenths
        spans = [range(start, start + width) for start in range(10 - width + 1)]
        return any(
            all(g.model == chosen[0].model for g in chosen)
            and all(any(self.may_take(one, n, g, span) for span in spans) for g in chosen)
            for n in self.nodes.values()
            if self.can_hold(one, n)
            for chosen in combinations(n.gpus, one.shape.count)
        )

    def take(self, one, decision):
        n = self.nodes[decision.node]
        assert self.can_hold(one, n)
        assert len({part.gpu for part in decision.parts}) == one.shape.count
        chosen = {g.id: g for g in n.gpus}
        assert len({chosen[part.gpu].model for part in decision.parts}) == 1
        for part in decision.parts:
            cells = range(part.from_cell, part.until_cell)
            assert self.may_take(one, n, chosen[part.gpu], cells)
            assert len(cells) == (10 if one.shape.mode == "whole" else one.shape.tenths)
            self.cells[part.gpu] |= set(cells)
            self.vram[part.gpu] -= part.vram_mib
            assert self.vram[part.gpu] >= 0
            self.use[part.gpu] = (
                one.shape.mode,
                one.tenant,
                (one.shape.tenths, one.shape.vram_mib),
            )
        needs = (one.shape.cpu_milli, one.shape.ram_mib, one.disk_mib)
        self.room[n.id] = [h - need for h, need in zip(self.room[n.id], needs, strict=True)]
        assert min(self.room[n.id]) >= 0


@given(asks(), fleets())
def test_places_exactly_when_brute_force_can_and_sells_nothing_twice(wishes, fleet):
    ledger = Ledger(fleet)

    for one, decision in zip(wishes, plan(wishes, Inventory(fleet)), strict=True):
        assert isinstance(decision, Place) == ledger.can_place(one)
        if isinstance(decision, Place):
            ledger.take(one, decision)
        else:
            assert sum(decision.reasons.values()) == len(fleet)
            assert set(decision.reasons) <= set(DIMENSIONS)


@given(asks(), fleets(), st.randoms())
def test_the_order_of_the_inventory_does_not_matter(wishes, fleet, random):
    shuffled = [n for n in fleet]
    random.shuffle(shuffled)

    assert plan(wishes, Inventory(fleet)) == plan(wishes, Inventory(shuffled))
