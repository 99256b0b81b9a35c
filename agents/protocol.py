"""
What an agent and the gateway say to each other: messages, nothing else. No Django, no clock.

JSON text frames over one WebSocket that the agent dials. Every message names its node (one
connection may speak for several) except ``Welcome``. Unknown fields are ignored, so either side
may be a version ahead; the handshake settles which version is spoken.

Ages are measured by the node's CLOCK_BOOTTIME, in milliseconds before the message was sent.
``sent_ms`` is that clock at the sending (0: not said), by which the gateway sees that a frame was
held up on its way, and by how much its ages have grown.
Source: docs/adr/0003-agent-protocol-and-liveness.md, DESIGN §6 and §7.
"""

from typing import Literal

import msgspec

VERSION = 1
OLDEST_VERSION = 1

Want = Literal["run", "stop", "gone"]
PhaseName = Literal[
    "accepted", "pulling", "starting", "running", "stopping", "exited", "failed", "gone"
]
SliceMode = Literal["whole", "mig", "share_tenant", "share_shared"]

RUNS_PER_USAGE = 500

# Why a phase was reached; "" says that there is nothing to add.
REASONS = {
    "ordered": "stopping, exited: the desired set asked for it",
    "stop_at_tick": "stopping, exited: the run's last tick was reached",
    "replaced": "stopping: a higher incarnation is ordered",
    "guest_exit": "exited: the instance's own process ended, with exit_code",
    "start_failed": "failed: the runtime could not start it; detail says why",
    "start_timeout": "failed: not ready within start_timeout_s",
    "exited_before_ready": "failed: ended before the readiness probe passed, with exit_code",
    "node_restarted": "failed: the node booted anew",
    "container_lost": "failed: the container is not there any more",
    "waits_for_instance": "accepted: another container of this instance is still there",
    "waits_for_slice": "accepted: another container still holds a part of the slice",
    "waits_for_run": "accepted: the run was closed before the start",
    "spool_full": "accepted: the agent cannot write to its disk, so it starts nothing",
}


class Message(msgspec.Struct, tag_field="type", kw_only=True, omit_defaults=True):
    """Base of everything that is sent as one frame."""


# --- what is ordered


