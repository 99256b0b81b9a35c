"""Desired sets on their way to the nodes, by one poll a second that also finds who must leave."""

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from rental.gateway import metrics
from rental.gateway.database import DatabaseClock
from rental.gateway.door import Door
from rental.gateway.lanes import Lane, apply_halving
from rental.gateway.links import CloseCode, Link, Links
from rental.instances.secrets import with_secrets
from scheduler.models import Agent, Node
from scheduler.services.desired import desired_sets, node_versions

PERIOD = 1.0  # s
GATHER = 0.05  # s that a hello waits for others, so that a fleet's return is a few polls

log = structlog.get_logger()


class OrdersLane(Lane):
    """
    Asks for the versions of all connected nodes in one query and sends what rose.

    Nothing else brings an order to a node: a lost hint costs a second, never an order.
    """

    late_after = 5.0

    def __init__(
        self, database: Mapping[str, object], *, links: Links, door: Door, clock: DatabaseClock
    ) -> None:
        super().__init__("orders", database)
        self._links = links
        self._door = door
        self._clock = clock
        self._wanted = threading.Event()
        self.control_epoch = 0

    def wake(self) -> None:
        self._wanted.set()

    def wait_for_work(self) -> bool:
        if self._wanted.wait(PERIOD) and not self._stopping.is_set():
            time.sleep(GATHER)
        self._wanted.clear()
        return not self._stopping.is_set()

    def turn(self) -> None:
        self._clock.ask()
        self._turn_out()
        speakers = self._links.by_node()
        if not speakers:
            return
        versions = node_versions(list(speakers))
        self.control_epoch = max((epoch for epoch, _ in versions.values()), default=0)
        behind = [n for n, version in versions.items() if speakers[n].sent.get(n) != version]
        if behind:
            # A set that cannot be read (a spec of a newer version) must not hold up the others.
            apply_halving(behind, partial(_send_desired, speakers))

    def _turn_out(self) -> None:
        """Close links whose credential has ended, or whose agent lost a node it speaks for."""
        links = self._links.all_open()
        agents = {link.identity.agent_id for link in links}
        digests = dict(
            Agent.objects.filter(id__in=agents, revoked_at=None).values_list("id", "digest")
        )
        owners = dict(Node.objects.filter(agent_id__in=agents).values_list("id", "agent_id"))
        for link in links:
            agent_id = link.identity.agent_id
            is_good = bytes(digests.get(agent_id, b"")) == link.identity.digest and all(
                owners.get(node_id) == agent_id for node_id in link.identity.nodes.values()
            )
            if not is_good and not link.is_closing:
                self._door.forget(link.credential)
                link.close(CloseCode.REVOKED, "this credential is no longer good")
                log.warning("gateway.agent_turned_out", agent=str(agent_id))


def _send_desired(speakers: Mapping[uuid.UUID, Link], node_ids: Sequence[uuid.UUID]) -> None:
    # Here alone do the values of secrets enter a set: no table has them.
    for desired in with_secrets(desired_sets(node_ids)):
        node_id = uuid.UUID(desired.node)
        link = speakers[node_id]
        link.send(desired)
        link.sent[node_id] = (desired.control_epoch, desired.node_version)
        metrics.DESIRED.inc()
