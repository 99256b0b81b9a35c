"""Questions to a process: do you answer, have you done anything lately?"""

import http.client
import time
from collections.abc import Callable
from pathlib import Path


def answers_http(port: int, path: str = "/healthz") -> Callable[[], bool]:
    """Return a probe: a GET on 127.0.0.1 is answered with 2xx within two seconds."""

    def probe() -> bool:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            link.request("GET", path)
            return 200 <= link.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()

    return probe


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