class SliceSpec(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A part of one GPU. ``cells``: half-open; tenths for shares, memory slices for MIG."""

    gpu_uuid: str
    mode: SliceMode
    from_cell: int
    until_cell: int
    vram_mib: int


class Port(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    container: int
    name: str = ""


class Mount(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A residence (bytes on this node) seen inside the instance at ``path``."""

    residence: str
    path: str
    read_only: bool = False


class AllocationSpec(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """
    How one instance is run. Written by rental.instances; the scheduler forwards it unread.

    ``grace_s``: between SIGTERM and SIGKILL. ``start_timeout_s``: from the start to readiness.
    Agents of this version take ``exit_policy`` "restart" for "stop". ``password_digest``: what
    crypt(3) makes of the password that opens the instance beside its keys ($7$, scrypt); "" for
    none. It changes live, as the keys do; an agent that does not know it admits keys alone.
    ``reclaim_at``: when its spot place is taken, RFC 3339 in UTC; "" if it is not. It changes live;
    the instance finds it in the file that $TESSERA_NOTICE names.
    """

    instance: str
    name: str
    slug: str
    image: str
    command: list[str] = []
    env: dict[str, str] = {}
    secrets: list[str] = []
    ports: list[Port] = []
    mounts: list[Mount] = []
    ssh_keys: list[str] = []
    password_digest: str = ""
    reclaim_at: str = ""
    cpu_milli: int = 0
    ram_mib: int = 0
    disk_mib: int = 0
    exit_policy: Literal["stop", "restart"] = "stop"
    grace_s: int = 10
    start_timeout_s: int = 300


class Order(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """
    One allocation that the node may hold.

    ``run``: what usage is reported under; None once the run is closed. An order without a run
    starts nothing, and ends nothing that runs.
    ``incarnation`` rises with every start: a lower one is ended, never adopted. One incarnation
    starts once: what exited or failed is reported and left, until a higher one is ordered.
    ``stop_at_tick``: the agent ends the container by itself at that tick, link or no link.
    ``want=gone`` stays listed until the agent has confirmed the wipe.
    ``network``: CIDR of the tenant's private network in this region, given centrally; None from a
    server that gives none.
    """

    allocation: str
    instance: str
    run: str | None
    incarnation: int
    spec_rev: int
    want: Want
    spec: AllocationSpec
    slices: list[SliceSpec] = []
    stop_at_tick: int | None = None
    network: str | None = None


class ResidenceOrder(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Bytes of an instance on this node. ``gone`` stays listed until the wipe is confirmed."""

    residence: str
    instance: str
    kind: Literal["system", "workspace"]
    disk_mib: int
    want: Literal["keep", "gone"]


# --- down: gateway to agent


class Welcome(Message, tag="welcome", kw_only=True):
    """Answer to hello. ``committed``: the highest usage seq of this node that is safely stored."""

    node: str
    version: int
    control_epoch: int
    committed: int
    server_time: str = ""


class Ack(Message, tag="ack", kw_only=True):
    """Usage up to ``seq`` is committed. ``refused``: frames that can never be stored, in words."""

    node: str
    seq: int
    refused: list[str] = []


class PulseAck(Message, tag="pulse_ack", kw_only=True):
    """Given at once, from memory: the lease is not the ack of usage."""

    node: str
    seq: int
    lease_until_age_ms: int = 0


class Desired(Message, tag="desired", kw_only=True):
    """
    Everything that the node may hold. Obeyed only if (control_epoch, node_version) is not lower
    than the last one obeyed. A container that is not named is reported, never ended.
    """

    node: str
    control_epoch: int
    node_version: int
    orders: list[Order] = []
    residences: list[ResidenceOrder] = []


class Refused(Message, tag="refused", kw_only=True):
    """A frame was not understood or not allowed; the link stays."""

    node: str = ""
    code: str
    detail: str


# --- up: agent to gateway


class GpuFact(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    uuid: str
    index: int
    model: str
    memory_mib: int
    serial: str = ""
    numa: int = 0
    nvlink_group: int | None = None
    mig_capable: bool = False
    healthy: bool = True
    health_reason: str = ""


class Facts(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What the node is made of."""

    cpu_milli: int
    ram_mib: int
    disk_mib: int
    gpus: list[GpuFact] = []
    runtime: str = ""
    gpu_driver: str = ""
    agent_version: str = ""
    shared_allowed: bool = False
    kernel: str = ""


class EndpointFact(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """``workspace``: the path under which whoever comes in here finds the workspace."""

    kind: str
    host: str
    port: int
    user: str = ""
    host_key_fingerprint: str = ""
    workspace: str = ""


class Phase(Message, tag="phase", kw_only=True):
    """
    Where an allocation stands, sent at once when it changes, and again: in every hello, and on an
    open link after 5, 10, 20, 40, then every 60 s (``gone`` every 5 s while it is listed), because
    a phase has no ack. A phase of known (incarnation, seq) is old news.

    ``age_ms``: how long ago the phase was reached. ``incarnation`` then ``seq`` order phases;
    ``seq`` is one rising counter per node. ``reason``: one word of ``REASONS``; ``detail``: words
    for people, may be empty.
    """

    node: str
    allocation: str
    instance: str
    incarnation: int
    phase: PhaseName
    seq: int
    run: str | None = None
    age_ms: int = 0
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""
    percent: int | None = None
    endpoints: list[EndpointFact] = []
    spec_rev: int = 0


class Unknown(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A container of ours that no desired set names: quarantined, never ended."""

    allocation: str
    instance: str
    incarnation: int
    run: str | None = None
    alive: bool = True


class ResidenceFact(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    residence: str
    instance: str
    kind: str
    used_bytes: int = 0
    state: Literal["present", "wiped"] = "present"


class Hello(Message, tag="hello", kw_only=True):
    """
    Sent after each connect, once a node, and again when facts, unknown containers or residences
    change. ``seq``: the highest seq of usage this node has used. A residence that is ordered
    ``gone`` and has no bytes is listed as ``wiped`` while it is ordered.
    """

    node: str
    boot: str
    seq: int
    oldest_version: int
    newest_version: int
    control_epoch: int
    node_version: int
    facts: Facts
    sent_ms: int = 0
    phases: list[Phase] = []
    unknown: list[Unknown] = []
    residences: list[ResidenceFact] = []


class Pulse(Message, tag="pulse", kw_only=True):
    """
    I am here; every 3 s. ``seq``: tenths of a second of CLOCK_BOOTTIME, so it rises within a boot,
    also over restarts of the agent.
    """

    node: str
    boot: str
    seq: int
    sent_ms: int = 0


class Stretch(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """
    What the agent saw of a run without a break: ticks [from_tick, until_tick), bytes cumulative
    since the stretch began. Sent again and again as it grows; the server keeps the maximum.
    """

    from_tick: int
    until_tick: int
    net_out: int = 0
    net_in: int = 0


class RunReport(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """
    ``ready_age_ms``: how long before sending the readiness probe passed; None if this boot does
    not know any more. The server sets the run's start from the first one, once.
    """

    run: str
    ready_age_ms: int | None = None
    stretches: list[Stretch] = []


class Usage(Message, tag="usage", kw_only=True):
    """
    Every 30 s with jitter, and at once at hello, start, stop and exit. Holds every run that is
    open or not acked yet, at most ``RUNS_PER_USAGE`` a frame (a replay takes several frames).
    """

    node: str
    boot: str
    seq: int
    sent_ms: int = 0
    runs: list[RunReport] = []


class Sample(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    gpu_uuid: str
    allocation: str = ""
    util_percent: int = 0
    vram_mib: int = 0
    watts: int = 0
    celsius: int = 0


class Samples(Message, tag="samples", kw_only=True):
    """Charts, not money. May be lost."""

    node: str
    age_ms: int = 0
    samples: list[Sample] = []


Up = Hello | Pulse | Phase | Usage | Samples
Down = Welcome | Ack | PulseAck | Desired | Refused
