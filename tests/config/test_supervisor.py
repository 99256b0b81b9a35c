"""The supervisor's loop over small real processes: start, readiness, restart, an orderly end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from config.supervisor.loop import Process, StartFailed, Supervisor

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def supervisor(tmp_path):
    """A supervisor that gives the signals back and leaves no process behind."""
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.getsignal(name) for name in names}
    made = Supervisor(tmp_path, lambda line: None, lambda: None)
    yield made
    for child in made.children:
        child.kill_group()
    for name, handler in before.items():
        signal.signal(name, handler)


def process(name, command=SLEEPER, **more):
    return Process(name=name, command=command, env=dict(os.environ), **more)


def look_until(supervisor, true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        supervisor.look()
        select_pause()


def select_pause():
    """Let children run; the loop under test does the same between two looks."""
    time.sleep(0.02)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_process_starts_again(supervisor):
    supervisor.add(process("one"))
    supervisor.wait_ready("one")
    first = supervisor.pids()["one"]

    os.kill(first, signal.SIGKILL)

    look_until(supervisor, lambda: supervisor.pids().get("one") not in (None, first))
    assert supervisor.restarts() == {"one": 1}


def test_what_a_dead_process_left_in_its_group_dies_with_it(supervisor, tmp_path):
    note = tmp_path / "child"
    script = f"sleep 600 & echo $! > {note}; wait"
    supervisor.add(process("parent", ["/bin/sh", "-c", script]))
    look_until(supervisor, lambda: note.exists() and note.read_text().strip())
    left = int(note.read_text())

    os.kill(supervisor.pids()["parent"], signal.SIGKILL)

    look_until(supervisor, lambda: not is_alive(left) or "Z" in state_of(left))


def state_of(pid):
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout or "Z"


def test_a_process_that_never_comes_up_stops_the_start_with_its_own_words(supervisor):
    supervisor.add(
        process("broken", ["/bin/sh", "-c", "echo no such thing; exit 3"], ready=lambda: False)
    )

    with pytest.raises(StartFailed, match="no such thing"):
        supervisor.wait_ready("broken")


def test_a_start_waits_for_its_preparation(supervisor):
    answers = iter([False, False, True])
    supervisor.add(process("late", prepare=lambda: next(answers)))

    supervisor.look()
    supervisor.look()
    assert supervisor.pids() == {}
    supervisor.look()

    assert "late" in supervisor.pids()


def test_a_process_that_lives_but_does_nothing_is_killed_and_started_again(supervisor, monkeypatch):
    monkeypatch.setattr("config.supervisor.loop.PROBE_EVERY", 0.01)
    supervisor.add(process("deaf", healthy=lambda: False, sick_seconds=0.05))
    supervisor.wait_ready("deaf")
    first = supervisor.pids()["deaf"]

    look_until(supervisor, lambda: supervisor.pids().get("deaf") not in (None, first))


def test_stopping_kills_what_does_not_listen(supervisor):
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(600)"
    log = supervisor._logs / "stubborn.log"
    supervisor.add(process("stubborn", [sys.executable, "-uc", stubborn], stop_seconds=0.3))
    look_until(supervisor, lambda: log.exists() and log.read_text())
    pid = supervisor.pids()["stubborn"]

    supervisor.stop("stubborn")

    assert not is_alive(pid)
    assert supervisor.children == []


def test_a_task_that_fails_says_why(supervisor):
    with pytest.raises(StartFailed, match="bad luck"):
        supervisor.run_once(process("task", ["/bin/sh", "-c", "echo bad luck; exit 1"]))
