"""The local runtime with real processes and the real OpenSSH client."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.clock import SystemClock
from agents.drivers.base import Unsupported
from agents.drivers.local import processes
from agents.drivers.local.passwords import is_password
from agents.drivers.local.runtime import LocalRuntime
from tests.agents.fakes import a_residence, an_order, labels_of

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs an OpenSSH client")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
DISKS = [a_residence("res_s", "system"), a_residence("res_w", "workspace")]
DEADLINE_S = 20


def until(found, deadline_s=DEADLINE_S):
    """Return what ``found`` answers as soon as it is true."""
    end = time.monotonic() + deadline_s
    while not (answer := found()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return answer


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "id"
    make_key(path)
    return path


def make_key(path):
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "someone", "-f", path], check=True
    )


@pytest.fixture
def open_folder():
    """pytest's own folders are 0700, as an instance's parents must not be."""
    path = Path("/var/tmp") / f"tessera-test-{os.getpid()}-{time.monotonic_ns()}"
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


class Host:
    def __init__(self, state, key):
        self.key = key
        self.runtime = LocalRuntime(state, SystemClock())
        self.state = state

    def do(self, coroutine):
        return asyncio.run(coroutine)

    def order(self, allocation="alc_1", **changes):
        spec = {"ssh_keys": [Path(f"{self.key}.pub").read_text()], **changes.pop("spec", {})}
        return an_order(allocation, spec=spec, **changes)

    def start(self, order, residences=DISKS):
        self.do(self.runtime.start(order, labels_of(order), list(residences)))
        return until(lambda: self.endpoint(order))

    def endpoint(self, order):
        container = self.inspect(order)
        assert container.state == "alive", self.log(order)
        found = self.do(self.runtime.probe(container))
        return found and found[0]

    def inspect(self, order):
        return self.do(self.runtime.inspect(labels_of(order).container))

    def log(self, order):
        return (self.state / "c" / labels_of(order).container / "log").read_text()

    def pid(self, order):
        path = self.state / "c" / labels_of(order).container / "process.json"
        return json.loads(path.read_text())["pid"]

    def end(self, order):
        self.do(self.runtime.terminate(labels_of(order).container))
        until(lambda: self.inspect(order).state == "ended")

    def clean(self):
        for name in self.do(self.runtime.list_containers()):
            self.do(self.runtime.kill(name))
            self.do(self.runtime.remove(name))


def ssh(endpoint, key, *command, user="tessera", known=os.devnull, tty=False):
    return [
        "ssh", "-F", os.devnull, "-i", str(key), "-p", str(endpoint.port),
        "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
        "-o", f"UserKnownHostsFile={known}",
        "-o", f"StrictHostKeyChecking={'no' if known == os.devnull else 'yes'}",
        *(["-tt"] if tty else []), f"{user}@{endpoint.host}", *command,
    ]  # fmt: skip


def told(argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, **options)


@pytest.fixture
def host(open_folder, key):
    host = Host(open_folder / "node", key)
    yield host
    host.clean()


def test_a_customer_logs_in_and_finds_the_workspace(host):
    order = host.order(spec={"env": {"GREETING": "hello"}})
    endpoint = host.start(order)
    answer = told(
        ssh(endpoint, host.key, "pwd; echo $TESSERA_WORKSPACE $GREETING $TESSERA_GPUS; exit 3")
    )
    workspace = str(host.state / "r" / "res_w" / "data")
    assert answer.stdout.splitlines() == [workspace, f"{workspace} hello GPU-0"]
    assert answer.returncode == 3
    assert endpoint.user == "tessera"
    assert endpoint.host_key_fingerprint.startswith("SHA256:")
    assert endpoint.workspace == workspace


def test_pipes_files_and_a_terminal(host, open_folder):
    endpoint = host.start(host.order())
    big = os.urandom(1_000_000)
    back = subprocess.run(
        ssh(endpoint, host.key, "tee copy"), input=big, capture_output=True, timeout=DEADLINE_S
    )
    assert back.stdout == big

    source = open_folder / "upload"
    source.write_bytes(big)
    flags = ["-F", os.devnull, "-i", str(host.key), "-P", str(endpoint.port),
             "-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={os.devnull}",
             "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]  # fmt: skip
    for style in ([], ["-O"]):
        target = f"tessera@{endpoint.host}:up{len(style)}"
        assert told(["scp", *flags, *style, str(source), target]).returncode == 0
        down = open_folder / f"down{len(style)}"
        assert told(["scp", *flags, *style, target, str(down)]).returncode == 0
        assert down.read_bytes() == big

    shell = told(ssh(endpoint, host.key, tty=True), input="stty size; tty; exit 4\n")
    assert shell.returncode == 4
    assert "/dev/pts/" in shell.stdout
    assert "isolates nothing" in shell.stdout

    killed = told(ssh(endpoint, host.key, "kill -9 $$"))
    assert killed.returncode == 255

    traffic = until(lambda: (t := host.inspect(host.order()).traffic).net_out > 3e6 and t)
    assert 3e6 < traffic.net_out < 5e6
    assert 3e6 < traffic.net_in < 5e6


def test_a_strangers_key_another_name_and_a_removed_key_stay_out(host, open_folder):
    other = open_folder / "other"
    make_key(other)
    order = host.order()
    endpoint = host.start(order)
    assert "denied" in told(ssh(endpoint, other, "id")).stderr
    assert "denied" in told(ssh(endpoint, host.key, "id", user="root")).stderr
    new = host.order(spec={"ssh_keys": [Path(f"{other}.pub").read_text(), "not a key"]})
    host.do(host.runtime.update("alc_1.1", new.spec, 2))
    assert told(ssh(endpoint, other, "true")).returncode == 0
    assert "denied" in told(ssh(endpoint, host.key, "id")).stderr
    assert host.inspect(order).labels.spec_rev == 2


def test_files_and_the_host_key_survive_a_stop_and_go_with_the_wipe(host, open_folder):
    endpoint = host.start(host.order())
    told(ssh(endpoint, host.key, "echo kept > note; echo kept > ~/note"))
    host.end(host.order())
    host.do(host.runtime.remove("alc_1.1"))
    again = host.start(host.order("alc_2"))
    assert again.host_key_fingerprint == endpoint.host_key_fingerprint
    assert told(ssh(again, host.key, "cat note ~/note")).stdout == "kept\nkept\n"
    host.end(host.order("alc_2"))
    host.do(host.runtime.remove("alc_2.1"))
    for residence in ("res_s", "res_w"):
        host.do(host.runtime.wipe(residence))
    assert host.do(host.runtime.list_residences()) == []
    assert list((host.state / "r").iterdir()) == []
    assert list((host.state / "c").iterdir()) == []


def test_the_command_is_the_instance(host):
    order = host.order(spec={"command": ["/bin/sh", "-c", "echo done; exit 7"]})
    host.do(host.runtime.start(order, labels_of(order), DISKS))
    until(lambda: host.inspect(order).state == "ended")
    assert host.inspect(order).exit_code == 7
    assert (host.state / "r/res_s/data/output.log").read_text() == "done\n"


def test_values_of_secrets_reach_the_instance_and_rest_in_private_files(host):
    order = host.order(spec={"env": {"HF_TOKEN": "hf_plain"}})
    endpoint = host.start(order)

    assert told(ssh(endpoint, host.key, "echo $HF_TOKEN")).stdout == "hf_plain\n"
    holding = [
        path
        for path in host.state.rglob("*")
        if path.is_file() and b"hf_plain" in path.read_bytes()
    ]
    assert {(path.name, path.stat().st_mode & 0o777) for path in holding} == {("spec.json", 0o600)}


# --- passwords

PASSWORD, OTHER = "t7kq2mfnw4xh9bzr3vdc", "zc4gk8nwr2qtm6xhv9fb"


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """What OpenSSH asks for a password: prints what is in the environment, and counts."""
    path = tmp_path_factory.mktemp("ask") / "ask"
    path.write_text('#!/bin/sh\necho asked >> "$ASKED"\necho "$PASSWORD"\n')
    path.chmod(0o700)
    return path


def ssh_by_password(endpoint, password, ask, *command, user="tessera", how="password"):
    """Return the answer and how often a password was asked for."""
    asked = ask.with_name(f"asked-{time.monotonic_ns()}")
    asked.touch()
    answer = told(
        ["ssh", "-F", os.devnull, "-p", str(endpoint.port),
         "-o", f"PreferredAuthentications={how}", "-o", "LogLevel=ERROR",
         "-o", "NumberOfPasswordPrompts=9",
         "-o", f"UserKnownHostsFile={os.devnull}", "-o", "StrictHostKeyChecking=no",
         f"{user}@{endpoint.host}", *command],
        env={"PATH": os.environ["PATH"], "SSH_ASKPASS": str(ask), "ASKED": str(asked),
             "SSH_ASKPASS_REQUIRE": "force", "PASSWORD": password, "DISPLAY": ":0"},
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    return answer, len(asked.read_text().splitlines())


def digest(password):
    made = subprocess.run(
        [sys.executable, "-c", MAKE_DIGEST, password], capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


MAKE_DIGEST = """
import ctypes, ctypes.util, sys
library = ctypes.CDLL(ctypes.util.find_library("crypt") or "libcrypt.so.1")
library.crypt.restype = ctypes.c_char_p
setting = b"$7$A6..../....abcdefgh12345678abcdef$"
print(library.crypt(sys.argv[1].encode(), setting).decode())
"""


def test_whoever_knows_the_password_gets_in_without_a_key(host, ask):
    endpoint = host.start(host.order(spec={"ssh_keys": [], "password_digest": digest(PASSWORD)}))

    for how in ("password", "keyboard-interactive"):
        answer, asked = ssh_by_password(endpoint, PASSWORD, ask, "echo in", how=how)
        assert (answer.stdout, answer.returncode, asked) == ("in\n", 0, 1), answer.stderr


def test_a_wrong_password_is_refused_three_times_slowly_and_then_not_asked_for(host, ask):
    endpoint = host.start(host.order(spec={"password_digest": digest(PASSWORD)}))

    began = time.monotonic()
    answer, asked = ssh_by_password(endpoint, OTHER, ask, "id")

    assert "denied" in answer.stderr
    assert asked == 3
    assert time.monotonic() - began >= 3
    assert "denied" in ssh_by_password(endpoint, PASSWORD, ask, "id", user="root")[0].stderr
    assert told(ssh(endpoint, host.key, "true")).returncode == 0


def test_a_password_is_changed_and_taken_away_while_it_runs(host, ask):
    order = host.order(spec={"password_digest": digest(PASSWORD)})
    endpoint = host.start(order)

    new = host.order(spec={"password_digest": digest(OTHER)})
    host.do(host.runtime.update("alc_1.1", new.spec, 2))
    assert ssh_by_password(endpoint, OTHER, ask, "true")[0].returncode == 0
    assert "denied" in ssh_by_password(endpoint, PASSWORD, ask, "id")[0].stderr
    host.do(host.runtime.update("alc_1.1", host.order().spec, 3))

    answer, asked = ssh_by_password(endpoint, OTHER, ask, "id")
    assert "denied" in answer.stderr
    assert asked == 0


def test_neither_password_nor_digest_is_where_it_need_not_be(host, ask):
    text = digest(PASSWORD)
    order = host.order(spec={"password_digest": text})
    endpoint = host.start(order)
    assert ssh_by_password(endpoint, PASSWORD, ask, "true")[0].returncode == 0
    assert "denied" in ssh_by_password(endpoint, OTHER, ask, "true")[0].stderr

    holding = {
        form: [p.name for p in host.state.rglob("*") if p.is_file() and form in p.read_bytes()]
        for form in (PASSWORD.encode(), OTHER.encode(), text.encode())
    }
    assert holding == {PASSWORD.encode(): [], OTHER.encode(): [], text.encode(): ["password"]}
    for name in ("environ", "cmdline"):
        said = Path(f"/proc/{host.pid(order)}/{name}").read_bytes()
        assert text.encode() not in said
    assert (host.state / "c/alc_1.1/password").stat().st_mode & 0o007 == 0


def test_what_is_no_digest_lets_nobody_in():
    good = digest(PASSWORD)
    assert is_password(PASSWORD, good)
    assert not is_password(OTHER, good)
    for bad in ("", "x", "$6$salt$hash", "$7$$", "$7$A6..../....salt", good[:-1], good + "x",
                good.replace("$7$A", "$7$z"), good.replace("$7$A", "$7$!")):  # fmt: skip
        assert not is_password(PASSWORD, bad), bad


def test_two_agents_with_a_container_of_one_name_do_not_end_each_others(tmp_path):
    """Without a uid of its own a process is known by its mark."""
    marks = [processes.mark_of("alc_1.1", tmp_path / name) for name in ("first", "second")]
    sleepers = [subprocess.Popen(["sleep", "1000"], env={processes.MARK: mark}) for mark in marks]
    try:
        mine, others = sleepers
        until(lambda: list(processes.members(marks[0], None)) == [mine.pid])
        processes.end_members(marks[0], None)
        assert mine.wait(DEADLINE_S) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def test_sigterm_reaches_everybody_and_idle_shells_do_not_hold_it_up(host):
    program = "trap 'echo bye > bye; exit 0' TERM; echo up > up; while :; do sleep 0.1; done"
    order = host.order(spec={"command": ["/bin/sh", "-c", program], "grace_s": 8})
    endpoint = host.start(order)
    data = host.state / "r/res_w/data"
    until((data / "up").exists)
    shell = subprocess.Popen(
        ssh(endpoint, host.key, tty=True), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    shell.stdin.write(b"echo here; setsid sleep 1000 &\n")
    shell.stdin.flush()
    while b"here" not in shell.stdout.readline():
        pass
    began = time.monotonic()
    host.end(order)
    assert time.monotonic() - began < 5
    assert host.inspect(order).exit_code == 143
    assert (data / "bye").read_text() == "bye\n"
    shell.communicate(timeout=DEADLINE_S)
    uid, mark = uid_and_mark(host)
    assert list(processes.members(mark, uid)) == []


def uid_and_mark(host):
    label = json.loads((host.state / "c/alc_1.1/label.json").read_text())
    return label["uid"], label["mark"]


def test_kill_leaves_nobody_of_the_instance(host):
    program = "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 1000\" & echo up > up; sleep 1000"
    order = host.order(spec={"command": ["/bin/sh", "-c", program]})
    host.start(order)
    until((host.state / "r/res_w/data/up").exists)
    uid, mark = uid_and_mark(host)
    assert len(list(processes.members(mark, uid))) >= 2
    host.do(host.runtime.kill("alc_1.1"))
    assert host.inspect(order).state == "ended"
    assert list(processes.members(mark, uid)) == []


def test_a_new_driver_finds_the_instance_and_a_reused_pid_is_not_it(host):
    order = host.order()
    host.start(order)
    again = LocalRuntime(host.state, SystemClock())
    assert host.do(again.list_containers()) == ["alc_1.1"]
    found = host.do(again.inspect("alc_1.1"))
    assert (found.state, found.labels) == ("alive", labels_of(order))
    path = host.state / "c/alc_1.1/process.json"
    noted = json.loads(path.read_text())
    path.write_text(json.dumps({**noted, "started": "1"}))
    assert host.do(again.inspect("alc_1.1")).state == "ended"
    assert processes.send(noted["pid"], "1", signal.SIGKILL) is False
    assert processes.start_of(noted["pid"]) == noted["started"]
    path.write_text(json.dumps(noted))


def test_a_start_that_was_not_noted_is_found_by_its_mark(host):
    order = host.order()
    host.start(order)
    folder = host.state / "c/alc_1.1"
    noted = (folder / "process.json").read_text()
    (folder / "process.json").unlink()
    (folder / "spawned.json").unlink()
    assert host.inspect(order).state == "alive"
    (folder / "process.json").write_text(noted)


@needs_root
def test_no_instance_is_root_and_none_reads_anothers_files(host):
    endpoint = host.start(host.order())
    told(ssh(endpoint, host.key, "echo secret > mine; chmod 644 mine"))
    other = host.order("alc_2", instance="ins_2", spec={"env": {"TOKEN": "s3cret"}})
    second = host.start(other, [a_residence("res_o", "workspace", instance="ins_2")])
    first_uid = told(ssh(endpoint, host.key, "id -u; id -G")).stdout.split()
    second_uid = told(ssh(second, host.key, "id -u; id -G")).stdout.split()
    assert first_uid[0] == first_uid[1] != second_uid[0] == second_uid[1] != "0"
    for path in ("r/res_w/data/mine", "r/res_s/host_key", "c/alc_1.1/spec.json",
                 "c/alc_2.1/spec.json", "c/alc_1.1/authorized_keys", "c/alc_1.1/password",
                 "uids.json"):  # fmt: skip
        answer = told(ssh(second, host.key, f"cat {host.state / path}"))
        assert (answer.stdout, answer.returncode) == ("", 1)
    status = Path(f"/proc/{host.pid(other)}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status
    assert b"s3cret" not in Path(f"/proc/{host.pid(other)}/cmdline").read_bytes()
    assert b"s3cret" not in Path(f"/proc/{host.pid(other)}/environ").read_bytes()
    assert "s3cret" not in host.log(other)
    assert told(ssh(second, host.key, f"kill -9 {host.pid(host.order())}")).returncode != 0


@needs_root
def test_two_agents_of_one_machine_never_give_one_uid_twice(host, open_folder, key):
    """Processes are ended by uid. An instance may be on two nodes while it moves."""
    other = Host(open_folder / "second", key)
    assert host.runtime._uid_of("ins_1") != other.runtime._uid_of("ins_1")
    assert host.runtime._uid_of("ins_1") == Host(host.state, key).runtime._uid_of("ins_1")


@needs_root
def test_root_refuses_a_state_directory_that_instances_cannot_reach(tmp_path):
    tmp_path.chmod(0o700)
    runtime = LocalRuntime(tmp_path / "node", SystemClock())
    order = an_order()
    with pytest.raises(Unsupported, match="choose a state_dir under /var/lib/tessera"):
        asyncio.run(runtime.start(order, labels_of(order), []))


@needs_root
def test_it_runs_from_a_checkout_that_only_root_can_read(open_folder, key):
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(
        Path(__file__).parents[2] / "agents",
        closed / "agents",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("asyncssh", "cryptography", "msgspec", "cffi", "typing_extensions"):
        copy_module(name, closed)
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from agents.clock import SystemClock\n"
        "from agents.drivers.base import Labels\n"
        "from agents.drivers.local.runtime import LocalRuntime\n"
        "from agents.protocol import AllocationSpec, Order\n"
        "spec = AllocationSpec(instance='i', name='n', slug='s', image='x',"
        " ssh_keys=[Path(sys.argv[2]).read_text()])\n"
        "order = Order(allocation='alc_1', instance='ins_1', run='r', incarnation=1, spec_rev=1,"
        " want='run', spec=spec)\n"
        "labels = Labels('n', 'ins_1', 'alc_1', 1, 'r')\n"
        "runtime = LocalRuntime(Path(sys.argv[1]), SystemClock())\n"
        "asyncio.run(runtime.start(order, labels, []))\n"
    )
    state = open_folder / "node"
    made = told(
        [sys.executable, "-c", script, str(state), f"{key}.pub"],
        env={"PYTHONPATH": str(closed), "PATH": os.environ["PATH"]},
        cwd=closed,
    )
    assert made.returncode == 0, made.stderr
    host = Host(state, key)
    order = host.order()
    try:
        endpoint = until(lambda: host.endpoint(order))
        assert str(closed) in Path(f"/proc/{host.pid(order)}/environ").read_text()
        assert told(ssh(endpoint, key, "id -u")).stdout.strip() not in ("", "0")
        assert told(ssh(endpoint, key, tty=True), input="exit 5\n").returncode == 5
        batch = open_folder / "batch"
        batch.write_text("mkdir x\nls -la\n")
        files = told(
            ["sftp", "-F", os.devnull, "-b", str(batch), "-i", str(key), "-P", str(endpoint.port),
             "-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={os.devnull}",
             "-o", "StrictHostKeyChecking=no", f"tessera@{endpoint.host}"]
        )  # fmt: skip
        assert files.returncode == 0, files.stderr
        host.end(order)
        assert "Error" not in host.log(order)
    finally:
        host.clean()


def copy_module(name, to):
    spec = __import__("importlib.util").util.find_spec(name)
    if spec.submodule_search_locations:
        source = Path(spec.submodule_search_locations[0])
        shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(spec.origin, to)
    for extra in Path(spec.origin).parent.parent.glob(f"_{name}_backend*"):
        shutil.copy(extra, to)


def test_an_instance_reads_when_its_place_is_taken_and_that_it_may_stay(host):
    """And cannot change what it reads; the rest of its order is as it was."""
    order = host.order()
    endpoint = host.start(order)
    read = 'cat "$TESSERA_NOTICE" 2>/dev/null || echo none'
    assert told(ssh(endpoint, host.key, read)).stdout.strip() == "none"

    noticed = host.order(spec={"reclaim_at": "2026-03-02T12:05:10Z"})
    host.do(host.runtime.update("alc_1.1", noticed.spec, 2))
    said = json.loads(told(ssh(endpoint, host.key, read)).stdout)
    assert said == {"kind": "spot", "action": "stop", "deadline": "2026-03-02T12:05:10Z"}
    if os.getuid() == 0:
        assert told(ssh(endpoint, host.key, 'echo x > "$TESSERA_NOTICE"')).returncode != 0

    host.do(host.runtime.update("alc_1.1", order.spec, 3))
    assert told(ssh(endpoint, host.key, read)).stdout.strip() == "none"
