"""
The node's command, installed as ``tessera-agent``.

    run            serve the nodes of a configuration
    enrol          trade an enrolment token for a credential
    observe        print what runs on the nodes, as JSON
    end-instances  end every instance of the nodes; stop the agent first
"""

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from agents.build import build_node, build_runtime, take_state_dir
from agents.clock import SystemClock
from agents.drivers.base import Container, DriverError, NoSuchContainer, Runtime
from agents.files import write_json
from agents.loop import Agent
from agents.net import EnrolmentRefused, enrol, websocket_to
from agents.settings import Config, ConfigError, read_config, read_credential

END_GRACE_S = 15.0
END_POLL_S = 0.05


class JsonLines(logging.Formatter):
    """One event a line: the name, then its fields."""

    PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        fields = {k: v for k, v in vars(record).items() if k not in self.PLAIN}
        event: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=options.log_level.upper(), handlers=[handler])
    logging.getLogger("websockets").setLevel(logging.WARNING)
    try:
        code: int = options.do(options)
    except (ConfigError, EnrolmentRefused, DriverError) as error:
        sys.stderr.write(f"tessera-agent: {error}\n")
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tessera-agent", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"]
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, do in (("run", _run), ("observe", _observe), ("end-instances", _end_instances)):
        command = commands.add_parser(name)
        command.add_argument("--config", type=Path, required=True)
        command.set_defaults(do=do)
    command = commands.add_parser("enrol")
    command.add_argument("--url", required=True, help="the gateway, http(s)://host:port")
    command.add_argument("--token-file", type=Path, required=True)
    command.add_argument("--name", required=True, help="the agent's name")
    command.add_argument("--node", action="append", required=True, dest="nodes")
    command.add_argument("--credential-out", type=Path, required=True)
    command.set_defaults(do=_enrol)
    return parser


def _run(options: argparse.Namespace) -> int:
    config = read_config(options.config)
    credential = read_credential(Path(config.server.credential_file))
    take_state_dir(config)
    clock = SystemClock()

    async def serve() -> None:
        agent = Agent(
            [build_node(config, node, clock) for node in config.nodes],
            connect=websocket_to(config.server.url, credential.credential),
            clock=clock,
            ids=credential.nodes,
        )
        task = asyncio.ensure_future(agent.run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            logging.getLogger("agents").info("agent.leaves")

    asyncio.run(serve())
    return 0


def _enrol(options: argparse.Namespace) -> int:
    try:
        token = options.token_file.read_text().strip()
    except OSError as error:
        raise ConfigError(f"{options.token_file}: {error.strerror}") from error
    answer = enrol(url=options.url, token=token, agent=options.name, nodes=options.nodes)
    nodes = answer.get("nodes")
    write_json(
        options.credential_out,
        {
            "credential": answer["credential"],
            "agent": str(answer.get("agent", "")),
            "nodes": nodes if isinstance(nodes, dict) else {},
        },
    )
    os.chmod(options.credential_out, 0o600)
    return 0


def _observe(options: argparse.Namespace) -> int:
    config = read_config(options.config)
    clock = SystemClock()

    async def look() -> dict[str, Any]:
        return {
            node.name: [
                {
                    "container": c.labels.container,
                    "instance": c.labels.instance,
                    "allocation": c.labels.allocation,
                    "incarnation": c.labels.incarnation,
                    "run": c.labels.run,
                    "state": c.state,
                    "exit_code": c.exit_code,
                }
                for c in await _all(build_runtime(config, node, clock))
            ]
            for node in config.nodes
        }

    sys.stdout.write(json.dumps(asyncio.run(look()), indent=2) + "\n")
    return 0


def _end_instances(options: argparse.Namespace) -> int:
    """The containers' records stay, so that the next agent can report how they ended."""
    config = read_config(options.config)
    clock = SystemClock()

    async def end() -> int:
        ended = await asyncio.gather(
            *(_end_all(build_runtime(config, node, clock)) for node in config.nodes)
        )
        return sum(ended)

    sys.stdout.write(f"{_ends(config, asyncio.run(end()))}\n")
    return 0


def _ends(config: Config, count: int) -> str:
    return f"{count} instances ended under {config.server.state_dir}"


async def _all(runtime: Runtime) -> list[Container]:
    found = []
    for name in await runtime.list_containers():
        try:
            found.append(await runtime.inspect(name))
        except NoSuchContainer:
            continue
    return found


async def _end_all(runtime: Runtime) -> int:
    alive = [c.labels.container for c in await _all(runtime) if c.state == "alive"]
    for name in alive:
        await runtime.terminate(name)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + END_GRACE_S
    while loop.time() < deadline:
        if not any(c.state == "alive" for c in await _all(runtime)):
            return len(alive)
        await asyncio.sleep(END_POLL_S)
    for container in await _all(runtime):
        if container.state == "alive":
            await runtime.kill(container.labels.container)
    return len(alive)


if __name__ == "__main__":
    sys.exit(main())
