"""Small files that survive a crash: written aside, synced, renamed."""

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        # A disk that fills up takes a part and says so only at the next write.
        while content:
            content = content[os.write(handle, content) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(aside, path)


def write_json(path: Path, content: Any, *, mode: int = 0o600) -> None:
    write_atomically(path, json.dumps(content, sort_keys=True).encode(), mode=mode)


def read_json(path: Path) -> Any | None:
    """Return what the file holds, or None if it is not there or not whole."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
