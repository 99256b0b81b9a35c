"""The demo: two agents with simulated GPUs on this machine, and the lines to begin with."""

import getpass
import json
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.supervisor.deployment import ROOT, Deployment, python
from config.supervisor.loop import Process
from config.supervisor.state import write_private

# name -> (GPU model, memory in MiB, count); one of each of the offers that people try first.
NODES: dict[str, tuple[str, int, int]] = {
    "agent-1": ("A100", 81920, 2),
    "agent-2": ("RTX 4090", 24576, 4),
}


@dataclass(frozen=True)
class DemoAgent:
    name: str
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "agent.toml"

    @property
    def credential(self) -> Path:
        return self.folder / "credential"

    @property
    def token(self) -> Path:
        return self.folder / "token"


def demo_agents(deployment: Deployment) -> list[DemoAgent]:
    return [DemoAgent(name, deployment.agents_dir / name) for name in NODES]


def not_enrolled(deployment: Deployment) -> list[DemoAgent]:
    return [agent for agent in demo_agents(deployment) if not agent.credential.exists()]


def write_configuration(deployment: Deployment) -> None:
    """Write what the agents read. Anew at each start: the gateway's port may have changed."""
    # Passable for the users to whom instances drop, listable for nobody.
    for folder in (deployment.agents_dir, *(a.folder for a in demo_agents(deployment))):
        folder.mkdir(mode=0o711, exist_ok=True)
        folder.chmod(0o711)
    for agent in demo_agents(deployment):
        write_private(agent.folder / "gpus.json", json.dumps(_gpus(agent.name), indent=1))
        write_private(
            agent.config,
            "[server]\n"
            f'url = "ws://127.0.0.1:{deployment.gateway_port}/agent/v1"\n'
            'credential_file = "credential"\n'
            'state_dir = "state"\n'
            "\n[[nodes]]\n"
            f'name = "{agent.name.replace("agent", "node")}"\n'
            'gpu_driver = "simulated"\n'
            'gpus_file = "gpus.json"\n'
            'runtime = "local"\n'
            'ssh_listen = "127.0.0.1"\n',
        )


def enrolments(deployment: Deployment, tokens: list[str]) -> list[Process]:
    """Return the one-time processes that turn a token into an agent's credential."""
    table = []
    for agent, token in zip(not_enrolled(deployment), tokens, strict=False):
        write_private(agent.token, token + "\n")
        table.append(
            Process(
                name=f"enrol-{agent.name}",
                command=python(
                    "-m", "agents", "enrol",
                    "--url", f"http://127.0.0.1:{deployment.gateway_port}",
                    "--token-file", str(agent.token),
                    "--name", agent.name,
                    "--node", agent.name.replace("agent", "node"),
                    "--credential-out", str(agent.credential),
                ),
                env=deployment.agent_env(),
                cwd=str(ROOT),
            )
        )  # fmt: skip
    return table


def agents(deployment: Deployment) -> list[Process]:
    return [
        Process(
            name=agent.name,
            command=python("-m", "agents", "run", "--config", str(agent.config)),
            env=deployment.agent_env(),
            cwd=str(ROOT),
            ready=_node_is_live(deployment, agent.name.replace("agent", "node")),
            stop_seconds=15.0,
        )
        for agent in demo_agents(deployment)
    ]


def end_instances(deployment: Deployment) -> None:
    """
    End the processes of the demo's instances. Real agents leave them running when they stop; the
    demo promised that Ctrl-C leaves nothing of ours alive.
    """
    for agent in demo_agents(deployment):
        if agent.config.exists():
            with (deployment.logs / f"{agent.name}.log").open("ab") as log:
                subprocess.run(
                    python("-m", "agents", "end-instances", "--config", str(agent.config)),
                    cwd=ROOT,
                    env=deployment.agent_env(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=30,
                    check=False,
                )


def read_seeded(deployment: Deployment) -> dict[str, Any]:
    """Return what seed_demo wrote: logins, the API key, enrolment tokens."""
    content: dict[str, Any] = json.loads(deployment.demo_file.read_text())
    return content


def closing_lines(deployment: Deployment, *, seconds: float) -> list[str]:
    """Return the last lines of the start: where to go and how to get in."""
    url = f"http://127.0.0.1:{deployment.web_port}"
    lines = ["", f"Tessera is ready after {seconds:.1f} s.", f"  address    {url}/"]
    if deployment.demo:
        seeded = read_seeded(deployment)
        for who in ("operator", "customer"):
            login = seeded[who]
            lines.append(f"  {who:<10} {login['email']}  {login['password']}")
        lines.append(f"  API key    {seeded['api_key']}")
    lines += [
        f"  API        {url}/v1",
        f"  admin      {url}/admin/",
        f"  files      {deployment.state} (logs in {deployment.logs.name}/)",
        "A server without a screen? On your own machine:",
        f"  ssh -L {deployment.web_port}:127.0.0.1:{deployment.web_port} "
        f"{getpass.getuser()}@{socket.gethostname()}",
        "Ctrl-C ends everything; the next start finds the data again.",
    ]
    return lines


def _gpus(agent: str) -> dict[str, Any]:
    model, memory_mib, count = NODES[agent]
    disk = shutil.disk_usage("/").free // 2**20
    return {
        # More than this machine has: nothing is reserved for a simulated card, and a demo in
        # which most offers do not fit would show little.
        "node": {
            "cpu_milli": 16_000 * count,
            "ram_mib": 131_072 * count,
            "disk_mib": max(disk, 262_144 * count),
            "shared_allowed": True,
        },
        "gpus": [
            {
                "uuid": f"GPU-demo-{agent}-{index}",
                "serial": f"DEMO{agent[-1]}{index:03}",
                "index": index,
                "model": model,
                "memory_mib": memory_mib,
                "numa": index // 2,
                "nvlink_group": 0 if model == "A100" else None,
                "mig_capable": model == "A100",
            }
            for index in range(count)
        ],
    }


def _node_is_live(deployment: Deployment, node: str) -> Callable[[], bool]:
    """Return a probe: the control plane heard this node within the last ten seconds."""

    def probe() -> bool:
        import psycopg

        try:
            with psycopg.connect(deployment.urls.app, connect_timeout=2) as link:
                heard = link.execute(
                    "SELECT 1 FROM scheduler_nodeliveness JOIN scheduler_node ON id = node_id "
                    "WHERE name = %s AND received_at > clock_timestamp() - interval '10 s'",
                    [node],
                )
                return heard.fetchone() is not None
        except psycopg.Error:
            return False

    return probe
