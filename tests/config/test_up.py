"""`manage.py up` as a person uses it: start, a crash of the database, Ctrl-C, start again."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psycopg
import pytest

from config.embedded.places import forget
from config.supervisor.state import read_state

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0  # seconds; everything at once on two cores beside the other tests

pytestmark = pytest.mark.slow


def wait(what, look):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if look():
                return
        except (OSError, ValueError, KeyError, psycopg.Error):
            pass
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


@pytest.fixture
def up(tmp_path):
    """Starts `manage.py up` over one folder; whatever is left at the end is ended."""
    state_dir = tmp_path / "var"
    own = {"DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"}
    env = {name: value for name, value in os.environ.items() if name not in own}
    running = []

    def start():
        supervisor = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", "0", "--state-dir", str(state_dir)],
            cwd=ROOT,
            env=env,
            start_new_session=True,
        )
        running.append(supervisor)

        def ready():
            assert supervisor.poll() is None, "manage.py up ended"
            state = read_state(state_dir)
            return state.ready and state.supervisor == supervisor.pid

        wait("everything to be ready", ready)
        return supervisor

    start.state = lambda: read_state(state_dir)
    yield start
    for supervisor in running:
        if supervisor.poll() is None:
            supervisor.send_signal(signal.SIGINT)
            supervisor.wait(60)
    forget(state_dir)


def count_prices(state):
    with psycopg.connect(state.owner_url, connect_timeout=2) as link:
        return link.execute("SELECT count(*) FROM billing_priceversion").fetchone()[0]


def is_alive(pid):
    return Path(f"/proc/{pid}").exists()


def test_it_survives_a_killed_database_ends_on_one_signal_and_keeps_its_data(up):
    supervisor = up()
    state = up.state()
    before = count_prices(state)
    assert before > 0

    os.kill(state.pid("postgres"), signal.SIGKILL)
    wait("another postmaster", lambda: up.state().pid("postgres") != state.pid("postgres"))
    wait("the data", lambda: count_prices(state) == before)
    wait(
        "the web server to be ready",
        lambda: urllib.request.urlopen(f"{state.web_url}/readyz", timeout=5).status == 200,
    )

    pids = up.state().pids.values()
    supervisor.send_signal(signal.SIGINT)
    assert supervisor.wait(60) == 0
    assert [pid for pid in pids if is_alive(pid)] == []
    assert [path for path in Path(state.shared_dir).rglob("*") if path.is_socket()] == []

    up()
    assert count_prices(up.state()) == before
