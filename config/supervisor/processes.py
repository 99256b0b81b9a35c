"""The table of processes: what is started, in which order, how it is known to be well."""

import signal
import time
from collections.abc import Callable

from config.embedded.postgres import Postgres
from config.env import env_int
from config.supervisor.deployment import ROOT, Deployment, python
from config.supervisor.loop import Process
from config.supervisor.probes import exists, fresh, touched_within

# A worker that did no task for this long hears nothing: the beat has work for it every 2 to 10 s.
# Long passes of `slow` run beside each other, so one of them does not stop its file.
DEAF_AFTER = 120.0
STUCK_AFTER = 30.0  # s without a turn of a web server's event loop
ORPHANS_MAY_TAKE = 5.0


def servers(deployment: Deployment) -> list[Process]:
    """PostgreSQL and Valkey, unless they are somebody else's."""
    table = []
    if (cluster := deployment.postgres) is not None:
        table.append(
            Process(
                name="postgres",
                command=cluster.command(),
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                as_user=deployment.places.as_user(),
                prepare=_no_orphans(cluster),
                ready=cluster.answers,
                ready_seconds=600.0,  # recovery after a crash reads the whole log
                stop_with=signal.SIGINT,  # "fast": ends sessions, then writes everything down
                stop_seconds=30.0,
                dies_by=signal.SIGINT,
            )
        )
    if (valkey := deployment.valkey) is not None:
        table.append(
            Process(
                name="valkey",
                command=valkey.command(),
                env={"PATH": "/usr/bin:/bin"},
                as_user=deployment.places.as_user(),
                ready=valkey.answers,
                healthy=valkey.answers,
                sick_seconds=30.0,
            )
        )
    return table


def applications(deployment: Deployment) -> list[Process]:
    return [
        *_web(deployment),
        _web_server(deployment, "gateway", "gateway", deployment.gateway.fileno()),
        # One task at a time, in the process itself: place and sync are short and take turns anyway.
        _celery(deployment, "drive", "worker", "-Q", "drive", "-P", "solo"),
        # Two threads: the closing of exhausted wallets does not wait for an hour's settlement.
        _celery(deployment, "slow", "worker", "-Q", "slow", "-P", "threads", "-c", "2"),
        _celery(deployment, "beat", "beat", "-s", str(deployment.alive / "beat-schedule")),
    ]


def migration(deployment: Deployment) -> Process:
    """Bring the schema up to date, as its owner. The only process that has the owner's password."""
    return Process(
        name="migrate",
        command=python("-m", "config.supervisor.commands", "migrate --no-input", "grant_roles"),
        env=deployment.server_env(DATABASE_URL=deployment.urls.owner),
        cwd=str(ROOT),
    )


def seeding(deployment: Deployment, agents_to_enrol: int) -> Process:
    commands = ["seed_catalog"]
    if deployment.demo:
        commands.append(f"seed_demo --file {deployment.demo_file} --tokens {agents_to_enrol}")
    return Process(
        name="seed",
        command=python("-m", "config.supervisor.commands", *commands),
        env=deployment.server_env(),
        cwd=str(ROOT),
    )


def _web(deployment: Deployment) -> list[Process]:
    """Return the processes that serve pages, all behind one socket: "web", "web-2"…"""
    names = [
        "web",
        *(f"web-{number}" for number in range(2, env_int("WEB_PROCESSES", 3, minimum=1) + 1)),
    ]
    return [_web_server(deployment, name, "web", deployment.web.fileno()) for name in names]


def _web_server(deployment: Deployment, name: str, application: str, fd: int) -> Process:
    alive = deployment.alive / name
    return Process(
        name=name,
        command=python("-m", "config.serve", application, "--fd", str(fd)),
        env=deployment.server_env(DATABASE_POOL="1", ALIVE_FILE=str(alive)),
        cwd=str(ROOT),
        pass_fds=(fd,),
        prepare=fresh(alive),
        ready=exists(alive),
        healthy=touched_within(alive, STUCK_AFTER),
    )


def _celery(deployment: Deployment, name: str, kind: str, *arguments: str) -> Process:
    alive = deployment.alive / name
    command = python("-m", "celery", "-A", "config.celery", kind, *arguments)
    if kind == "worker":
        name = f"worker-{name}"
        command += ["-n", f"{name}@tessera", "--without-gossip", "--without-mingle"]
        command += ["--without-heartbeat"]
    else:
        command += ["--pidfile="]
    return Process(
        name=name,
        command=command,
        env=deployment.server_env(ALIVE_FILE=str(alive)),
        cwd=str(ROOT),
        prepare=fresh(alive),
        ready=exists(alive),
        healthy=touched_within(alive, DEAF_AFTER),
    )


def _no_orphans(cluster: Postgres) -> Callable[[], bool]:
    """Return a preparation that waits for what a killed postmaster left, then ends it."""
    waiting_since: list[float] = []

    def prepare() -> bool:
        if cluster.clear_stale():
            waiting_since.clear()
            return True
        if not waiting_since:
            waiting_since.append(time.monotonic())
        elif time.monotonic() - waiting_since[0] > ORPHANS_MAY_TAKE:
            cluster.end_orphans()
        return False

    return prepare
