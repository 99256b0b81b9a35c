"""Secrets of an embedded deployment: made once, kept in ``secrets.json`` (mode 0600)."""

import base64
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from config.embedded.postgres import Passwords
from config.supervisor.state import write_private

PASSWORDS = ("secret_key", "valkey", "superuser", "owner", "app", "reader")


@dataclass(frozen=True)
class Secrets:
    secret_key: str
    valkey: str
    superuser: str
    owner: str
    app: str
    reader: str
    secrets_key: str

    @property
    def passwords(self) -> Passwords:
        return Passwords(self.superuser, self.owner, self.app, self.reader)


def load_or_make(path: Path) -> Secrets:
    """
    Return the deployment's secrets. They belong to its data: without them it cannot log in, nor
    open what tenants gave it to keep. A file of before there was a key for that gets one.
    """
    kept = json.loads(path.read_text()) if path.exists() else {}
    if "secrets_key" in kept:
        return Secrets(**kept)
    kept = kept or dict(zip(PASSWORDS, (secrets.token_urlsafe(32) for _ in PASSWORDS), strict=True))
    made = Secrets(**kept, secrets_key=base64.b64encode(secrets.token_bytes(32)).decode())
    write_private(path, json.dumps(asdict(made), indent=1) + "\n")
    return made
