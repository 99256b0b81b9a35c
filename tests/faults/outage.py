"""
Take servers away for a while under running instances, with an SSH session open in each of a few.

    python -m tests.faults.outage --what postgres --seconds 60 --instances 20
    python -m tests.faults.outage --what all --seconds 600 --instances 20
    python -m tests.faults.outage --what rows          # allocations deleted behind our back
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.faults.fleet import Fleet, compare, settle_everything
from tests.faults.kill import children_of, healthy, say
from tests.journeys.stack import Stack, running_stack, wait_for

SERVERS = ("web", "gateway", "worker", "beat", "valkey", "postgres")


def open_session(fleet: Fleet, instance_id: str) -> subprocess.Popen[bytes]:
    """A terminal that a customer has open: it must still be open afterwards."""
    end = next(e for e in fleet.get(f"/v1/instances/{instance_id}")["endpoints"])
    return subprocess.Popen(
        [
            "ssh",
            "-tt",
            "-i",
            str(fleet.ssh.path),
            "-p",
            str(end["port"]),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "LogLevel=ERROR",
            f"{end['user']}@{end['host']}",
            "while :; do date; sleep 1; done",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def take_away(stack: Stack, names: tuple[str, ...], seconds: float) -> None:
    """Freeze the supervisor, kill the servers, wait, and let it bring them back."""
    assert stack.process is not None
    supervisor = int(stack.state()["supervisor"])
    os.kill(supervisor, signal.SIGSTOP)
    try:
        for name, process in stack.state()["pids"].items():
            if name.split("-")[0] in names:
                for pid in (process, *children_of(process)):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
        say(f"{names} are gone for {seconds:.0f} s")
        time.sleep(seconds)
    finally:
        os.kill(supervisor, signal.SIGCONT)


def alive_instances(stack: Stack) -> int:
    """How many instances' own processes wrote within the last 5 s."""
    fresh = 0
    for path in stack.agents_home().rglob("oracle"):
        fresh += time.time() - path.stat().st_mtime < 5
    return fresh


def finish(stack: Stack, fleet: Fleet) -> dict[str, Any]:
    for one in fleet.ids:
        fleet.stop(one)
    fleet.wait_all("stopped", fleet.ids)
    unsettled = settle_everything(stack)
    audit = stack.manage("audit_ledger", check=False)
    return compare(stack, stack.agents_home()) | {
        "unsettled": unsettled,
        "audit": audit.returncode,
    }


def outage(names: tuple[str, ...], seconds: float, instances: int, home: Path) -> dict[str, Any]:
    with running_stack(home / "state", demo=True) as stack:
        fleet = Fleet.make(stack, home)
        fleet.order(instances)
        fleet.wait_all("running", fleet.ids)
        sessions = [open_session(fleet, one) for one in fleet.ids[:5]]
        take_away(stack, names, seconds)
        back = time.monotonic()
        wait_for("the stack to heal", lambda: healthy(stack) or None, seconds=120, every=0.5)
        fleet.wait_all("running", fleet.ids)
        report = {
            "back_after_s": round(time.monotonic() - back, 1),
            "running": alive_instances(stack),
            "sessions_open": sum(one.poll() is None for one in sessions),
        }
        for one in sessions:
            one.kill()
        report |= finish(stack, fleet)
    report["good"] = (
        report["running"] == instances
        and report["sessions_open"] == len(sessions)
        and not any(report[fault] for fault in ("lost", "extra", "gaps", "unsettled", "audit"))
    )
    return report


def rows_vanish(instances: int, home: Path) -> dict[str, Any]:
    """Delete every allocation as a bad restore would, and see that nothing is ended."""
    with running_stack(home / "state", demo=True) as stack:
        fleet = Fleet.make(stack, home)
        fleet.order(instances)
        fleet.wait_all("running", fleet.ids)
        stack.sql(
            "DELETE FROM scheduler_slice; "
            "DELETE FROM scheduler_allocation; UPDATE scheduler_node SET version = version + 1"
        )
        wait_for(
            "all unknown containers to be reported",
            lambda: (
                stack.sql("SELECT count(*) FROM scheduler_quarantineevent")[0][0] >= instances
                or None
            ),
            seconds=90,
        )
        time.sleep(15)  # several desired sets later they must still run
        report: dict[str, Any] = {
            "reported": stack.sql(
                "SELECT count(DISTINCT instance_id) FROM scheduler_quarantineevent"
            )[0][0],
            "running": alive_instances(stack),
        }
    report["good"] = report["running"] == instances == report["reported"]
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=["postgres", "all", "rows"], required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--instances", type=int, default=20)
    args = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tsr-outage-", dir="/tmp"))
    home.chmod(0o711)
    if args.what == "rows":
        report = rows_vanish(args.instances, home)
    else:
        names = SERVERS if args.what == "all" else ("postgres",)
        report = outage(names, args.seconds, args.instances, home)
    say(json.dumps(report))
    say("held" if report["good"] else "BROKEN")
    return 0 if report["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
