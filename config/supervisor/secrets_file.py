"""Secrets of an embedded deployment: made once, kept in ``secrets.json`` (mode 0600)."""

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from config.embedded.postgres import Passwords
from config.supervisor.state import write_private


@dataclass(frozen=True)
class Secrets:
    secret_key: str
    valkey: str
    superuser: str
    owner: str
    app: str
    reader: str

    @property
    def passwords(self) -> Passwords:
        return Passwords(self.superuser, self.owner, self.app, self.reader)


def load_or_make(path: Path) -> Secrets:
    """Return the deployment's secrets. They belong to its data: without them it cannot log in."""
    if path.exists():
        return Secrets(**json.loads(path.read_text()))
    made = Secrets(*(secrets.token_urlsafe(32) for _ in range(6)))
    write_private(path, json.dumps(asdict(made), indent=1) + "\n")
    return made
