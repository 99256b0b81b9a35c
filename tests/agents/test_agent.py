"""The agent's command as a process against a gateway: kill -9, partition, enrolment, farewell."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from agents.drivers.local import processes
from agents.protocol import Hello, Phase, Pulse, Usage
from tests.agents.fakes import a_residence, a_set, an_order
from tests.agents.gateway import FakeGateway, write_agent
from tests.agents.test_local import make_key, open_folder, ssh, told, until  # noqa: F401

ROOT = Path(__file__).parents[2]
DISKS = [a_residence("res_s", "system"), a_residence("res_w", "workspace")]
needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs an OpenSSH client")


@pytest.fixture
def gateway():
    gateway = FakeGateway()
    yield gateway
    gateway.close()


def command(*arguments):
    return [sys.executable, "-m", "agents", *map(str, arguments)]


class Process:
    """`python -m agents run`, which tests kill and start again."""

    def __init__(self, config):
        self.config = config
        self.log = config.with_name("log")
        self.process = None
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command("run", "--config", self.config), cwd=ROOT, stderr=log
            )

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def leave(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)


@pytest.fixture
def agent_of(open_folder, gateway):  # noqa: F811
    running = []

    def make(runtime):
        agent = Process(write_agent(open_folder / "agent", gateway.port, runtime=runtime))
        running.append(agent)
        return agent

    yield make
    for agent in running:
        if agent.process.poll() is None:
            agent.leave()
        told(command("end-instances", "--config", agent.config), cwd=ROOT)


def ordered(*orders, version=1, **options):
    desired = a_set(*orders, version=version, **options)
    return msgspec.structs.replace(desired, node="nod_1")


def phase(gateway, name, allocation="alc_1"):
    return until(
        lambda: (
            gateway.heard(Phase, lambda m: (m.phase, m.allocation) == (name, allocation))
            or next(
                (
                    p
                    for h in list(gateway.said)
                    if isinstance(h, Hello)
                    for p in h.phases
                    if (p.phase, p.allocation) == (name, allocation)
                ),
                None,
            )
        )
    )


@needs_ssh
def test_a_killed_agent_takes_nobody_along_and_proves_the_gap(
    agent_of,
    gateway,
    open_folder,  # noqa: F811
):
    make_key(open_folder / "id")
    program = "while :; do date +%s.%N >> beat; sleep 0.2; done"
    order = an_order(
        spec={
            "ssh_keys": [(open_folder / "id.pub").read_text()],
            "command": ["/bin/sh", "-c", program],
        }
    )
    agent = agent_of("local")
    until(lambda: gateway.heard(Hello))
    began = time.monotonic()
    gateway.order(ordered(order, residences=DISKS))
    running = phase(gateway, "running")
    took = time.monotonic() - began
    assert took < 10
    usage = until(lambda: gateway.heard(Usage, lambda m: m.runs))
    assert usage.runs[0].run == order.run
    assert usage.runs[0].ready_age_ms < 5_000
    state = open_folder / "agent/state/node-a/local"
    noted = json.loads((state / "c/alc_1.1/process.json").read_text())

    agent.kill()
    assert processes.start_of(noted["pid"]) == noted["started"]
    assert told(ssh(running.endpoints[0], open_folder / "id", "true")).returncode == 0
    gateway.said.clear()
    agent.start()
    hello = until(lambda: gateway.heard(Hello))
    assert [(p.phase, p.incarnation) for p in hello.phases] == [("running", 1)]
    assert hello.node_version == 1

    until(lambda: gateway.stretches(order.run).get(0, 0) >= 1, 60)
    assert list(gateway.stretches(order.run)) == [0]
    assert processes.start_of(noted["pid"]) == noted["started"]

    seen = json.loads(told(command("observe", "--config", agent.config), cwd=ROOT).stdout)
    assert [c["state"] for c in seen["node-a"]] == ["alive"]
    gateway.order(ordered(an_order(want="gone"), version=2, residences=DISKS))
    phase(gateway, "gone")
    assert processes.start_of(noted["pid"]) is None
    assert (state / "r/res_w/data/beat").exists()
    gateway.order(
        ordered(
            version=3,
            residences=[msgspec.structs.replace(r, want="gone") for r in DISKS],
        )
    )
    until(
        lambda: gateway.heard(
            Hello, lambda h: [r.state for r in h.residences] == ["wiped", "wiped"]
        )
    )
    assert not list((state / "r").iterdir())


def test_a_partition_ends_nothing_but_what_was_to_end(agent_of, gateway):
    agent = agent_of("null")
    until(lambda: gateway.heard(Hello))
    stays = an_order("alc_1", run="run_1")
    ends = an_order("alc_2", run="run_2", instance="ins_2", slices=[], stop_at_tick=1)
    gateway.order(ordered(stays, ends))
    phase(gateway, "running", "alc_2")
    until(lambda: gateway.heard(Usage, lambda m: any(r.run == "run_2" for r in m.runs)))
    gateway.cut()
    gateway.said.clear()

    def observed():
        answer = told(command("observe", "--config", agent.config), cwd=ROOT).stdout
        return {c["allocation"]: c["state"] for c in json.loads(answer)["node-a"]}

    until(lambda: observed()["alc_2"] == "ended")
    assert observed()["alc_1"] == "alive"
    assert gateway.said == []
    gateway.mend()
    hello = until(lambda: gateway.heard(Hello), 30)
    assert {p.allocation: (p.phase, p.reason) for p in hello.phases} == {
        "alc_1": ("running", ""),
        "alc_2": ("exited", "stop_at_tick"),
    }
    until(lambda: gateway.stretches("run_2") == {0: 1})
    until(lambda: gateway.stretches("run_1").get(0, 0) >= 1, 60)


def test_a_half_dead_link_is_given_up_and_the_agent_leaves_in_peace(agent_of, gateway):
    agent = agent_of("null")
    until(lambda: gateway.heard(Pulse))
    gateway.order(ordered(an_order()))
    phase(gateway, "running")
    gateway.is_mute = True
    until(lambda: gateway.connections == 2, 40)
    gateway.is_mute = False
    assert agent.leave() == 0
    answer = told(command("observe", "--config", agent.config), cwd=ROOT)
    assert json.loads(answer.stdout)["node-a"][0]["state"] == "alive"
    ended = told(command("end-instances", "--config", agent.config), cwd=ROOT)
    assert ended.stdout.startswith("1 instances ended")
    agent.start()
    gateway.said.clear()
    said = phase(gateway, "exited")
    assert said.exit_code == 143


class Enroller(BaseHTTPRequestHandler):
    asked: list = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body))
        answer = {"agent": "agt_1", "credential": "tsa_new", "nodes": {"node-a": "nod_1"}}
        code = 200 if body["token"] == "good" else 403
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer if code == 200 else {"detail": "spent"}).encode())

    def log_message(self, *arguments):
        pass


def test_enrolment_writes_a_credential_that_only_its_owner_reads(tmp_path):
    server = HTTPServer(("127.0.0.1", 0), Enroller)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        out = tmp_path / "credential"
        (tmp_path / "token").write_text("good\n")
        asked = command(
            "enrol", "--url", f"http://127.0.0.1:{server.server_port}", "--token-file",
            tmp_path / "token", "--name", "agent-1", "--node", "node-a", "--credential-out", out,
        )  # fmt: skip
        assert told(asked, cwd=ROOT).returncode == 0
        assert json.loads(out.read_text()) == {
            "credential": "tsa_new",
            "agent": "agt_1",
            "nodes": {"node-a": "nod_1"},
        }
        assert out.stat().st_mode & 0o777 == 0o600
        assert Enroller.asked[-1] == (
            "/agent/v1/enrol",
            {"token": "good", "agent": "agent-1", "nodes": ["node-a"]},
        )
        (tmp_path / "token").write_text("bad\n")
        refused = told(asked, cwd=ROOT)
        assert refused.returncode == 1
        assert "403" in refused.stderr
        assert "spent" in refused.stderr
        assert "bad" not in refused.stderr
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_agent_knows_no_django():
    script = (
        "import pkgutil, importlib, sys, agents\n"
        "for m in pkgutil.walk_packages(agents.__path__, 'agents.'):\n"
        "    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        "sys.exit('django' in sys.modules)\n"
    )
    answer = told([sys.executable, "-c", script], cwd=ROOT, env={"PATH": os.environ["PATH"]})
    assert (answer.returncode, answer.stderr) == (0, "")
