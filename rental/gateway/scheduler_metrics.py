"""
The scheduler's gauges, for Prometheus: read from rows when they are asked for.

Workers place, and any number of them; what they would count apart is in the database already. Every
gateway gives the same numbers, so queries over several take ``max``, never ``sum``.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.gauges import Gauges, NodeLine

P: Final = "tessera_scheduler_"


class _Numbers(Collector):
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._of_the_queue()
        yield self._of_nodes()
        yield from self._of_cards()

    def _of_the_queue(self) -> Iterator[GaugeMetricFamily]:
        waiting = GaugeMetricFamily(
            f"{P}waiting",
            "Requests that wait, by what refuses most nodes",
            labels=["region", "market", "reason"],
        )
        oldest: defaultdict[tuple[str, str], int] = defaultdict(int)
        for one in self._gauges.waiting:
            waiting.add_metric([one.region, one.market, one.reason], one.requests)
            key = one.region, one.market
            oldest[key] = max(oldest[key], one.oldest_s)
        yield waiting
        longest = GaugeMetricFamily(
            f"{P}oldest_wait_seconds",
            "How long the oldest of the requests has waited",
            labels=["region", "market"],
        )
        for (region, market), seconds in oldest.items():
            longest.add_metric([region, market], seconds)
        yield longest

    def _of_nodes(self) -> GaugeMetricFamily:
        nodes = GaugeMetricFamily(
            f"{P}nodes", "Nodes by what is heard of them", labels=["region", "status", "cordoned"]
        )
        for one in self._gauges.nodes:
            nodes.add_metric([one.region, one.status, _yes(one)], one.nodes)
        return nodes

    def _of_cards(self) -> Iterator[GaugeMetricFamily]:
        cards = GaugeMetricFamily(
            f"{P}cards", "Cards, each in one state", labels=["region", "model", "state"]
        )
        sold = GaugeMetricFamily(
            f"{P}sold_milli", "Thousandths of cards that are held", labels=["region", "model"]
        )
        free = GaugeMetricFamily(
            f"{P}free_milli",
            "Thousandths of cards that could be placed on: of idle cards, of cards partly sold",
            labels=["region", "model", "state"],
        )
        held: defaultdict[tuple[str, str], int] = defaultdict(int)
        for one in self._gauges.cards:
            cards.add_metric([one.region, one.model, one.state], one.cards)
            held[one.region, one.model] += one.sold_milli
            if one.state in ("idle", "part"):
                free.add_metric([one.region, one.model, one.state], one.free_milli)
        for (region, model), milli in held.items():
            sold.add_metric([region, model], milli)
        yield from (cards, sold, free)


def _yes(one: NodeLine) -> str:
    return "true" if one.cordoned else "false"


def in_text(gauges: Gauges) -> bytes:
    """Return the gauges in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Numbers(gauges))
    return generate_latest(registry)
