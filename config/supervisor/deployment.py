"""What one deployment of `manage.py up` consists of: its places, servers, sockets, environment."""

import hashlib
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from config.embedded.places import Places, choose
from config.embedded.postgres import APP, OWNER, READER, Postgres, open_cluster
from config.embedded.valkey import Valkey, free_port, open_valkey
from config.supervisor.secrets_file import Secrets, load_or_make
from config.supervisor.state import read_state

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_PORT = 8000
# Nothing of the server's belongs into an agent's environment.
SERVERS_OWN = (
    "DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "SECRET_KEY", "SECRETS_KEY",
    "SECRETS_KEY_FILE", "DJANGO_SETTINGS_MODULE",
)  # fmt: skip

# What a first look needs and a deployment decides for itself; the environment wins.
DEMOS_OWN = {
    "SIGNUP_ENABLED": "true",
    "SIGNUP_VERIFICATION": "none",
    "SIGNUP_TRIAL_CREDIT": "20.00",
    "STAFF_MFA_REQUIRED": "false",
}


@dataclass(frozen=True)
class Urls:
    """Of the database (one a role) and of Valkey."""

    app: str
    owner: str
    reader: str
    redis: str


@dataclass(frozen=True)
class Deployment:
    """``postgres`` and ``valkey`` are None where DATABASE_URL and REDIS_URL name servers."""

    state: Path
    places: Places
    secrets: Secrets
    postgres: Postgres | None
    valkey: Valkey | None
    urls: Urls
    web: socket.socket
    gateway: socket.socket
    demo: bool

    @property
    def logs(self) -> Path:
        return self.state / "log"

    @property
    def alive(self) -> Path:
        """Folder of the files that processes touch."""
        return self.state / "alive"

    @property
    def demo_file(self) -> Path:
        return self.state / "demo.json"

    @property
    def agents_dir(self) -> Path:
        """Instances run as unprivileged users below it, so it is not always inside ``state``."""
        return self.places.shared / "agents"

    @property
    def web_port(self) -> int:
        return port_of(self.web)

    @property
    def gateway_port(self) -> int:
        return port_of(self.gateway)

    @property
    def shared_env(self) -> dict[str, str]:
        """What a process of ours needs beside the machine's environment (``State.env``)."""
        return {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": self.urls.app,
            "REDIS_URL": self.urls.redis,
            "SECRET_KEY": self.secrets.secret_key,
            # Servers that are shared with other machines need one key: the operator's.
            "SECRETS_KEY": os.environ.get("SECRETS_KEY") or self.secrets.secrets_key,
            "GATEWAY_URL": os.environ.get("GATEWAY_URL") or f"http://127.0.0.1:{self.gateway_port}",
        }

    def server_env(self, **more: str) -> dict[str, str]:
        env = dict(DEMOS_OWN) if self.demo else {}
        env |= {name: value for name, value in os.environ.items() if name != "DATABASE_OWNER_URL"}
        # Threads of glibc each keep an arena; two are enough and save tens of MiB a process.
        env |= {"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}
        return env | self.shared_env | more

    def agent_env(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name not in SERVERS_OWN}
        return env | {"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}


def fingerprint() -> str:
    """Return a digest of everything that decides what migration and seed do."""
    digest = hashlib.sha256()
    for room in ("config", "rental", "billing", "scheduler"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in {".py", ".toml"}:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    digest.update((ROOT / "requirements/server.lock").read_bytes())
    return digest.hexdigest()


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def prepare(state: Path, *, port: int | None, demo: bool) -> Deployment:
    """
    Decide everything that is decided before the first start, and make the folders.

    :param port: of the web server; 0 for any free one, None for 8000 or the next free one
    """
    places = choose(state)
    for name in ("log", "alive"):
        (places.state / name).mkdir(mode=0o700, exist_ok=True)
    secrets = load_or_make(places.state / "secrets.json")
    postgres = valkey = None
    given = os.environ
    if "DATABASE_URL" not in given:
        postgres = open_cluster(places, secrets.passwords)
    if "REDIS_URL" not in given:
        valkey = open_valkey(places, password=secrets.valkey, port=free_port())
    return Deployment(
        state=places.state,
        places=places,
        secrets=secrets,
        postgres=postgres,
        valkey=valkey,
        urls=_urls(given, postgres, valkey),
        web=_listen_web(port),
        gateway=_listen_gateway(places.state),
        demo=demo,
    )


def _urls(given: Mapping[str, str], postgres: Postgres | None, valkey: Valkey | None) -> Urls:
    redis = given["REDIS_URL"] if valkey is None else valkey.url
    if postgres is not None:
        return Urls(postgres.url(APP), postgres.url(OWNER), postgres.url(READER), redis)
    app = given["DATABASE_URL"]
    return Urls(app, given.get("DATABASE_OWNER_URL", app), app, redis)


def _listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=1024)


def _listen_web(port: int | None) -> socket.socket:
    wanted = [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + 20)
    for candidate in wanted:
        try:
            return _listen(candidate)
        except OSError as error:
            reason = error.strerror
    raise SystemExit(f"port {port or DEFAULT_PORT} of 127.0.0.1 cannot be used: {reason}")


def _listen_gateway(state: Path) -> socket.socket:
    """Take the port of last time if it is free: agents keep their server's address."""
    try:
        return _listen(read_state(state).gateway_port)
    except (OSError, ValueError):  # no state yet (FileNotFoundError is an OSError), or taken
        return _listen(0)
