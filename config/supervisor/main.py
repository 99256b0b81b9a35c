"""The command line of `manage.py up`."""

import argparse
import fcntl
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from config.embedded.postgres import describe
from config.supervisor import demo as demo_part
from config.supervisor import processes
from config.supervisor.deployment import DEFAULT_PORT, ROOT, Deployment, fingerprint, prepare
from config.supervisor.loop import StartFailed, Stopped, Supervisor
from config.supervisor.state import State, write_state


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="manage.py up", description="Run Tessera on this machine, with all it needs."
    )
    parser.add_argument("--demo", action="store_true", help="seed logins, money and two agents")
    parser.add_argument("--once", action="store_true", help="start, check each, stop: a smoke test")
    parser.add_argument(
        "--port", type=int, help=f"of the web server; 0: any free one (default {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--state-dir", type=Path, default=ROOT / "var", help="where everything is kept (var/)"
    )
    chosen = parser.parse_args(arguments)
    os.umask(0o022)
    begun = time.monotonic()
    with _only_one(chosen.state_dir):
        deployment = prepare(chosen.state_dir, port=chosen.port, demo=chosen.demo)
        return Up(deployment, begun=begun, once=chosen.once).run()


class Up:
    """One run of the deployment, from the first line to the last process."""

    def __init__(self, deployment: Deployment, *, begun: float, once: bool) -> None:
        self.deployment = deployment
        self.begun = begun
        self.once = once
        self.state = State(
            supervisor=os.getpid(),
            started_at=datetime.now(UTC).isoformat(),
            web_url=f"http://127.0.0.1:{deployment.web_port}",
            web_port=deployment.web_port,
            gateway_url=f"http://127.0.0.1:{deployment.gateway_port}",
            gateway_port=deployment.gateway_port,
            owner_url=deployment.urls.owner,
            reader_url=deployment.urls.reader,
            shared_dir=str(deployment.places.shared),
            demo_file=str(deployment.demo_file) if deployment.demo else "",
            env=deployment.shared_env,
        )
        self.supervisor = Supervisor(deployment.logs, self.say, self.write_state)

    def say(self, line: str) -> None:
        print(f"{time.monotonic() - self.begun:6.1f} s  {line}", flush=True)

    def write_state(self) -> None:
        self.state.pids = self.supervisor.pids()
        self.state.restarts = self.supervisor.restarts()
        write_state(self.deployment.state / "state.json", self.state)

    def run(self) -> int:
        code = 0
        try:
            self.start()
            self.state.ready = True
            self.write_state()
            for line in demo_part.closing_lines(
                self.deployment, seconds=time.monotonic() - self.begun
            ):
                print(line, flush=True)
            if self.once:
                code = self.check()
            else:
                self.supervisor.run()
        except Stopped:
            pass
        except StartFailed as failure:
            print(failure, file=sys.stderr, flush=True)
            code = 1
        finally:
            self.stop()
        return code

    def start(self) -> None:
        deployment, supervisor = self.deployment, self.supervisor
        self.start_servers()
        applications = processes.applications(deployment)
        names = [process.name for process in applications]
        if self.is_prepared():
            supervisor.add(*applications)
        else:
            self.say("schema …")
            supervisor.run_once(processes.migration(deployment))
            supervisor.add(*applications)  # they load while the seed runs
            self.seed()
        self.say(f"{', '.join(names)} …")
        supervisor.wait_ready(*names)
        if deployment.demo:
            self.start_agents()

    def is_prepared(self) -> bool:
        """
        Tell whether migration and seed have been done by exactly this source. The answer stands
        in the database itself, so that another or an older one is prepared again.
        """
        cluster, demo = self.deployment.postgres, self.deployment.demo
        if cluster is None or (demo and demo_part.not_enrolled(self.deployment)):
            return False
        return cluster.read_note() == self.note() and (
            not demo or self.deployment.demo_file.exists()
        )

    def note(self) -> str:
        return f"prepared{' with demo' if self.deployment.demo else ''} by {fingerprint()}"

    def seed(self) -> None:
        demo, cluster = self.deployment.demo, self.deployment.postgres
        self.say("catalogue and demo …" if demo else "catalogue …")
        waiting = len(demo_part.not_enrolled(self.deployment)) if demo else 0
        self.supervisor.run_once(processes.seeding(self.deployment, waiting))
        if cluster is not None:
            cluster.write_note(self.note())

    def start_servers(self) -> None:
        cluster, valkey = self.deployment.postgres, self.deployment.valkey
        if cluster is not None:
            self.say(f"{describe(cluster)} …")
            cluster.make()
        if valkey is not None:
            valkey.make()
        servers = processes.servers(self.deployment)
        self.supervisor.add(*servers)
        self.supervisor.wait_ready(*(process.name for process in servers))
        if cluster is not None:
            cluster.make_roles()

    def start_agents(self) -> None:
        deployment, supervisor = self.deployment, self.supervisor
        demo_part.write_configuration(deployment)
        tokens = demo_part.read_seeded(deployment).get("tokens", [])
        for enrolment in demo_part.enrolments(deployment, tokens):
            supervisor.run_once(enrolment)
        agents = demo_part.agents(deployment)
        names = [process.name for process in agents]
        self.say(f"{', '.join(names)} …")
        supervisor.add(*agents)
        supervisor.wait_ready(*names)

    def check(self) -> int:
        """Ask each process once whether it is well; the answer of `--once`."""
        sick = [c.process.name for c in self.supervisor.children if not c.process.healthy()]
        dead = [name for name, count in self.supervisor.restarts().items() if count]
        for name in sorted({*sick, *dead}):
            self.say(f"{name} is not well")
        if not sick and not dead:
            self.say(f"all well: {', '.join(self.supervisor.pids())}")
        return 1 if sick or dead else 0

    def stop(self) -> None:
        """End from the outside in: nodes, then what serves, then what stores."""
        self.state.ready = False
        self.say("ending …")
        agents = set(demo_part.NODES)
        stores = {"postgres", "valkey"}
        names = [child.process.name for child in self.supervisor.children]
        self.supervisor.stop(*(name for name in names if name in agents))
        if self.deployment.demo:
            demo_part.end_instances(self.deployment)
        self.supervisor.stop(*(name for name in names if name not in agents | stores))
        self.supervisor.stop(*(name for name in names if name in stores))
        self.say("ended")


class _only_one:  # noqa: N801  # reads as a statement: with _only_one(folder)
    """Hold the folder's lock: two supervisors over the same data would fight."""

    def __init__(self, state: Path) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self._path = state / "up.lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> None:
        self._file = self._path.open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(
                f"`manage.py up` already runs over {self._path.parent}; end it first"
            ) from None

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
