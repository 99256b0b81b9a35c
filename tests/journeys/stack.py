"""A whole Tessera as processes, for journeys and fault tests: `manage.py up` and our own agents."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg

from tests.journeys.proxy import Relay

ROOT = Path(__file__).resolve().parents[2]
ORACLE = (Path(__file__).parent / "oracle.sh").read_text()
MICRO = 1_000_000
# A simulated card comes with what its offers take, whatever this machine has.
ROOMY = {"cpu_milli": 128_000, "ram_mib": 1_048_576, "disk_mib": 4_194_304}

T = TypeVar("T")


def wait_for(
    what: str, look: Callable[[], T | None], *, seconds: float = 60, every: float = 0.1
) -> T:
    """Return the first truthy answer of ``look``. :raises TimeoutError: in words, after seconds"""
    end = time.monotonic() + seconds
    while True:
        if (seen := look()) is not None and seen is not False:
            return seen
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)


def micro(text: str) -> int:
    return int(Decimal(text) * MICRO)


class Api:
    """One tenant's view of the platform: REST with its key, as a customer would use it."""

    def __init__(self, base: str, key: str) -> None:
        self.http = httpx.Client(
            base_url=base, headers={"Authorization": f"Bearer {key}"}, timeout=30
        )

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any] | None = None, *, key: str | None = None) -> Any:
        answer = self.http.post(
            path, json=body or {}, headers={"Idempotency-Key": key or uuid.uuid4().hex}
        )
        if answer.is_error:
            raise AssertionError(f"POST {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def add_ssh_key(self, public_key: str) -> str:
        return str(self.post("/v1/ssh-keys", {"name": "journey", "public_key": public_key})["id"])

    def order(self, **order: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.post("/v1/instances", order)["data"][0]
        return made

    def instance(self, instance_id: str) -> dict[str, Any]:
        seen: dict[str, Any] = self.get(f"/v1/instances/{instance_id}")
        return seen

    def wait_state(self, instance_id: str, *states: str, seconds: float = 60) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            seen = self.instance(instance_id)
            return seen if seen["state"] in states else None

        try:
            return wait_for(f"{instance_id} to be {states}", look, seconds=seconds)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; it is {self.instance(instance_id)}") from None


@dataclass
class NodeAgent:
    """An agent of our own, with one node, behind a relay that can be cut."""

    name: str
    config: Path
    state_dir: Path
    relay: Relay
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = open(self.state_dir / "agent.log", "ab")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agents", "run", "--config", str(self.config)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env=self.env,
        )

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
        subprocess.run(
            [sys.executable, "-m", "agents", "end-instances", "--config", str(self.config)],
            cwd=ROOT,
            env=self.env,
            check=False,
            capture_output=True,
        )
        self.relay.close()


@dataclass
class Stack:
    state_dir: Path
    demo: bool = False
    extra_env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    agents: list[NodeAgent] = field(default_factory=list)

    def start(self) -> "Stack":
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "DATABASE_POOL"}
            and not name.startswith("PYTEST")
        }
        env |= {"RATE_LIMITS_ENABLED": "false", "WEB_PROCESSES": "1"} | self.extra_env
        command = [sys.executable, "manage.py", "up", "--state-dir", str(self.state_dir)]
        command += ["--port", "0"] + (["--demo"] if self.demo else [])
        self.state_dir.mkdir(parents=True, exist_ok=True)
        log = open(self.state_dir / "up.log", "ab")  # noqa: SIM115
        self.env = env
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_for("the stack to be ready", self._ready, seconds=150, every=0.3)
        except TimeoutError as late:
            tail = (self.state_dir / "up.log").read_text()[-4000:]
            raise TimeoutError(f"{late}\n{tail}") from None
        return self

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            tail = (self.state_dir / "up.log").read_text()[-4000:]
            raise RuntimeError(f"manage.py up ended with {self.process.returncode}\n{tail}")
        with contextlib.suppress(OSError, ValueError):
            return bool(self.state().get("ready"))
        return False

    def state(self) -> dict[str, Any]:
        """What the supervisor wrote down: pids, addresses, urls."""
        found: dict[str, Any] = json.loads((self.state_dir / "state.json").read_text())
        return found

    @property
    def web(self) -> str:
        return str(self.state()["web_url"])

    def api(self, key: str) -> Api:
        return Api(self.web, key)

    def child_env(self) -> dict[str, str]:
        """The environment of the stack's own processes."""
        return self.env | self.state()["env"]

    def manage(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=ROOT,
            env=self.child_env(),
            capture_output=True,
            text=True,
            check=check,
        )

    def world(self, **wish: Any) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.journeys.world"],
            cwd=ROOT,
            env=self.child_env(),
            input=json.dumps(wish),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        made: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return made

    def sql(self, query: str, *args: Any) -> list[tuple[Any, ...]]:
        """Read the truth, as the database's owner."""
        with psycopg.connect(self.state()["owner_url"], autocommit=True) as link:
            cursor = link.execute(query, args or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def add_agent(
        self, name: str, token: str, gpus: list[dict[str, Any]], *, runtime: str = "local"
    ) -> NodeAgent:
        """Enrol one agent with one node of simulated GPUs, dialling through a relay."""
        gateway = int(self.state()["gateway_port"])
        relay = Relay(gateway)
        home = self.state_dir / "journey-agents" / name
        home.mkdir(parents=True, exist_ok=True)
        for folder in (home, home.parent, self.state_dir):
            folder.chmod(0o711)
        (home / "token").write_text(token)
        (home / "gpus.json").write_text(json.dumps({"node": ROOMY, "gpus": gpus}))
        config = home / "agent.toml"
        config.write_text(
            "[server]\n"
            f'url = "ws://127.0.0.1:{relay.port}/agent/v1"\n'
            f'credential_file = "{home}/credential"\n'
            f'state_dir = "{home}/state"\n'
            "[[nodes]]\n"
            f'name = "{name}"\n'
            f'gpus_file = "{home}/gpus.json"\n'
            f'runtime = "{runtime}"\n'
        )
        env = {k: v for k, v in self.env.items() if not k.startswith("DJANGO")}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "agents",
                "enrol",
                "--url",
                f"http://127.0.0.1:{gateway}",
                "--token-file",
                str(home / "token"),
                "--name",
                name,
                "--node",
                name,
                "--credential-out",
                str(home / "credential"),
            ],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"enrol: {done.stdout} {done.stderr}")
        agent = NodeAgent(name, config, home, relay, env)
        agent.start()
        self.agents.append(agent)
        return agent

    def agents_home(self) -> Path:
        """Where the agents keep their instances' disks."""
        return Path(self.state()["shared_dir"])

    def stop(self) -> None:
        for agent in self.agents:
            agent.stop()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)


