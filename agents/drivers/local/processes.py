"""What /proc says of processes: who is alive, since when, and who belongs to an instance."""

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
# Everything that an instance starts inherits this, whatever it does to its session or its parent.
MARK = "TESSERA_CONTAINER"


def mark_of(container: str, state: Path) -> str:
    """
    Return the value of the mark: it names the agent's folder too, because two agents of one machine
    may have containers of one name (a control plane of its own each, or one that was copied).
    """
    return f"{container}@{hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:12]}"


def start_of(pid: int) -> str | None:
    """
    Return the process's start (clock ticks after boot), or None if it is dead or a zombie. With the
    boot id it names one process for ever, though pids are used again.
    """
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name (field 2) may hold spaces and brackets; fields 3 and on follow its last bracket.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


def send(pid: int, start: str, number: signal.Signals) -> bool:
    """Signal that very process: a pid that was used again is not touched."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_of(pid) != start:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def members(mark: str, uid: int | None) -> Iterator[int]:
    """
    Yield the living processes of an instance: those of its uid when it has one of its own, else
    those that carry its mark.
    """
    carried = f"{MARK}={mark}".encode()
    for entry in os.listdir(PROC):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        pid = int(entry)
        if (_uid_of(pid) == uid if uid is not None else _has_mark(pid, carried)) and start_of(pid):
            yield pid


def end_members(mark: str, uid: int | None) -> None:
    """SIGKILL every process of the instance, until none is left that could start another."""
    for _ in range(20):
        found = list(members(mark, uid))
        if not found:
            return
        for pid in found:
            start = start_of(pid)
            if start is not None:
                send(pid, start, signal.SIGKILL)


def uids_in_use() -> set[int]:
    return {_uid_of(int(entry)) for entry in os.listdir(PROC) if entry.isdigit()}


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _uid_of(pid: int) -> int:
    """The real uid; a process that dropped its rights owns nothing of its /proc folder."""
    try:
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    except OSError:
        pass
    return -1


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        return mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
