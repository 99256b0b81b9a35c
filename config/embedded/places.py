"""
Where an embedded deployment keeps its files, and as whom its servers run.

PostgreSQL refuses to run as root, so root starts the servers as an unprivileged user. That user
must reach its data and the binaries, which it cannot inside a folder of mode 0700; then both
live in a folder of root's under /var/lib/tessera instead.
"""

import hashlib
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

SHARED_ROOT = Path("/var/lib/tessera")
# A unix socket's path holds 107 bytes; the longest name below it is ".s.PGSQL.5432.lock".
LONGEST_SOCKET_DIR = 85
SERVICE_USERS = ("postgres", "nobody")


class NoServiceUser(SystemExit):
    """Root has no unprivileged user to whom it could hand the servers."""


@dataclass(frozen=True)
class Places:
    """
    ``state``: private (secrets, state.json, logs). ``shared``: what the unprivileged user must
    reach (servers' data, agents' state); equal to ``state`` where nobody else is involved.
    ``user``: who runs the servers; None means ourselves.
    """

    state: Path
    shared: Path
    sockets: Path
    user: pwd.struct_passwd | None

    def own(self, path: Path, mode: int = 0o700) -> Path:
        """Make the folder ``path``, owned by whoever runs the servers."""
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        path.chmod(mode)
        return path

    def as_user(self) -> dict[str, object]:
        """Return the arguments of subprocess that drop root's rights, all groups included."""
        if self.user is None:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}


def choose(state: Path) -> Places:
    """Decide the places of the deployment whose private folder is ``state``, and make them."""
    state = state.resolve()
    user = _service_user() if os.geteuid() == 0 else None
    # Passable for the unprivileged user where the servers' data lie inside; listable for nobody.
    state.mkdir(mode=0o711 if user else 0o700, parents=True, exist_ok=True)
    short = _fingerprint(state)
    shared = state
    if user is not None and not reachable(state):
        shared = SHARED_ROOT / short
        shared.mkdir(mode=0o755, parents=True, exist_ok=True)
        SHARED_ROOT.chmod(0o755)
    places = Places(state=state, shared=shared, sockets=_socket_dir(shared, short), user=user)
    places.own(places.sockets)
    return places


def forget(state: Path) -> None:
    """Remove everything that ``choose`` may have put outside the checkout (``make clean``)."""
    short = _fingerprint(state.resolve())
    for path in (SHARED_ROOT / short, Path(f"/tmp/tessera-{os.geteuid()}-{short}")):
        shutil.rmtree(path, ignore_errors=True)


def reachable(path: Path) -> bool:
    """Tell whether any user may pass through every folder from / down to ``path``."""
    folders = [path, *path.parents] if path.is_dir() else list(path.parents)
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in folders if folder.exists())


def _service_user() -> pwd.struct_passwd:
    for name in SERVICE_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        if user.pw_uid != 0:
            return user
    raise NoServiceUser(
        "PostgreSQL does not run as root, and this machine has neither a user 'postgres' nor "
        "'nobody'. Start as an ordinary user, or set DATABASE_URL and REDIS_URL."
    )


def _fingerprint(state: Path) -> str:
    return hashlib.sha256(str(state).encode()).hexdigest()[:10]


def _socket_dir(shared: Path, short: str) -> Path:
    inside = shared / "run"
    if len(os.fsencode(inside)) <= LONGEST_SOCKET_DIR:
        return inside
    # Named after the user: whoever made the name first in /tmp must not own our sockets.
    return _private_tmp(Path(f"/tmp/tessera-{os.geteuid()}-{short}"))


def _private_tmp(path: Path) -> Path:
    path.mkdir(mode=0o700, exist_ok=True)
    owner = path.lstat()
    allowed = {os.geteuid()} | ({_service_user().pw_uid} if os.geteuid() == 0 else set())
    if stat.S_ISLNK(owner.st_mode) or owner.st_uid not in allowed:
        raise SystemExit(f"{path} belongs to somebody else; remove it or choose another folder")
    return path