def state_dir(name: str) -> Path:
    """A folder whose path is short enough for a socket and open enough for an instance's user."""
    made = Path(tempfile.mkdtemp(prefix=f"tsr-{name}-", dir="/tmp"))
    made.chmod(0o711)
    return made


@contextlib.contextmanager
def running_stack(state_dir: Path, **options: Any) -> Iterator[Stack]:
    stack = Stack(state_dir, **options)
    try:
        yield stack.start()
    finally:
        stack.stop()
        if sys.exc_info()[0] is None:  # what broke is looked at
            shutil.rmtree(state_dir, ignore_errors=True)


@dataclass
class SshKey:
    """A key pair made by the real ssh-keygen."""

    path: Path
    public: str

    @classmethod
    def make(cls, folder: Path, name: str) -> "SshKey":
        path = folder / name
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True
        )
        return cls(path, path.with_suffix(".pub").read_text().strip())

    def run(
        self, endpoint: dict[str, Any], command: str, *, seconds: float = 20
    ) -> subprocess.CompletedProcess[str]:
        """Run a command through the OpenSSH client, as the customer's terminal does."""
        return subprocess.run(
            [
                "ssh",
                "-i",
                str(self.path),
                "-p",
                str(endpoint["port"]),
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
                "-o",
                "IdentitiesOnly=yes",
                "-o",
                "BatchMode=yes",
                "-o",
                "LogLevel=ERROR",
                f"{endpoint['user']}@{endpoint['host']}",
                command,
            ],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
