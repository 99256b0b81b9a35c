"""``state.json``: what runs where, for tools and tests that need a pid, a port or a URL."""

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class State:
    """
    ``env``: what a process of ours needs to join in (DATABASE_URL of the app role, REDIS_URL,
    SECRET_KEY…). The file holds passwords, so its mode is 0600.

    ``ready`` turns true once everything that ``up`` starts has answered, and false as it ends.
    """

    supervisor: int = 0
    ready: bool = False
    started_at: str = ""
    web_url: str = ""
    web_port: int = 0
    gateway_url: str = ""
    gateway_port: int = 0
    owner_url: str = ""
    reader_url: str = ""
    shared_dir: str = ""
    demo_file: str = ""
    env: dict[str, str] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)

    def pid(self, name: str) -> int:
        """:raises KeyError: if no such process runs now"""
        return self.pids[name]


def read_state(path: Path) -> State:
    """
    Read ``state.json``; ``path`` may also be the folder that holds it. Unknown fields are ignored.

    :raises FileNotFoundError: if nothing was ever started there
    """
    file = path / "state.json" if path.is_dir() else path
    known = {name: value for name, value in _load(file).items() if name in State.__annotations__}
    return State(**known)


def write_state(path: Path, state: State) -> None:
    """Replace the file in one step: a reader never sees half of it."""
    write_private(path, json.dumps(asdict(state), indent=1) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner may read."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
        Path(aside).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(aside).unlink()
        raise


def _load(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content
