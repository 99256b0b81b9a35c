"""From a configuration to nodes with their drivers and state directories."""

import fcntl
import os
from pathlib import Path

from agents.clock import Clock
from agents.drivers.base import Runtime
from agents.drivers.local.runtime import LocalRuntime
from agents.drivers.null import NullRuntime
from agents.drivers.simulated import Faults, HangingRuntime, SimulatedGpus
from agents.node import Node
from agents.pace import Pace
from agents.settings import Config, ConfigError, NodeConfig
from agents.spool import Spool


def state_of(config: Config, node: NodeConfig) -> Path:
    if not node.name or "/" in node.name or node.name.startswith("."):
        raise ConfigError(f"{node.name!r} cannot be a node's name")
    return Path(config.server.state_dir) / node.name


def build_runtime(config: Config, node: NodeConfig, clock: Clock) -> Runtime:
    state = state_of(config, node)
    # Instances pass through here to their own folders, unprivileged.
    for folder in (state.parent, state):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
    if node.runtime == "local":
        return LocalRuntime(state / "local", clock, listen=node.ssh_listen)
    return NullRuntime(state / "null.json", clock)


def build_node(config: Config, node: NodeConfig, clock: Clock, pace: Pace | None = None) -> Node:
    runtime = build_runtime(config, node, clock)
    path = Path(node.gpus_file)
    return Node(
        name=node.name,
        runtime=HangingRuntime(runtime, Faults(path)),
        gpus=SimulatedGpus(path),
        spool=Spool(state_of(config, node) / "spool.sqlite"),
        clock=clock,
        pace=pace,
    )


def take_state_dir(config: Config) -> int:
    """
    Keep a second agent off the same state; the handle is held until the process ends.

    :raises ConfigError: if another agent has it
    """
    folder = Path(config.server.state_dir)
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ConfigError(f"{folder}: another agent uses this state_dir") from None
    return handle
