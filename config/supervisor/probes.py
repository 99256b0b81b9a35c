"""Questions to a process: are you there, have you done anything lately?"""

import time
from collections.abc import Callable
from pathlib import Path


def touched_within(path: Path, seconds: float) -> Callable[[], bool]:
    """Return a probe: the file was touched within the last ``seconds``."""

    def probe() -> bool:
        try:
            return time.time() - path.stat().st_mtime < seconds
        except FileNotFoundError:
            return False

    return probe


def exists(path: Path) -> Callable[[], bool]:
    """Return a probe: the process has touched its file since ``fresh`` removed it."""
    return path.exists


def fresh(path: Path) -> Callable[[], bool]:
    """Return a preparation: the file of the last life is gone, so that it vouches for nobody."""

    def prepare() -> bool:
        path.unlink(missing_ok=True)
        return True

    return prepare
