"""The fleet as a map: nodes, their cards, and who holds which cells of them since when."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from scheduler.core.kinds import WHOLE
from scheduler.core.mig import MOST_SLICES, builtin_table
from scheduler.core.shapes import CELLS
from scheduler.models import (
    Allocation,
    Gpu,
    GpuHealth,
    GpuModel,
    LivenessStatus,
    Market,
    Node,
    Residence,
    Slice,
    SliceMode,
    Zone,
)

NODES_ON_A_PAGE: Final = 100

STATES: Final[dict[str, Any]] = {
    "free": _("With an idle card"),
    "trouble": _("In trouble"),
    "cordoned": _("Cordoned"),
    "gone": _("Given up"),
}

# A node that is over: silent, cordoned, and nothing is held or kept there. It is no state of the
# schema: declaring it dead makes it so, and it is none any more when it is heard again.
GIVEN_UP: Final = (
    Q(cordoned=True)
    & (Q(liveness=None) | Q(liveness__status=LivenessStatus.LOST))
    & ~Exists(Allocation.objects.held().filter(node=OuterRef("pk")))
    & ~Exists(Residence.objects.filter(node=OuterRef("pk"), wiped_at=None))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What the page's address asks for; empty: everything."""

    region: str = ""
    zone: str = ""
    model: uuid.UUID | None = None  # of a GPU model
    state: str = ""


