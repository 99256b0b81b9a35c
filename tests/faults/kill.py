"""
Kill every kind of process at random moments under running instances, then compare every bill with
the oracle that each instance's own process wrote.

    python -m tests.faults.kill --seed 7 --minutes 25 --rounds 10
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.fleet import Fleet, compare, settle_everything
from tests.journeys.stack import Stack, running_stack, wait_for

TARGETS = ("agent", "gateway", "web", "worker", "beat", "valkey", "postmaster", "postgres")


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def children_of(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


def pids_of(stack: Stack, target: str, rng: random.Random) -> list[int]:
    """Which processes a blow of this kind hits."""
    processes: dict[str, int] = stack.state()["pids"]
    if target in ("postmaster", "postgres"):
        pid = processes["postgres"]
        return [pid, *children_of(pid)] if target == "postgres" else [pid]
    names = [name for name in processes if name.startswith(target)]
    pid = processes[rng.choice(names)]
    # A Celery parent leaves its children for a moment; an agent's instances must not be hit.
    return [pid] if target == "agent" else [pid, *children_of(pid)]


def strike(stack: Stack, target: str, rng: random.Random) -> int:
    hit = 0
    for pid in pids_of(stack, target, rng):
        try:
            os.kill(pid, signal.SIGKILL)
            hit += 1
        except ProcessLookupError:
            continue
    return hit


def healthy(stack: Stack) -> bool:
    """All processes run and the web answers."""
    try:
        state = stack.state()
    except (OSError, ValueError):
        return False
    return bool(state.get("ready")) and all(alive(pid) for pid in state["pids"].values())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run(seed: int, minutes: float, rounds: int, instances: int) -> dict[str, Any]:
    rng = random.Random(seed)
    blows = [target for target in TARGETS for _ in range(rounds)]
    rng.shuffle(blows)
    pause = max(minutes * 60 - 120, 60) / len(blows)
    home = Path(tempfile.mkdtemp(prefix="tsr-kill-", dir="/tmp"))
    home.chmod(0o711)
    with running_stack(home / "state", demo=True) as stack:
        fleet = Fleet.make(stack, home)
        fleet.order(instances)
        fleet.wait_all("running", fleet.ids)
        say(f"{instances} instances run; {len(blows)} blows, one every {pause:.1f} s")
        done: Counter[str] = Counter()
        for number, target in enumerate(blows):
            end = time.monotonic() + pause
            if strike(stack, target, rng):
                done[target] += 1
            if number % 4 == 3:
                say(f"blow {number + 1}/{len(blows)} {target}; {fleet.churn(rng)}")
            time.sleep(max(0.0, end - time.monotonic()))
            wait_for("the stack to heal", lambda: healthy(stack) or None, seconds=120, every=0.5)
        kept = [one for one in fleet.ids if one not in fleet.stopped]
        fleet.wait_all("running", kept)
        restarted = stack.sql("SELECT count(*) FROM scheduler_allocation WHERE incarnation > 1")
        failed = stack.sql("SELECT count(*) FROM rental_instance WHERE state = 'failed'")
        for one in kept:
            fleet.stop(one)
        fleet.wait_all("stopped", fleet.ids)
        unsettled = settle_everything(stack)
        report = compare(stack, stack.agents_home())
        audit = stack.manage("audit_ledger", check=False)
        report |= {
            "unsettled": unsettled,
            "seed": seed,
            "kills": dict(done),
            "instances": len(fleet.ids),
            "ended_by_fault": restarted[0][0] + failed[0][0],
            "audit": audit.returncode,
            "audit_says": audit.stdout[-500:] if audit.returncode else "",
        }
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--rounds", type=int, default=10, help="kills of each kind")
    parser.add_argument("--instances", type=int, default=8)
    args = parser.parse_args()
    report = run(args.seed, args.minutes, args.rounds, args.instances)
    say(json.dumps(report))
    good = not any(
        report[fault] for fault in ("lost", "extra", "gaps", "unsettled", "ended_by_fault", "audit")
    )
    say("held" if good else "BROKEN")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
