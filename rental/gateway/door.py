"""Who may come in: enrolment and the credentials of agents, asked of PostgreSQL by one thread."""

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection

from rental.gateway.database import DatabaseClock, use_own_connection
from rental.gateway.links import Identity
from scheduler.models import ControlPlane, Node
from scheduler.services.enrolment import authenticate_agent

# An answer serves this long unasked. A reconnecting fleet asks once per agent, not once per try.
FRESH = 3.0  # s; with the second between two polls of revocations this stays below 5 s
# After a failure nobody waits for another time-out of connect.
SULK = 1.0  # s

log = structlog.get_logger()
Answer = TypeVar("Answer")


class DoorStuck(Exception):
    """PostgreSQL cannot be asked, and this credential has not been seen by this process."""


class Door:
    """
    Authenticates agents, and remembers whom it let in.

    While PostgreSQL is away an agent that was let in before is let in again: its pulses must be
    answered or its guards end work (DESIGN §3, rule 7). If it was revoked meanwhile, the first
    poll after the outage closes its link.
    """

    def __init__(self, database: Mapping[str, object], *, clock: DatabaseClock) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(
            1, "gateway-door", initializer=use_own_connection, initargs=("gateway-door", database)
        )
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Identity, float]] = {}
        self._failed_at = float("-inf")

    async def authenticate(self, credential: str) -> Identity | None:
        """
        Return whose ``credential`` this is; None if nobody's, or revoked.

        :raises DoorStuck: if that cannot be known now
        """
        digest = digest_of(credential)
        with self._lock:
            known, asked_at = self._known.get(digest, (None, float("-inf")))
        if known is not None and time.monotonic() - asked_at < FRESH:
            return known
        try:
            identity = await self.ask(lambda: self._identify(credential))
        except DoorStuck:
            if known is None:
                raise
            return known
        with self._lock:
            if identity is None:
                self._known.pop(digest, None)
            else:
                self._known[digest] = (identity, time.monotonic())
        return identity

    def forget(self, digest: str) -> None:
        """Have the credential asked for again before it opens the door."""
        with self._lock:
            self._known.pop(digest, None)

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        """
        Run ``question`` in the door's thread, one at a time.

        :raises DoorStuck: if PostgreSQL is away
        """
        if time.monotonic() - self._failed_at < SULK:
            raise DoorStuck
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._ask_now, question
        )

    def _ask_now(self, question: Callable[[], Answer]) -> Answer:
        for attempt in range(2):
            if time.monotonic() - self._failed_at < SULK:
                break
            try:
                return question()
            except (OperationalError, InterfaceError) as error:
                # The kept connection may have died in an outage that is over: try one new one.
                connection.close()
                if attempt:
                    self._failed_at = time.monotonic()
                    log.warning("gateway.door_stuck", error=str(error))
        raise DoorStuck

    def stop(self) -> None:
        # Not ``submit(connection.close)``: that would look up the calling thread's connection.
        self._thread.submit(lambda: connection.close())
        self._thread.shutdown(wait=True)

    def _identify(self, credential: str) -> Identity | None:
        agent = authenticate_agent(credential)
        if agent is None:
            return None
        self._clock.ask()
        node_ids = Node.objects.filter(agent_id=agent.id).values_list("id", flat=True)
        return Identity(
            agent_id=agent.id,
            digest=bytes(agent.digest),
            nodes={str(node_id): node_id for node_id in node_ids},
            control_epoch=ControlPlane.load().control_epoch,
        )


def digest_of(credential: str) -> str:
    """Return what stands for a credential in memory: the secret itself is not kept."""
    return hashlib.sha256(credential.encode()).hexdigest()