@dataclass(slots=True, kw_only=True)  # not frozen: there are thousands
class Cell:
    """
    Neighbouring cells of a card in one hand, ``width`` of them; free where ``tenant`` is empty.
    ``mode``, ``market``: how they are held; the mode gives the colour. ``profile``: of MIG.
    """

    width: int
    mode: str = ""
    market: str = ""
    profile: str = ""
    tenant: str = ""
    initials: str = ""
    instance_id: str = ""
    instance: str = ""
    offer: str = ""
    since: str = ""  # in the zone of the deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """
    A GPU. ``cells``: how many it is cut in, tenths or, for MIG, its memory slices; ``taken``: how
    many of them are held.
    """

    gpu: Gpu
    model: str
    parts: list[Cell]
    cells: int
    taken: int

    @property
    def is_well(self) -> bool:
        return bool(self.gpu.health == GpuHealth.HEALTHY)

    def milli_of(self, cells: int) -> int:
        """Return cells of this card as thousandths of a card, in which cards can be added."""
        return cells * WHOLE // self.cells


@dataclass(slots=True, kw_only=True)
class NodeMap:
    node: Node
    status: str  # live, suspect, lost, or "" before the first pulse
    heard_at: datetime | None
    cards: list[Card] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A page of the map. The counts are of the nodes shown; ``given_up`` are hidden."""

    nodes: list[NodeMap]
    given_up: int
    models: list[GpuModel]
    zones: list[Zone]
    is_cut_off: bool

    @property
    def regions(self) -> list[str]:
        return sorted({zone.region_id for zone in self.zones})

    @property
    def cards(self) -> int:
        return sum(len(one.cards) for one in self.nodes)

    @property
    def tenants(self) -> list[tuple[Cell, int]]:
        """Who holds how many tenths of cards here, the greatest first, with a cell for the name."""
        counts: Counter[str] = Counter()
        shown: dict[str, Cell] = {}
        for one in self.nodes:
            for card in one.cards:
                for cell in card.parts:
                    if cell.tenant:
                        counts[cell.tenant] += card.milli_of(cell.width)
                        shown[cell.tenant] = cell
        return [(shown[slug], milli * CELLS // WHOLE) for slug, milli in counts.most_common()]

    @property
    def modes(self) -> list[tuple[str, Any]]:
        """The ways in which something is held here, with their words: what the colours mean."""
        found = {cell.mode for one in self.nodes for card in one.cards for cell in card.parts}
        return [(mode.value, mode.label) for mode in SliceMode if mode in found]

    @property
    def has_spot(self) -> bool:
        parts = (cell for one in self.nodes for card in one.cards for cell in card.parts)
        return any(cell.market == Market.SPOT for cell in parts)

    @property
    def idle_cards(self) -> int:
        """Healthy cards that nobody holds, where something may be placed."""
        open_nodes = (
            one for one in self.nodes if one.status == LivenessStatus.LIVE and not one.node.cordoned
        )
        return sum(1 for one in open_nodes for card in one.cards if card.is_well and not card.taken)

    @property
    def held_milli(self) -> int:
        return sum(card.milli_of(card.taken) for one in self.nodes for card in one.cards)

    @property
    def all_milli(self) -> int:
        return self.cards * WHOLE


def load_fleet(filters: Filters, *, after: str = "") -> Fleet:
    """
    Return the nodes that the filters leave, by name, from ``after`` on. Those that were given up
    are there only if they are asked for.

    Six queries, whatever the fleet: nodes, given up, cards, slices, models, zones.
    """
    nodes = list(_nodes(filters, after=after)[: NODES_ON_A_PAGE + 1])
    shown = nodes[:NODES_ON_A_PAGE]
    maps = {node.id: _empty_map(node) for node in shown}
    gpus = Gpu.objects.filter(node__in=maps).select_related("model").order_by("node_id", "index")
    if filters.model:
        gpus = gpus.filter(model_id=filters.model)
    held = _held(maps)
    for gpu in gpus:
        maps[gpu.node_id].cards.append(_card(gpu, held[gpu.id]))
    return Fleet(
        nodes=list(maps.values()),
        given_up=0 if filters.state == "gone" else Node.objects.filter(GIVEN_UP).count(),
        models=list(GpuModel.objects.filter(active=True).order_by("name", "memory_mib")),
        zones=list(Zone.objects.order_by("region_id", "code")),
        is_cut_off=len(nodes) > NODES_ON_A_PAGE,
    )


def _nodes(filters: Filters, *, after: str) -> "QuerySet[Node]":
    nodes = Node.objects.select_related("zone", "agent", "liveness").order_by("name")
    if after:
        nodes = nodes.filter(name__gt=after)
    if filters.region:
        nodes = nodes.filter(zone__region=filters.region)
    if filters.zone:
        nodes = nodes.filter(zone=filters.zone)
    gpus = Gpu.objects.filter(node=OuterRef("pk"))
    if filters.model:
        nodes = nodes.filter(Exists(gpus.filter(model=filters.model)))
    return _in_state(nodes, gpus, filters.state)


def _in_state(nodes: "QuerySet[Node]", gpus: "QuerySet[Gpu]", state: str) -> "QuerySet[Node]":
    if state == "gone":
        return nodes.filter(GIVEN_UP)
    nodes = nodes.exclude(GIVEN_UP)
    well = gpus.filter(health=GpuHealth.HEALTHY)
    if state == "cordoned":
        return nodes.filter(cordoned=True)
    if state == "free":
        idle = well.exclude(Exists(Slice.objects.filter(gpu=OuterRef("pk"), released_at=None)))
        return nodes.filter(Exists(idle), cordoned=False, liveness__status=LivenessStatus.LIVE)
    if state == "trouble":
        sick = gpus.exclude(health=GpuHealth.HEALTHY)
        return nodes.filter(~Q(liveness__status=LivenessStatus.LIVE) | Exists(sick))
    return nodes


def _empty_map(node: Node) -> NodeMap:
    liveness = getattr(node, "liveness", None)
    return NodeMap(
        node=node,
        status=liveness.status if liveness else "",
        heard_at=liveness.received_at if liveness else None,
    )


def _held(nodes: Iterable[uuid.UUID]) -> defaultdict[uuid.UUID, list[tuple[int, int, Cell]]]:
    """
    Return (from, until, whose) of the cells that are held on the nodes, by GPU.

    In SQL and as texts: 3,200 cells would be as many model instances, UUIDs and moments to build.
    """
    held: defaultdict[uuid.UUID, list[tuple[int, int, Cell]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT s.gpu_id, lower(part), upper(part), t.slug, a.instance_id::text,
                   COALESCE(i.name, ''), COALESCE(i.offer_id, ''), s.mode, r.market, r.profile,
                   to_char(s.created_at AT TIME ZONE %s, 'YYYY-MM-DD HH24:MI')
            FROM scheduler_slice s
            CROSS JOIN LATERAL unnest(s.cells) AS part
            JOIN scheduler_gpu g ON g.id = s.gpu_id
            JOIN scheduler_allocation a ON a.id = s.allocation_id
            JOIN scheduler_request r ON r.id = a.request_id
            JOIN tenants_tenant t ON t.id = s.tenant_id
            LEFT JOIN rental_instance i ON i.id = a.instance_id
            WHERE s.released_at IS NULL AND g.node_id = ANY(%s)
            """,
            [settings.BILLING_TIME_ZONE, list(nodes)],
        )
        for row in cursor.fetchall():
            gpu, begin, end, slug, instance, name, offer, mode, market, profile, since = row
            cell = Cell(
                width=end - begin,
                tenant=slug,
                initials=initials_of(slug),
                mode=mode,
                market=market,
                profile=profile,
                instance_id=instance,
                instance=name,
                offer=offer,
                since=since,
            )
            held[gpu].append((begin, end, cell))
    return held


def initials_of(slug: str) -> str:
    """Return two letters for a narrow cell: "acme-vision" -> "AV", "acme" -> "AC"."""
    first, _dash, rest = slug.partition("-")
    return (first[:1] + rest[:1] if rest else slug[:2]).upper()


def _card(gpu: Gpu, held: list[tuple[int, int, Cell]]) -> Card:
    cells = _memory_slices(gpu) if any(cell.mode == "mig" for *_, cell in held) else CELLS
    parts: list[Cell] = []
    place = 0
    for begin, end, cell in sorted(held, key=lambda part: part[0]):
        if begin > place:
            parts.append(Cell(width=begin - place))
        parts.append(cell)
        place = end
    if place < cells:
        parts.append(Cell(width=cells - place))
    return Card(
        gpu=gpu,
        model=str(gpu.model),
        parts=parts,
        cells=cells,
        taken=sum(end - begin for begin, end, _cell in held),
    )


def _memory_slices(gpu: Gpu) -> int:
    """Return in how many memory slices MIG cuts this card."""
    table = builtin_table(gpu.model.name, gpu.model.memory_mib)
    return table.slices if table else MOST_SLICES
