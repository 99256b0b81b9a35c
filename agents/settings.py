"""
The agent's configuration file and the files that it names.

    [server]
    url = "ws://127.0.0.1:8001/agent/v1"
    credential_file = "credential.json"     # written by `enrol`; mode 0600
    state_dir = "/var/lib/tessera/agent-a"

    [[nodes]]
    name = "node-a"
    gpu_driver = "simulated"
    gpus_file = "gpus-a.toml"
    runtime = "local"                       # or "null"
    ssh_listen = "127.0.0.1"

``url, credential_file, state_dir`` may also stand at the top. Relative paths are relative to the
file. TOML needs Python 3.11 or the package tomli; on 3.10 without it the same tables can be
written as JSON.
"""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec


class ConfigError(Exception):
    """The configuration cannot be used; says which file and why."""


class NodeConfig(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One node that this agent speaks for, by the name that it was enrolled under."""

    name: str
    gpus_file: str
    gpu_driver: Literal["simulated"] = "simulated"
    runtime: Literal["local", "null"] = "local"
    ssh_listen: str = "127.0.0.1"


class ServerConfig(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    url: str
    credential_file: str
    state_dir: str


class Config(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    server: ServerConfig
    nodes: list[NodeConfig]


class Credential(msgspec.Struct, kw_only=True, frozen=True):
    """What enrolment gave. ``nodes``: id by name, if the server said so."""

    credential: str
    agent: str = ""
    nodes: dict[str, str] = {}


def read_table(path: Path) -> Any:
    """:raises ConfigError: if the file is not there, not readable or not TOML (or JSON)"""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        loads: Any = json.loads
    else:
        loads = _toml_loads(path)
    try:
        return loads(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_config(path: Path) -> Config:
    table = read_table(path)
    flat = {k: table.pop(k) for k in ("url", "credential_file", "state_dir") if k in table}
    if flat:
        table["server"] = {**table.get("server", {}), **flat}
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
    if not config.nodes or len({node.name for node in config.nodes}) < len(config.nodes):
        raise ConfigError(f"{path}: nodes need names, each its own")
    base = path.resolve().parent

    def absolute(name: str) -> str:
        return str(base / name)

    return Config(
        server=ServerConfig(
            url=config.server.url,
            credential_file=absolute(config.server.credential_file),
            state_dir=absolute(config.server.state_dir),
        ),
        nodes=[
            msgspec.structs.replace(node, gpus_file=absolute(node.gpus_file))
            for node in config.nodes
        ],
    )


def read_credential(path: Path) -> Credential:
    """Read what ``enrol`` wrote; a file that holds the bare credential will do."""
    try:
        text = path.read_text().strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; enrol the agent first") from error
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=Credential)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path}: {error}") from error
    return Credential(credential=text)


def _toml_loads(path: Path) -> Any:
    try:
        import tomllib  # noqa: PLC0415
    except ModuleNotFoundError:
        try:
            import tomli as tomllib  # type: ignore[import-not-found, no-redef]  # noqa: PLC0415
        except ModuleNotFoundError:
            raise ConfigError(
                f"{path}: this Python reads no TOML; write the same tables as JSON"
            ) from None
    return tomllib.loads
