"""
What the agent must not forget, in one SQLite file per node: the orders obeyed last, where each
allocation stands, when runs became ready, and the last row of each stretch for 35 days.

Written before it is sent. WAL with synchronous=FULL: a commit is on the disk when it returns, so
a power cut loses nothing that was reported; one commit per 6 s tick makes that cheap. SQLite's own
checksums drop a torn tail.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agents.meter import Life, RunMeter, Stretch, Traffic
from agents.protocol import RUNS_PER_USAGE, Desired, EndpointFact, PhaseName, RunReport
from agents.protocol import Stretch as ReportedStretch

KEEP_S = 35 * 24 * 3600
# Some 300 KB: a frame has at most 1 MiB, and one run's stretches are never parted.
STRETCHES_PER_USAGE = 5_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS phase (allocation TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
-- seq: the usage frame that carried this row as it is now; NULL: changed since, not sent yet.
CREATE TABLE IF NOT EXISTS run (
    run TEXT PRIMARY KEY, allocation TEXT NOT NULL, boot TEXT NOT NULL, ready_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL, is_over INTEGER NOT NULL,
    seq INTEGER, committed INTEGER NOT NULL, touched_s INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS stretch (
    run TEXT NOT NULL, from_tick INTEGER NOT NULL, until_tick INTEGER NOT NULL,
    net_out INTEGER NOT NULL, net_in INTEGER NOT NULL,
    container TEXT NOT NULL, started TEXT NOT NULL, boot TEXT NOT NULL,
    suspended_ms INTEGER NOT NULL, base_out INTEGER NOT NULL, base_in INTEGER NOT NULL,
    is_open INTEGER NOT NULL,
    seq INTEGER, committed INTEGER NOT NULL, touched_s INTEGER NOT NULL,
    PRIMARY KEY (run, from_tick)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS stretch_unsent ON stretch (run) WHERE committed = 0;
"""


class SpoolError(Exception):
    """The agent's disk does not take what must be kept. In words, for the log and the operator."""


class PhaseRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """
    The newest phase of one allocation. ``at_ms``: CLOCK_BOOTTIME of boot ``at_boot``. One that is
    ``gone`` is kept 35 days, so that a database from yesterday does not start it again.
    """

    allocation: str
    instance: str
    incarnation: int
    phase: PhaseName
    seq: int
    at_boot: str
    at_ms: int
    touched_s: int = 0
    run: str | None = None
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""
    percent: int | None = None
    endpoints: list[EndpointFact] = []
    spec_rev: int = 0


