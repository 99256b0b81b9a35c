"""Start a child that cannot outlive its parent and that has a process group of its own."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(how: signal.Signals) -> None:
    """Ask the kernel to send ``how`` to this process when its parent dies, even by SIGKILL."""
    _libc.prctl(PR_SET_PDEATHSIG, int(how), 0, 0, 0)


def _preparation(how: signal.Signals) -> Callable[[], None]:
    parent = os.getpid()

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        die_with_parent(how)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return prepare


def start(
    command: Sequence[str],
    log: IO[bytes],
    as_user: Mapping[str, Any],
    on_parents_death: signal.Signals,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """
    Start ``command`` in its own session, so that a Ctrl-C at the terminal reaches only us and
    one signal to the group reaches all that it started.

    :param as_user: user, group and extra_groups of subprocess, or nothing
    """
    return subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_preparation(on_parents_death),
        env=None if env is None else dict(env),
        cwd=cwd,
        pass_fds=tuple(pass_fds),
        **as_user,
    )