class Spool:
    """
    The node's memory. Every method is one transaction, or part of the caller's ``writing()``.

    :raises SpoolError: from every method that writes, if the disk is full or failing
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The desired set holds the values of secrets: for the agent's user only, from the first
        # byte on. SQLite gives -wal and -shm the mode of the file, and overwrites what it deletes.
        path.touch(mode=0o600)
        path.chmod(0o600)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA secure_delete = ON")
        self._db.execute("PRAGMA busy_timeout = 5000")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(SCHEMA)
        self._depth = 0

    def close(self) -> None:
        self._db.close()

    def limit_pages(self, pages: int) -> None:
        """Make the file as small as ``pages`` of 4 KiB: how tests fill a disk."""
        self._db.execute(f"PRAGMA max_page_count = {int(pages)}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise SpoolError(f"the agent's spool cannot be written: {error}") from error
        finally:
            self._depth = 0

    # --- facts

    def read_fact(self, name: str, default: int = 0) -> int:
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return default if row is None else int(row[0])

    def write_fact(self, name: str, value: int | bytes) -> None:
        with self.writing():
            self._db.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, value))

    def read_desired(self) -> Desired | None:
        row = self._db.execute("SELECT value FROM fact WHERE name = 'desired'").fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Desired)

    def write_desired(self, desired: Desired) -> None:
        self.write_fact("desired", msgspec.json.encode(desired))

    # --- phases

    def read_phases(self) -> dict[str, PhaseRecord]:
        rows = self._db.execute("SELECT record FROM phase")
        records = (msgspec.json.decode(row[0], type=PhaseRecord) for row in rows)
        return {record.allocation: record for record in records}

    def write_phase(self, record: PhaseRecord) -> None:
        """Keep the record, and its seq as the node's highest."""
        with self.writing():
            self._db.execute(
                "INSERT OR REPLACE INTO phase VALUES (?, ?)",
                (record.allocation, msgspec.json.encode(record)),
            )
            self.write_fact("phase_seq", record.seq)

    def drop_phases(self, allocations: Iterable[str]) -> None:
        with self.writing():
            self._db.executemany(
                "DELETE FROM phase WHERE allocation = ?", [(a,) for a in allocations]
            )

    # --- runs and stretches

    def write_run(self, meter: RunMeter, *, wall_s: int) -> None:
        """Keep when the run became ready, or that it is over; to be reported anew."""
        with self.writing():
            self._db.execute(
                "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, NULL, 0, ?)",
                (
                    meter.run, meter.allocation, meter.boot, meter.ready_ms, meter.seen_ms,
                    int(meter.is_over), wall_s,
                ),
            )  # fmt: skip
            if meter.stretch is not None and not meter.is_over:
                self.write_stretches(meter, [meter.stretch], wall_s=wall_s)

    def write_stretches(
        self, meter: RunMeter, stretches: Sequence[Stretch], *, wall_s: int
    ) -> None:
        """Keep stretches as they are now; the run's last look goes with them."""
        with self.writing():
            self._db.execute("UPDATE run SET seen_ms = ? WHERE run = ?", (meter.seen_ms, meter.run))
            self._db.executemany(
                "INSERT OR REPLACE INTO stretch"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?)",
                [
                    (
                        meter.run, s.from_tick, s.until_tick, s.net_out, s.net_in,
                        s.life.container, s.life.started, s.life.boot,
                        s.suspended_ms, s.base.net_out, s.base.net_in,
                        int(_is_open(meter, s)), wall_s,
                    )
                    for s in stretches
                ],
            )  # fmt: skip

    def read_meters(self) -> dict[str, RunMeter]:
        """Return the meters of runs that were not over, each with its open stretch."""
        meters = {
            row[0]: RunMeter(*row)
            for row in self._db.execute(
                "SELECT run, allocation, boot, ready_ms, seen_ms FROM run WHERE is_over = 0"
            )
        }
        rows = self._db.execute(
            "SELECT run, from_tick, until_tick, net_out, net_in, container, started, boot,"
            " suspended_ms, base_out, base_in FROM stretch WHERE is_open = 1 ORDER BY from_tick"
        )
        for run, first, until, out, into, container, started, boot, suspended, b_out, b_in in rows:
            if run in meters:
                meters[run].stretch = Stretch(
                    first, until, Life(container, started, boot), suspended,
                    Traffic(b_out, b_in), out, into,
                )  # fmt: skip
        return meters

    # --- usage frames

    def take_usage(self, *, boot: str, boot_ms: int) -> tuple[int, list[RunReport]] | None:
        """
        Return (seq, reports) of what changed and was not sent yet, at most RUNS_PER_USAGE runs, and
        note the seq on their rows before they are sent; None if there is nothing.
        """
        with self.writing():
            runs = self._db.execute(
                "SELECT run, boot, ready_ms FROM run WHERE (committed = 0 AND seq IS NULL)"
                " OR run IN (SELECT run FROM stretch WHERE committed = 0 AND seq IS NULL)"
                " ORDER BY run LIMIT ?",
                (RUNS_PER_USAGE,),
            ).fetchall()
            if not runs:
                return None
            seq = self.read_fact("usage_seq") + 1
            self.write_fact("usage_seq", seq)
            reports: list[RunReport] = []
            for run, ready_boot, ready_ms in runs:
                if sum(len(report.stretches) for report in reports) >= STRETCHES_PER_USAGE:
                    break
                rows = self._db.execute(
                    "SELECT from_tick, until_tick, net_out, net_in FROM stretch"
                    " WHERE run = ? AND committed = 0 ORDER BY from_tick",
                    (run,),
                ).fetchall()
                reports.append(
                    RunReport(
                        run=run,
                        ready_age_ms=boot_ms - ready_ms if ready_boot == boot else None,
                        stretches=[
                            ReportedStretch(from_tick=a, until_tick=b, net_out=o, net_in=i)
                            for a, b, o, i in rows
                            if b > a
                        ],
                    )
                )
            names = [(seq, report.run) for report in reports]
            for table in ("run", "stretch"):
                self._db.executemany(
                    f"UPDATE {table} SET seq = ? WHERE run = ? AND committed = 0", names
                )
            return seq, reports

    def resend(self) -> None:
        """Let the next frames carry again what was sent and not acked."""
        with self.writing():
            for table in ("run", "stretch"):
                self._db.execute(f"UPDATE {table} SET seq = NULL WHERE committed = 0")

    def commit_usage(self, seq: int) -> None:
        """The server has everything up to ``seq``; rows that changed since stay to be sent."""
        with self.writing():
            for table in ("run", "stretch"):
                self._db.execute(
                    f"UPDATE {table} SET committed = 1 WHERE committed = 0 AND seq <= ?", (seq,)
                )

    def raise_usage_seq(self, seq: int) -> None:
        """
        The server knows a higher seq than this file (the state directory is younger than the
        node): go on above it, so that its acks are not taken for ours.
        """
        with self.writing():
            self.resend()
            self.write_fact("usage_seq", seq)

    def replay(self) -> None:
        """A new control epoch: the server may have forgotten; everything kept is sent again."""
        with self.writing():
            for table in ("run", "stretch"):
                self._db.execute(f"UPDATE {table} SET committed = 0, seq = NULL")

    def prune(self, *, wall_s: int) -> None:
        """Forget what is committed and older than 35 days."""
        with self.writing():
            for table in ("stretch", "run"):
                also = "is_over = 1" if table == "run" else "is_open = 0"
                self._db.execute(
                    f"DELETE FROM {table} WHERE committed = 1 AND touched_s < ? AND {also}",
                    (wall_s - KEEP_S,),
                )


def _is_open(meter: RunMeter, stretch: Stretch) -> bool:
    return (
        not meter.is_over
        and meter.stretch is not None
        and meter.stretch.from_tick == stretch.from_tick
    )
